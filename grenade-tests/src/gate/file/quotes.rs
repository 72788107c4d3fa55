//! The slip that is made most: a place in braces without quotes is a mapping in YAML.

use tidegate_planner::document::Finding;

const ADVICE: &str = "; a place in braces needs quotes, as in \"{port}\"";

/// The findings, with an advice for those in a line that has such a place.
pub(super) fn advised(text: &str, findings: Vec<Finding>) -> Vec<Finding> {
    let advised = |mut finding: Finding| {
        let at = usize::try_from(finding.line).unwrap_or(0).checked_sub(1);
        if at.and_then(|at| text.lines().nth(at)).is_some_and(has_bare_place) {
            finding.what.push_str(ADVICE);
        }
        finding
    };
    findings.into_iter().map(advised).collect()
}

/// Whether `{word}` is outside of quotes.
fn has_bare_place(line: &str) -> bool {
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (None, '#') => return false,
            (None, '{') => {
                let word = line[at + 1..].split('}').next().unwrap_or_default();
                let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
                if !word.is_empty() && word.len() + at + 1 < line.len() && word.chars().all(is_word) {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::has_bare_place;

    #[test]
    fn place_without_quotes_is_seen() {
        for (line, bare) in [
            ("command: [server, --port, {port}]", true),
            ("command: [{source}/server, \"{port}\"]", true),
            ("command: [server, \"{port}\", '{node}']", false),
            ("request: {path: /items}", false),
            ("set: {}  # {port}", false),
            ("set: {title", false),
        ] {
            assert_eq!(has_bare_place(line), bare, "{line}");
        }
    }
}
