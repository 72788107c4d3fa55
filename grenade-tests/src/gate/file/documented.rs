//! The steps of an upgrade as the documentation of the service has them.

use crate::load::findings::Findings;

/// Any text, also none.
const ANY: char = '…';

/// Commands in their order; `…` in them is any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Documented(Vec<String>);

impl Documented {
    /// Each step.
    pub fn steps(&self) -> &[String] {
        &self.0
    }
}

/// The steps, checked.
pub fn documented_of(written: Option<Vec<String>>, findings: &mut Findings) -> Option<Documented> {
    let written = written?;
    if written.is_empty() {
        findings.add("documented", "is empty; at least one command is needed, or leave it out");
    }
    for (n, step) in written.iter().enumerate() {
        let field = format!("documented[{n}]");
        if step.chars().all(|c| c.is_whitespace() || c == ANY) {
            findings.add(&field, format!("`{step}` names no command; `{ANY}` is for a part of one"));
        } else if step.chars().any(|c| c.is_control() && c != '\n') {
            findings.add(&field, "has control characters");
        }
    }
    Some(Documented(written))
}

/// Whether a command is the documented one. Spaces and line ends between words are all alike.
pub fn is_documented(step: &str, command: &str) -> bool {
    let spaced = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (step, command) = (spaced(step), spaced(command));
    let mut parts = step.split(ANY);
    let Some(mut left) = parts.next().and_then(|first| command.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return left.is_empty() };
    for part in middle {
        // The first place leaves most to those that follow.
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::is_documented;

    #[test]
    fn free_part_is_any_text_and_the_rest_is_literal() {
        let command = "tidegate upgrade start /run/7/upgrade.yaml --id gate";
        for (step, right) in [
            (command, true),
            ("tidegate upgrade start … --id …", true),
            ("tidegate  upgrade\nstart … --id gate", true),
            ("…upgrade.yaml…", true),
            ("…", true),
            ("tidegate upgrade start …", true),
            ("tidegate upgrade start … --id …gate", true),
            ("tidegate upgrade start … --id gates", false),
            ("upgrade start … --id gate", false),
            ("tidegate upgrade start …yaml …yaml --id gate", false),
            ("tidegate upgrade start", false),
            ("tidegate upgrade … start", false),
        ] {
            assert_eq!(is_documented(step, command), right, "{step}");
        }
        assert!(!is_documented("ab…b", "ab"), "no part is used twice");
    }
}
