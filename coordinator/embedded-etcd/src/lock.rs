//! The exclusive lock on a store's directory: a file that is locked while the store is open and names its holder.
//!
//! The lock is the kernel's and goes with the process, however it ends; the text is only for people.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

/// Name of the lock file in the store's directory.
const FILE: &str = "lock";

/// Why a directory could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process, or another handle of this one, has the store open.
    #[error(
        "the store in {dir} is already open by {holder}; it is for a single coordinator: stop that one, talk to it, \
         or use a real etcd"
    )]
    Held {
        /// The store's directory.
        dir: PathBuf,
        /// What the holder wrote about itself: its process id and its own words.
        holder: String,
    },
    /// The lock file could not be made, locked or written.
    #[error("could not lock {path}")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// A held lock; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct DirLock {
    _file: File,
}

impl DirLock {
    /// Locks a directory that exists, for `holder`.
    pub(crate) fn take(dir: &Path, holder: &str) -> Result<Self, LockError> {
        let path = dir.join(FILE);
        let io = |source| LockError::Io { path: path.clone(), source };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(io)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(LockError::Held { dir: dir.to_path_buf(), holder: read_holder(&mut file) });
            }
            Err(errno) => return Err(io(errno.into())),
        }
        write_holder(&mut file, holder).map_err(io)?;
        Ok(Self { _file: file })
    }
}

fn write_holder(file: &mut File, holder: &str) -> std::io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    writeln!(file, "process {} ({holder})", std::process::id())
}

fn read_holder(file: &mut File) -> String {
    let mut text = String::new();
    // The text is bounded by what a holder writes; a file that someone else filled is cut off.
    match file.take(4096).read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "an unnamed process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_refused_with_the_name_of_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = DirLock::take(dir.path(), "127.0.0.1:7379").unwrap();
        let refused = DirLock::take(dir.path(), "other").unwrap_err().to_string();
        let expected = format!("process {} (127.0.0.1:7379)", std::process::id());
        assert!(refused.contains(&expected), "{refused}");
        drop(first);
        DirLock::take(dir.path(), "other").unwrap();
    }
}
