//! The identity of this agent: a nonce in its locked state directory, and the machine's boot ID. Two agents never share a
//! directory; two directories never share a nonce.

use crate::durable;
use crate::exclusive;
use crate::file_error::FileError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use tidegate_proto::record::report::Identity;

/// The state directory, held by this process until it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    /// The identity of this agent.
    pub identity: Identity,
    _lock: File,
}

/// Why this process may not be the agent of a state directory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotHeld {
    /// Another process holds it.
    #[error(
        "state directory {} is held by another agent (pid {pid}): stop that one, or give this one a state_dir of its own",
        directory.display()
    )]
    Busy {
        directory: PathBuf,
        /// What the holder wrote into the lock.
        pid: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The nonce's file does not hold a nonce.
    #[error(
        "{} does not hold a nonce (found {found:?}): restore it, or remove it to make this a new agent",
        path.display()
    )]
    Nonce {
        /// The file.
        path: PathBuf,
        /// Its beginning.
        found: String,
    },
}

/// Takes the state directory: makes it where it is missing, locks it for as long as the answer lives.
pub(crate) fn hold(state_dir: &Path) -> Result<Held, NotHeld> {
    fs::create_dir_all(state_dir).map_err(FileError::at("make the directory", state_dir))?;
    let path = state_dir.join("agent.lock");
    let mut lock = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(FileError::at("open", &path))?;
    if exclusive::lock(&lock).is_err() {
        let mut pid = String::new();
        // The holder's pid is for people; a lock that cannot be read is still a lock.
        let _ = lock.read_to_string(&mut pid);
        let pid = if pid.trim().is_empty() { "unknown".to_owned() } else { pid.trim().to_owned() };
        return Err(NotHeld::Busy { directory: state_dir.to_owned(), pid });
    }
    lock.set_len(0).and_then(|()| lock.rewind()).map_err(FileError::at("write", &path))?;
    writeln!(lock, "{}", std::process::id()).map_err(FileError::at("write", &path))?;
    Ok(Held { identity: read(state_dir)?, _lock: lock })
}

/// The identity of a state directory, made where there is none yet. Takes no lock: for `admit`, which acts in the
/// name of the agent whether that runs or not.
pub(crate) fn read(state_dir: &Path) -> Result<Identity, NotHeld> {
    Ok(Identity { nonce: nonce(&state_dir.join("nonce"))?, boot: boot()? })
}

fn nonce(path: &Path) -> Result<String, NotHeld> {
    match fs::read_to_string(path) {
        Ok(text) => match uuid::Uuid::parse_str(text.trim()) {
            Ok(nonce) => Ok(nonce.to_string()),
            Err(_) => Err(NotHeld::Nonce { path: path.to_owned(), found: text.chars().take(60).collect() }),
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let fresh = uuid::Uuid::new_v4().to_string();
            match durable::create(path, fresh.as_bytes()) {
                // Another process of the same directory was first: its nonce holds.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => nonce(path),
                made => Ok(made.map(|()| fresh).map_err(FileError::at("write", path))?),
            }
        }
        Err(e) => Err(FileError::at("read", path)(e).into()),
    }
}

/// The boot of this machine, as the kernel names it.
pub(crate) fn boot() -> Result<String, NotHeld> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    Ok(fs::read_to_string(path).map(|id| id.trim().to_owned()).map_err(FileError::at("read", path))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_holder_is_refused_and_names_the_first() {
        let room = tempfile::tempdir().unwrap();
        let first = hold(room.path()).unwrap();
        let refused = hold(room.path()).unwrap_err().to_string();
        assert!(refused.contains(&format!("pid {}", std::process::id())), "{refused}");
        let nonce = first.identity.nonce.clone();
        drop(first);
        assert_eq!(hold(room.path()).unwrap().identity.nonce, nonce);
    }

    #[test]
    fn a_damaged_nonce_is_not_replaced_in_silence() {
        let room = tempfile::tempdir().unwrap();
        fs::write(room.path().join("nonce"), "not one").unwrap();
        assert!(matches!(hold(room.path()), Err(NotHeld::Nonce { .. })));
        assert_eq!(fs::read_to_string(room.path().join("nonce")).unwrap(), "not one");
    }
}
