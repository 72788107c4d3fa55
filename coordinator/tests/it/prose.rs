//! What people read is plain technical English: phrases that have a term of the field are refused in messages, in help,
//! in comments and in the guides.

use crate::rust_source::{Kind, Part, parts, without_tests};
use std::path::{Path, PathBuf};

/// A phrase, and the term of the field.
const PHRASES: [(&str, &str); 38] = [
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
    ("nobody", "no caller, no instance"),
    ("everybody", "every caller, all instances"),
    ("wish", "request"),
    ("fared", "signalled success or failure"),
    ("is let in", "is authorized"),
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

/// Each line that people read, with its number: of literals and of comments.
fn texts(source: &str) -> Vec<(usize, &str)> {
    let is_read = |part: &Part<'_>| match part.kind {
        Kind::Code => false,
        Kind::Comment => true,
        // Names of stored fields, as they once were.
        Kind::Literal => !part.before.trim_start().starts_with("#[serde("),
    };
    let read = parts(source).into_iter().filter(is_read);
    read.flat_map(|part| (part.line..).zip(part.text.lines())).collect()
}

fn has(text: &str, phrase: &str) -> bool {
    let is_word =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    text.match_indices(phrase).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + phrase.len()..].chars().next();
        let is_name = [before, after].iter().any(|letter| matches!(letter, Some('-' | '`')));
        !is_word(before) && !is_word(after) && !is_name
    })
}

fn found(path: &Path) -> Vec<String> {
    let name = path.strip_prefix(root()).unwrap().display().to_string();
    let whole = std::fs::read_to_string(path).unwrap();
    let is_rust = name.ends_with(".rs");
    let shown = if is_rust { without_tests(&whole) } else { &whole };
    let texts = if is_rust { texts(shown) } else { (1..).zip(shown.lines()).collect() };
    let mut found = Vec::new();
    for (line, text) in texts {
        // A literal that is one word is a name.
        let is_text = |phrase: &str| text != phrase && has(&text.to_lowercase(), phrase);
        for (phrase, term) in PHRASES.iter().filter(|(phrase, _)| is_text(phrase)) {
            found.push(format!("{name}:{line}: {phrase:?} is {term:?} here: {text}"));
        }
    }
    found
}

#[test]
fn messages_comments_and_guides_use_the_terms_of_the_field() {
    let mut paths = Vec::new();
    for under in ["coordinator", "node-agent", "migrations", "proto", "grenade-tests"] {
        files(under, ".rs", &mut paths);
    }
    files("proto/proto", ".proto", &mut paths);
    files("coordinator/src", ".yaml", &mut paths);
    files("docs", ".md", &mut paths);
    for file in ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        files(file, ".md", &mut paths);
    }
    assert!(paths.len() > 700, "{} files", paths.len());
    let found: Vec<String> = paths.iter().flat_map(|path| found(path)).collect();
    assert!(found.is_empty(), "{} phrases:\n{}", found.len(), found.join("\n"));
}

#[test]
fn phrase_is_found_in_a_message_and_not_in_a_name() {
    assert!(has("planned anew", "anew") && !has("is_told_anew", "anew") && !has("anewly", "anew"));
    assert!(!has("failed-way-back", "way back") && has("no way back", "way back"));
    assert!(!has("as the user `nobody`", "nobody") && has("nobody leads", "nobody"));
    assert_eq!(texts("let x = \"a\nb\"; y(\"c\")"), [(1, "a"), (2, "b"), (2, "c")]);
    assert_eq!(texts("/// Help.\nfn told() {}"), [(1, "/// Help.")]);
    assert!(texts("#[serde(alias = \"told\")]").is_empty());
}
