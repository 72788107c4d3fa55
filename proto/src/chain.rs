//! An error with all of its causes.

use std::error::Error;
use std::fmt::{self, Write as _};

/// Shows an error with all of its causes on one line, each cause once.
pub struct Chain<'a>(pub &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        let mut cause = self.0.source();
        while let Some(error) = cause {
            let next = error.to_string();
            // Some libraries paste their source into their own message.
            if !text.contains(&next) {
                let _ = write!(text, ": {next}");
            }
            cause = error.source();
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Layer(&'static str, #[source] Option<Box<Layer>>);

    #[test]
    fn cause_that_is_part_of_its_effect_is_shown_once() {
        let disk = Layer("no space left", None);
        let pasted = Layer("could not write: no space left", Some(Box::new(disk)));
        let outer = Layer("the journal is not kept", Some(Box::new(pasted)));
        assert_eq!(Chain(&outer).to_string(), "the journal is not kept: could not write: no space left");
    }
}
