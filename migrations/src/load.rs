//! From a directory to a set of migrations, or to every finding at once.

mod file;
mod schema;

pub use schema::json_schema;

use crate::finding::{Finding, Rule, listing};
use crate::lint;
use crate::unit::{Migration, MigrationSet};
use file::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The largest file that is read: what the design allows a record to be.
const MAX_BYTES: u64 = 1 << 20;

/// Why a directory of migrations cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The directory or a file in it cannot be read.
    #[error("could not read migrations at {}", path.display())]
    Unreadable {
        /// What was read.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// What was read breaks rules.
    #[error("{}", listing(.0))]
    Findings(Vec<Finding>),
}

impl MigrationSet {
    /// Reads, parses and lints every `NNNN_name.toml` of a directory.
    ///
    /// # Errors
    /// Every finding at once, each with its file and step; or the path that cannot be read.
    pub fn load(directory: &Path) -> Result<Self, LoadError> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |source| LoadError::Unreadable { path, source }
        };
        let mut files = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(unreadable(directory))? {
            let path = entry.map_err(unreadable(directory))?.path();
            if path.extension().is_some_and(|e| e == "toml") {
                files.push(path);
            }
        }
        files.sort();
        let mut findings = Vec::new();
        let mut migrations: Vec<Migration> = Vec::new();
        for path in &files {
            if !well_named(path) {
                let found =
                    format!("a file named `{}`", path.file_name().unwrap_or_default().to_string_lossy());
                findings.push(Finding::of_file(
                    path,
                    None,
                    Rule::Form,
                    found,
                    "NNNN_name.toml, such as 0002_add_size.toml",
                ));
                continue;
            }
            let text = read_bounded(path).map_err(unreadable(path))?;
            match File::parse(path, &text) {
                Ok(file) => migrations.push(file.into_migration(path, &mut findings)),
                Err(finding) => findings.push(*finding),
            }
        }
        for pair in migrations.windows(2) {
            if number(&pair[0]) == number(&pair[1]) {
                let found = format!("number {} again, after {}", number(&pair[1]), pair[0].id);
                findings.push(Finding::of_file(pair[1].file(), None, Rule::Form, found, "each number once"));
            }
        }
        for migration in &migrations {
            findings.extend(lint::lint(migration));
        }
        let findings = lint::once(findings);
        if findings.is_empty() {
            Ok(MigrationSet::new(migrations))
        } else {
            Err(LoadError::Findings(findings))
        }
    }
}

/// `NNNN_name.toml`: four digits, then lower-case letters, digits and `_`, at most 100 bytes.
fn well_named(path: &Path) -> bool {
    let Some(stem) = path.file_stem().and_then(|s| s.to_str()) else { return false };
    let bytes = stem.as_bytes();
    let rest = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'_';
    bytes.len() > 5
        && bytes.len() <= 100
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[4] == b'_'
        && bytes[5..].iter().all(rest)
}

fn read_bounded(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        let found = format!("the file is larger than {MAX_BYTES} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, found));
    }
    Ok(text)
}

/// The number in the file's name, which was seen to be there.
fn number(migration: &Migration) -> String {
    migration.file().file_stem().unwrap_or_default().to_string_lossy().chars().take(4).collect()
}
