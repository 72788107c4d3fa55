//! The files that mutation begins from, and those that broke something.

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// One file of a corpus.
#[derive(Debug, Clone)]
pub struct Seed {
    /// Its name, for messages.
    pub name: String,
    /// What it holds.
    pub bytes: Vec<u8>,
}

impl Seed {
    /// A seed that is not a file of the corpus.
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { name: name.into(), bytes: bytes.into() }
    }

    /// Every file of a directory, in the order of their names.
    ///
    /// # Panics
    /// Where the directory or a file cannot be read.
    pub fn all_in(directory: &Path) -> Vec<Self> {
        let entries = std::fs::read_dir(directory)
            .unwrap_or_else(|e| panic!("could not read the corpus {}: {e}", directory.display()));
        let mut paths: Vec<PathBuf> =
            entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
        paths.retain(|path| path.is_file());
        paths.sort();
        let seed = |path: &PathBuf| {
            let bytes =
                std::fs::read(path).unwrap_or_else(|e| panic!("could not read {}: {e}", path.display()));
            Seed::new(path.file_name().unwrap_or_default().to_string_lossy(), bytes)
        };
        paths.iter().map(seed).collect()
    }
}

/// Keeps an input that broke something, so that every later run begins with it. Answers its path.
pub(crate) fn keep(directory: &Path, bytes: &[u8]) -> PathBuf {
    let digest = hex::encode(Sha256::digest(bytes));
    let path = directory.join(format!("failed-{}", &digest[..16]));
    let kept = std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&path, bytes));
    if let Err(error) = kept {
        eprintln!("could not keep {}: {error}", path.display());
    }
    path
}
