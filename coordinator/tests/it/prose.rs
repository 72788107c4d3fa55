//! What people read is plain technical English: phrases that have a term of the field are refused in messages, in help
//! and in the guides.

use std::path::{Path, PathBuf};

/// A phrase, and the term of the field.
const PHRASES: [(&str, &str); 33] = [
    ("anew", "again"),
    ("mend", "fix"),
    ("mended", "fixed"),
    ("errand", "task"),
    ("stands in preflight", "phase: preflight"),
    ("stands in roll", "phase: roll"),
    ("stands in contract", "phase: contract"),
    ("turn back", "roll back"),
    ("turned back", "rolled back"),
    ("way back", "rollback"),
    ("let go", "deregistered, stopped sending requests"),
    ("lets go", "deregisters, stops sending requests"),
    ("told anew", "ordered again"),
    ("told of success", "signalled success"),
    ("told of failure", "signalled failure"),
    ("lets nobody in", "revoked, not authorized"),
    ("kept out by a person", "in maintenance"),
    ("whoever bears", "a caller with"),
    ("at the door", "at the border, when it is parsed"),
    ("given up", "failed, aborted"),
    ("foresee", "preview"),
    ("ponder", "validate"),
    ("harbour", "what it does"),
    ("waiting for a person is no failure", "none (manual approval)"),
    ("told", "reported, signalled"),
    ("tells of", "reports"),
    ("whoever", "any caller that"),
    ("somebody", "a person, an instance"),
    ("wishes", "requests"),
    ("stands for leader", "campaigns"),
    ("stand for leader", "campaign"),
    ("stands in the way", "blocks"),
    ("was planned on", "was compared"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn files(under: &str, extension: &str, found: &mut Vec<PathBuf>) {
    let path = root().join(under);
    if path.is_file() {
        return found.push(path);
    }
    for entry in std::fs::read_dir(&path).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true => files(&name, extension, found),
            false if name.ends_with(extension) && !name.contains("/tests") => found.push(path),
            false => {}
        }
    }
}

/// Each text of a line that people read: a literal, and in the command line's files what becomes help.
fn texts(line: &str, is_cli: bool) -> Vec<&str> {
    let line = line.trim();
    // Names of stored fields, as they once were.
    if line.starts_with("#[serde(") {
        return Vec::new();
    }
    if line.starts_with("//") {
        let is_help = is_cli && line.starts_with("///");
        return if is_help { vec![line] } else { Vec::new() };
    }
    let mut texts = Vec::new();
    let mut rest = line;
    while let Some(begin) = rest.find('"') {
        let text = &rest[begin + 1..];
        let mut escaped = false;
        let end = text.find(|letter| {
            let ends = letter == '"' && !escaped;
            escaped = letter == '\\' && !escaped;
            ends
        });
        let end = end.unwrap_or(text.len());
        texts.push(&text[..end]);
        rest = text.get(end + 1..).unwrap_or_default();
    }
    texts
}

fn has(text: &str, phrase: &str) -> bool {
    let is_word =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    text.match_indices(phrase).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        !is_word(before) && !is_word(after) && before != Some('-') && after != Some('-')
    })
}

fn found(path: &Path) -> Vec<String> {
    let name = path.strip_prefix(root()).unwrap().display().to_string();
    let whole = std::fs::read_to_string(path).unwrap();
    let is_rust = name.ends_with(".rs");
    let is_cli = name.contains("/cli");
    let shown = if is_rust { whole.split("#[cfg(test)]").next().unwrap_or_default() } else { &whole };
    let mut found = Vec::new();
    for (number, line) in shown.lines().enumerate() {
        let texts = if is_rust { texts(line, is_cli) } else { vec![line] };
        for text in texts {
            for (phrase, term) in PHRASES.iter().filter(|(phrase, _)| has(&text.to_lowercase(), phrase)) {
                found.push(format!("{name}:{}: {phrase:?} is {term:?} here: {text}", number + 1));
            }
        }
    }
    found
}

#[test]
fn messages_and_guides_use_the_terms_of_the_field() {
    let mut paths = Vec::new();
    let gates = ["grenade-tests/src/gate", "grenade-tests/src/load", "grenade-tests/src/demo"];
    for under in ["coordinator", "node-agent/src", "migrations/src", "proto/src"].into_iter().chain(gates) {
        files(under, ".rs", &mut paths);
    }
    files("coordinator/src", ".yaml", &mut paths);
    files("docs", ".md", &mut paths);
    for file in ["README.md", "CONTRIBUTING.md"] {
        files(file, ".md", &mut paths);
    }
    assert!(paths.len() > 200, "{} files", paths.len());
    let found: Vec<String> = paths.iter().flat_map(|path| found(path)).collect();
    assert!(found.is_empty(), "{} phrases:\n{}", found.len(), found.join("\n"));
}

#[test]
fn phrase_is_found_in_a_message_and_in_help_and_not_in_a_name() {
    assert!(has("planned anew", "anew") && !has("is_told_anew", "anew") && !has("anewly", "anew"));
    assert!(!has("failed-way-back", "way back") && has("no way back", "way back"));
    assert_eq!(texts(r#"let x = "a \" b"; y("c")"#, false), [r#"a \" b"#, "c"]);
    assert_eq!(texts("/// Help.", true), ["/// Help."]);
    assert!(texts("/// Not help.", false).is_empty() && texts("// anew", true).is_empty());
}
