//! Logs: to stderr, so that stdout is data. `RUST_LOG` chooses what is told; spans are named for their role
//! (`turn`, `action`) and ids always stand under the same names (`node`, `service`, `upgrade`).

use std::error::Error;
use std::fmt::{self, Write as _};
use tracing_subscriber::EnvFilter;

/// Begins to log; `default` where `RUST_LOG` says nothing. Called once, by main.
pub fn begin(default: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        .init();
}

/// An error with all of its causes, on one line, for whoever logs it.
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
