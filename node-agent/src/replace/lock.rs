//! The lock file that a service or a hook inherits and holds while it runs. It is held as long as any of its processes
//! lives, so it shows what runs even if the journal was lost. Its text says what it was taken for and which process got
//! it: a program that closes the inherited file is known by that.

use super::proc_stat;
use crate::identity;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use tidegate_proto::{ReleaseTag, mutant};

/// The name of the lock of a service.
pub(crate) const NAME: &str = "running.lock";

/// The lock of the service whose directory is `home`, or of its hooks.
#[derive(Debug, Clone)]
pub(crate) struct RunningLock(PathBuf);

/// The text of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    /// What it was taken for.
    pub label: String,
    /// Whether that was in this boot of the machine.
    pub this_boot: bool,
    /// The process that it was given to, once that has begun, and when that started, in the kernel's ticks.
    pub leader: Option<(i32, u64)>,
}

impl RunningLock {
    /// The lock `name` within `home`.
    pub(crate) fn named(home: &Path, name: &str) -> Self {
        Self(home.join(name))
    }

    /// Whether anything of it runs.
    pub(crate) fn is_held(&self) -> io::Result<bool> {
        Ok(self.leader().is_some() || self.is_locked()?)
    }

    /// Whether any process holds the file open and locked.
    pub(crate) fn is_locked(&self) -> io::Result<bool> {
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

    /// The process that it was given to, while that runs.
    pub(crate) fn leader(&self) -> Option<i32> {
        let written = self.written()?;
        let (pid, ticks) = written.leader.filter(|_| written.this_boot)?;
        proc_stat::runs(pid, ticks).then_some(pid)
    }

    /// The same where the agent may have been ended before it wrote the process down: then, of the processes that
    /// hold the lock, the one that leads its group. What it left behind is no leader.
    pub(crate) fn leader_if_unsigned_too(&self) -> Option<i32> {
        let written = self.written()?;
        match written.leader {
            Some(_) => self.leader(),
            None if written.this_boot && self.is_locked().unwrap_or(true) => {
                self.holders().into_iter().find(|pid| proc_stat::leads_its_group(*pid))
            }
            None => None,
        }
    }

    /// Takes the lock for `label`, to be inherited; none where it is held.
    pub(crate) fn take(&self, label: &str) -> io::Result<Option<File>> {
        if self.leader().is_some() && !mutant::is("start-without-the-lock") {
            return Ok(None);
        }
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&self.0)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) if mutant::is("start-without-the-lock") => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
        // Not flushed: after a power cut nothing runs that it would describe.
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{label} {}", boot())?;
        Ok(Some(file))
    }

    /// Forgets its holders: what is left of them is not what it is taken for next.
    pub(crate) fn leave_behind(&self) -> io::Result<()> {
        match fs::remove_file(&self.0) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    /// Its text, if it was ever taken.
    pub(crate) fn written(&self) -> Option<Written> {
        let text = fs::read_to_string(&self.0).ok()?;
        let mut words = text.split_whitespace();
        let label = words.next()?.to_owned();
        let this_boot = words.next().is_some_and(|word| word == boot());
        let leader = words.next().zip(words.next());
        let leader = leader.and_then(|(pid, ticks)| Some((pid.parse().ok()?, ticks.parse().ok()?)));
        Some(Written { label, this_boot, leader })
    }

    /// The release that it was taken for last.
    pub(crate) fn tag(&self) -> Option<ReleaseTag> {
        self.written()?.label.parse().ok()
    }

    /// The processes that hold it open, lowest first. Looks at every process of the machine, so only when one is to
    /// be stopped that the journal does not name.
    pub(crate) fn holders(&self) -> Vec<i32> {
        let Ok(ours) = fs::metadata(&self.0) else { return Vec::new() };
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let mut found: Vec<i32> = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| *pid != own && has_open(*pid, &ours))
            .chain(self.leader())
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Writes into the file of a lock that was taken which process it was given to. Where that fails, the lock still shows
/// that a process holds it.
pub(crate) fn sign(file: impl AsFd, pid: i32) {
    if let Some(ticks) = proc_stat::ticks(pid) {
        let _ = rustix::io::write(file, format!("{pid} {ticks}\n").as_bytes());
    }
}

/// This boot of the machine: the same for as long as this process lives.
fn boot() -> &'static str {
    static BOOT: LazyLock<String> = LazyLock::new(|| identity::boot().unwrap_or_default());
    &BOOT
}

fn has_open(pid: i32, file: &fs::Metadata) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.flatten().any(|entry| {
        let named =
            fs::read_link(entry.path()).is_ok_and(|path| path.extension().is_some_and(|e| e == "lock"));
        named && fs::metadata(entry.path()).is_ok_and(|m| m.dev() == file.dev() && m.ino() == file.ino())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_lock_is_not_taken_again() {
        let room = tempfile::tempdir().unwrap();
        let lock = RunningLock::named(room.path(), NAME);
        let tag: ReleaseTag = "pantry-1".parse().unwrap();
        assert!(!lock.is_held().unwrap());
        let held = lock.take(tag.as_str()).unwrap().expect("it is free");
        assert!(lock.is_held().unwrap());
        assert!(lock.take(tag.as_str()).unwrap().is_none());
        assert_eq!(lock.tag(), Some(tag));
        drop(held);
        assert!(!lock.is_held().unwrap());
    }

    #[test]
    fn closed_lock_fd_counts_as_running_unless_rebooted() {
        let room = tempfile::tempdir().unwrap();
        let lock = RunningLock::named(room.path(), NAME);
        let mut held = lock.take("pantry-1").unwrap().expect("it is free");
        let pid = i32::try_from(std::process::id()).unwrap();
        let ticks = proc_stat::ticks(pid).unwrap();
        writeln!(held, "{pid} {ticks}").unwrap();
        drop(held);
        assert_eq!((lock.is_locked().unwrap(), lock.leader()), (false, Some(pid)));
        assert!(lock.is_held().unwrap() && lock.take("pantry-2").unwrap().is_none());
        assert_eq!(lock.holders(), [pid]);
        for other in
            [format!("pantry-1 {} {pid} {}", boot(), ticks + 1), format!("pantry-1 other {pid} {ticks}")]
        {
            fs::write(room.path().join(NAME), &other).unwrap();
            assert!(!lock.is_held().unwrap(), "{other}");
        }
        // As an older agent wrote it.
        fs::write(room.path().join(NAME), "pantry-1").unwrap();
        assert_eq!(lock.tag(), Some("pantry-1".parse().unwrap()));
    }
}
