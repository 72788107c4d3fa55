//! Errors of a node.

use crate::file_error::FileError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tidegate_proto::{Digest, ReleaseTag, ServiceName};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// Not within its time.
    #[error("{url} did not answer within {} ms", limit.as_millis())]
    Late {
        /// What was asked.
        url: String,
        limit: Duration,
    },
    /// Nothing listens there.
    #[error("nothing listens at {url}")]
    Refused {
        /// What was asked.
        url: String,
    },
    /// What it answers holds no number.
    #[error("{url} answers no number: {found}")]
    NoNumber {
        /// What was asked.
        url: String,
        found: String,
    },
    /// No connection, or no HTTP on it.
    #[error("could not ask {url}: {found}")]
    Broken {
        /// What was asked.
        url: String,
        found: String,
    },
}

/// A program that did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum NotRun {
    /// It could not be started.
    #[error("could not start {program}")]
    Start {
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It took too long; its process group was killed.
    #[error("{program} did not end within {} s and was killed", limit.as_secs_f64())]
    Late { program: String, limit: Duration },
}

/// Why the code of a release is not there.
#[derive(Debug, thiserror::Error)]
pub enum NotStaged {
    /// The configuration knows no artifact for the tag.
    #[error("this agent's configuration names no artifact for release {0}: add one, then restart the agent")]
    Unknown(ReleaseTag),
    /// The artifact is not the one that was asked for.
    #[error("the artifact {} of release {tag} has sha256 {found}, asked for is {wanted}: it was not staged", path.display())]
    Digest {
        tag: ReleaseTag,
        /// The file.
        path: PathBuf,
        found: Digest,
        /// The digest that the directive or the configuration asks for.
        wanted: Digest,
    },
    /// What was staged before is not what was asked for.
    #[error("no file in {} has sha256 {wanted}: release {tag} is not what was asked for", directory.display())]
    Missing {
        tag: ReleaseTag,
        directory: PathBuf,
        /// The digest that was asked for.
        wanted: Digest,
    },
    /// The artifact is larger than the configuration allows.
    #[error("the artifact {} is larger than {most} bytes (`max_bytes` of this artifact): it was not staged", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        most: u64,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The stage hook did not do it.
    #[error("the stage hook failed: {0}")]
    Hook(String),
    /// Nothing says which digest to verify.
    #[error(
        "nothing says which sha256 release {tag} has: in [service.{service}.artifact.\"{tag}\"] of this agent's \
         configuration set sha256 to that of the file which the stage hook brings, or to \"absent\" where there is none \
         to verify, and restart the agent; or let the stage hook print the sha256 as its last line"
    )]
    NoDigest { tag: ReleaseTag, service: ServiceName },
    /// The directive declares that there is no digest, and this node does not.
    #[error(
        "the directive declares that release {tag} has no sha256 to verify, and this agent's configuration does not: set \
         sha256 = \"absent\" in [service.{service}.artifact.\"{tag}\"] here too, then restart the agent"
    )]
    NotDeclared { tag: ReleaseTag, service: ServiceName },
    /// The directive and the configuration disagree.
    #[error(
        "release {tag} should have sha256 {wanted}, and this agent's configuration pins {pinned}: it was not staged"
    )]
    Pinned {
        tag: ReleaseTag,
        /// The digest that the directive asks for.
        wanted: Digest,
        /// The digest that the configuration pins.
        pinned: Digest,
    },
}

/// Why a service was not started or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// Something of it runs still.
    #[error("something of the service still runs (pids {pids:?} hold its lock): not started a second time")]
    Running {
        /// The processes that hold the lock.
        pids: Vec<i32>,
    },
    /// It outlived SIGKILL.
    #[error("the service did not end: pids {pids:?} still hold its lock {} s after SIGKILL", waited.as_secs())]
    Outlived {
        /// The processes that hold the lock.
        pids: Vec<i32>,
        /// How long it was waited for.
        waited: Duration,
    },
    /// A file or the process itself.
    #[error(transparent)]
    System(#[from] FileError),
}
