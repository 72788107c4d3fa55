//! Why a store could not be opened.

use std::path::PathBuf;

use crate::lock::LockError;

/// Why a store could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory is locked by someone else, or cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The directory cannot be made or made durable.
    #[error("could not make the store's directory {dir}")]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// redb could not open or read its file.
    #[error("could not open the store's file {file}")]
    Database {
        /// The file.
        file: PathBuf,
        /// What redb said.
        #[source]
        source: Box<redb::Error>,
    },
    /// The file was written by another version of this program.
    #[error(
        "the store's file {file} has layout {found}, this version knows only {known}: open it with the version that wrote it"
    )]
    Layout {
        /// The file.
        file: PathBuf,
        /// The layout number in the file.
        found: u64,
        /// The one that this version knows.
        known: u64,
    },
    /// A row of the file is not what this program wrote.
    #[error("could not read {what} in the store's file {file}: restore the file from a copy")]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Which row.
        what: String,
    },
    /// The thread that writes the file could not be started.
    #[error("could not start the thread that writes the store's file")]
    Thread {
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The thread that writes the file ended before it had opened it.
    #[error("the thread that writes the store's file ended before the file was open")]
    Interrupted,
}
