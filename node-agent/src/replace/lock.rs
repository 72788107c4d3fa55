//! The lock that a service holds while it runs: an open, locked file that it inherits. As long as any process of the
//! service lives, the lock is held; so it tells what runs even where the journal was lost.

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tidegate_proto::{ReleaseTag, mutant};

/// The file's name in the service's directory.
const NAME: &str = "running.lock";

/// The lock of the service whose directory is `home`.
#[derive(Debug, Clone)]
pub struct RunningLock(PathBuf);

impl RunningLock {
    /// The lock within `home`.
    pub fn within(home: &Path) -> Self {
        Self(home.join(NAME))
    }

    /// Whether anything of the service runs.
    pub fn is_held(&self) -> io::Result<bool> {
        let file = match File::open(&self.0) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(e),
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(e) => Err(e.into()),
        }
    }

    /// Takes the lock for `tag`, to be inherited; none where it is held.
    pub fn take(&self, tag: &ReleaseTag) -> io::Result<Option<File>> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.0)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) if mutant::is("start-without-the-lock") => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
        file.set_len(0)?;
        file.rewind()?;
        write!(file, "{tag}")?;
        file.sync_all()?;
        Ok(Some(file))
    }

    /// The release that it was taken for last.
    pub fn tag(&self) -> Option<ReleaseTag> {
        fs::read_to_string(&self.0).ok()?.trim().parse().ok()
    }

    /// The processes that hold it open, lowest first. Looks at every process of the machine, so only when one is to
    /// be stopped that the journal does not name.
    pub fn holders(&self) -> Vec<i32> {
        let Ok(ours) = fs::metadata(&self.0) else { return Vec::new() };
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let mut found: Vec<i32> = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| *pid != own && has_open(*pid, &ours))
            .collect();
        found.sort_unstable();
        found
    }
}

fn has_open(pid: i32, file: &fs::Metadata) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.flatten().any(|entry| {
        let named = fs::read_link(entry.path()).is_ok_and(|path| path.ends_with(NAME));
        named && fs::metadata(entry.path()).is_ok_and(|m| m.dev() == file.dev() && m.ino() == file.ino())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_not_taken_again() {
        let room = tempfile::tempdir().unwrap();
        let lock = RunningLock::within(room.path());
        let tag: ReleaseTag = "pantry-1".parse().unwrap();
        assert!(!lock.is_held().unwrap());
        let held = lock.take(&tag).unwrap().expect("it is free");
        assert!(lock.is_held().unwrap());
        assert!(lock.take(&tag).unwrap().is_none());
        assert_eq!(lock.tag(), Some(tag));
        drop(held);
        assert!(!lock.is_held().unwrap());
    }
}
