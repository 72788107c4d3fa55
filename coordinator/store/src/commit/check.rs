//! What a commit may be, checked before anything is sent: etcd would refuse most of it too, with fewer words.

use super::transaction::Sent;
use std::collections::HashSet;
use tidegate_proto::{
    Commit, Key, Write, commit::MAX_COMMIT_OPERATIONS, key::Kind, record::MAX_RECORD_BYTES,
};

/// The most bytes of one commit, keys and records together: etcd's limit for a request is 1.5 MiB, and this leaves
/// the rest of it for the frame. A record of the largest size still goes with its event.
pub const MAX_COMMIT_BYTES: usize = 1024 * 1024 + 256 * 1024;

/// A commit that cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCommit {
    /// Neither a condition nor a write.
    #[error("the commit has neither a precondition nor a write")]
    Empty,
    /// Too many of one side.
    #[error("the commit has {found} {what}, at most {MAX_COMMIT_OPERATIONS} are allowed; split it")]
    TooMany {
        /// Preconditions or writes.
        what: &'static str,
        /// How many.
        found: usize,
    },
    /// Too large in all.
    #[error("the commit has {found} bytes, at most {MAX_COMMIT_BYTES} are allowed; split it")]
    TooLarge {
        /// How many bytes.
        found: usize,
    },
    /// One record is too large.
    #[error("the record {key} has {found} bytes, at most {MAX_RECORD_BYTES} are allowed")]
    RecordTooLarge {
        /// Its key.
        key: Box<Key>,
        /// How many bytes.
        found: usize,
    },
    /// A key is written twice.
    #[error("the commit writes {0} twice; a key may be written once")]
    Twice(Box<Key>),
    /// A record under a key of another kind.
    #[error("the commit puts a record of {} under {key}", .found.word())]
    Misplaced {
        /// The key.
        key: Box<Key>,
        /// The kind that the record is of.
        found: Kind,
    },
}

pub(super) fn check(commit: &Commit, sent: &Sent) -> Result<(), InvalidCommit> {
    if commit.when.is_empty() && commit.writes.is_empty() {
        return Err(InvalidCommit::Empty);
    }
    for (what, found) in [("preconditions", commit.when.len()), ("writes", commit.writes.len())] {
        if found > MAX_COMMIT_OPERATIONS {
            return Err(InvalidCommit::TooMany { what, found });
        }
    }
    check_keys(commit)?;
    for put in &sent.puts {
        if put.bytes.len() > MAX_RECORD_BYTES {
            return Err(InvalidCommit::RecordTooLarge {
                key: put.key.clone().into(),
                found: put.bytes.len(),
            });
        }
    }
    let found = sent.bytes();
    if found > MAX_COMMIT_BYTES { Err(InvalidCommit::TooLarge { found }) } else { Ok(()) }
}

fn check_keys(commit: &Commit) -> Result<(), InvalidCommit> {
    let mut written = HashSet::new();
    for write in &commit.writes {
        let (Write::Put(key, _) | Write::Delete(key)) = write;
        if !written.insert(key) {
            return Err(InvalidCommit::Twice(key.clone().into()));
        }
        if let Write::Put(key, value) = write
            && value.kind() != key.kind()
        {
            return Err(InvalidCommit::Misplaced { key: key.clone().into(), found: value.kind() });
        }
    }
    Ok(())
}
