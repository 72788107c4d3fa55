//! An error of a file or a directory.

use std::io;
use std::path::{Path, PathBuf};

/// A file or a directory could not be used.
#[derive(Debug, thiserror::Error)]
#[error("could not {doing} {}", path.display())]
pub struct FileError {
    doing: String,
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    /// `doing`: what was tried, such as `read`.
    pub fn at<D: Into<String>>(doing: D, path: &Path) -> impl FnOnce(io::Error) -> Self + use<D> {
        let (doing, path) = (doing.into(), path.to_owned());
        move |source| Self { doing, path, source }
    }
}
