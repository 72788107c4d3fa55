//! Source files that the documents name are there: a name that has moved sends its reader to the wrong place.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn files(under: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(under).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true if path.ends_with("target") || path.ends_with(".git") => {}
            true => files(&path, extension, found),
            false if path.extension().is_some_and(|is| is == extension) => found.push(path),
            false => {}
        }
    }
}

/// The names of source files in a text: `gate/wave.rs`, whole or by its last parts. Capitals stand for any name.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let is_path = |name: &&str| {
        let plain = name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-/.".contains(&byte));
        plain && name.ends_with(".rs")
    };
    text.split('`').skip(1).step_by(2).filter(is_path)
}

#[test]
fn source_files_named_in_documents_exist() {
    let (mut sources, mut documents) =
        (Vec::new(), vec![root().join("README.md"), root().join("CONTRIBUTING.md")]);
    files(&root(), "rs", &mut sources);
    files(&root().join("docs"), "md", &mut documents);
    let mut missing = Vec::new();
    let mut seen = 0;
    for document in documents {
        let text = std::fs::read_to_string(&document).unwrap();
        for (at, line) in text.lines().enumerate() {
            for name in named(line) {
                seen += 1;
                if !sources.iter().any(|source| source.ends_with(name)) {
                    missing.push(format!("{}:{}: {name}", document.display(), at + 1));
                }
            }
        }
    }
    assert!(seen > 100, "only {seen} names were found");
    assert!(missing.is_empty(), "no such source file:\n{}", missing.join("\n"));
}

/// A `Store` writes without the fence; a coordinator has a `Reader` and the `Fenced` writes of its leadership.
#[test]
fn coordinator_names_no_connection_that_writes_unfenced() {
    let mut sources = Vec::new();
    files(&root().join("coordinator/src"), "rs", &mut sources);
    sources.retain(|path| !path.ends_with("tests.rs"));
    let is_named = |path: &&PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let uses = text.lines().filter(|line| line.contains("tidegate_store"));
        let words =
            uses.flat_map(|line| line.split(|letter: char| !letter.is_alphanumeric() && letter != '_'));
        words.into_iter().any(|word| word == "Store")
    };
    let found: Vec<_> = sources.iter().filter(is_named).collect();
    assert!(sources.len() > 100 && found.is_empty(), "{found:?}");
}
