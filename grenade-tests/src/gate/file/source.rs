//! Where the code of a version is: a directory, or a commit of the gate file's git repository.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::gate::file::command::Command;

/// Where the code of a version is.
#[derive(Debug, Clone, Default)]
pub enum Source {
    /// The command knows.
    #[default]
    None,
    /// A directory.
    Directory(PathBuf),
    /// A commit.
    Git(Commit),
}

/// A commit of the repository that the gate file is in.
#[derive(Debug, Clone)]
pub struct Commit {
    /// A tag, a branch, a commit, or `merge-base BRANCH`.
    pub reference: String,
    /// The commands that build it.
    pub build: Vec<Command>,
    /// Its directory, once it was checked out and built.
    made: OnceLock<PathBuf>,
}

impl Commit {
    /// One that is not checked out yet.
    pub fn new(reference: String, build: Vec<Command>) -> Self {
        Self { reference, build, made: OnceLock::new() }
    }

    /// It was checked out and built there.
    pub fn is_in(&self, directory: PathBuf) {
        // Each is prepared once.
        let _ = self.made.set(directory);
    }
}

impl Source {
    /// Its directory; of a commit, once that was prepared.
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Self::None => None,
            Self::Directory(directory) => Some(directory),
            Self::Git(commit) => commit.made.get().map(PathBuf::as_path),
        }
    }

    /// Whether there is one.
    pub fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }
}
