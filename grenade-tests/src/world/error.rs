//! What may go wrong with a world.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

/// Why a world could not be had.
#[derive(Debug, Error)]
pub enum WorldError {
    /// A program of others is not installed.
    #[error("the program `{program}` is not installed; `make deps` installs it")]
    Missing {
        /// Its name.
        program: String,
    },
    /// A program of this workspace is not built.
    #[error("the program `{program}` is not built: {path} is not there; `cargo build --workspace` builds it")]
    NotBuilt {
        /// Its name.
        program: String,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A process could not be started or signalled.
    #[error("could not {tried} {name}")]
    Process {
        /// What was tried.
        tried: &'static str,
        /// Which process.
        name: String,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// A process ended when it should not have, or ended badly.
    #[error("{name} ended with {status}; its last words: {tail}")]
    Ended {
        /// Which process.
        name: String,
        /// How it ended.
        status: String,
        /// The end of its log.
        tail: String,
    },
    /// Something did not come true in time.
    #[error("waited {limit:?} for {what}; last seen: {seen}")]
    Late {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
        /// What was there instead.
        seen: String,
    },
    /// Files.
    #[error("could not {tried} {path}")]
    Files {
        /// What was tried.
        tried: &'static str,
        /// Which file or directory.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The disk is full.
    #[error(
        "{} has {left} KiB left, and the databases, stores, logs and ledgers of a run need at least {least} KiB at any time: \
         free some, or name another directory (`--artifacts`)", dir.display()
    )]
    Full {
        /// The directory.
        dir: PathBuf,
        /// What is left, in KiB.
        left: u64,
        /// The least that a run needs, in KiB.
        least: u64,
    },
    /// No free port.
    #[error("could not find a free port on the loopback address")]
    Port(#[source] std::io::Error),
    /// The system refused to let orphans come back to us.
    #[error("could not become a child subreaper")]
    Subreaper(#[source] std::io::Error),
    /// A server refuses to run as root, and there is no other user.
    #[error("{server} must not run as root, and there is neither a user `{user}` nor `nobody` to run it as")]
    NoUser {
        /// The server.
        server: &'static str,
        /// The user that its package makes.
        user: &'static str,
    },
    /// A database of a server would have a name that needs quotes.
    #[error("`{0}` is no database name; small letters, digits and `_` are allowed")]
    DatabaseName(String),
    /// A database that was asked did not answer.
    #[error("could not {tried} the database")]
    Database {
        /// What was tried.
        tried: &'static str,
        /// The error of the driver.
        #[source]
        source: sqlx::Error,
    },
    /// A signal asked for the end.
    #[error("interrupted by {0}")]
    Interrupted(&'static str),
}
