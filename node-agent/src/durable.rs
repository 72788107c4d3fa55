//! Files that are whole or absent, whatever happens: written beside, flushed, then moved into place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Replaces the file at `path` by `bytes`; after a crash it holds either what it held or all of `bytes`.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = write_beside(path, bytes)?;
    fs::rename(&beside, path)?;
    flush_directory_of(path)
}

/// The same, but never over a file that is there: `AlreadyExists` then.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    make(path, bytes)?.appear()
}

/// A file that is whole and on the disk, beside the path at which it is to be.
#[derive(Debug)]
pub struct Made {
    path: PathBuf,
    beside: PathBuf,
}

/// Makes a file that is to appear at `path`.
pub fn make(path: &Path, bytes: &[u8]) -> io::Result<Made> {
    Ok(Made { path: path.to_owned(), beside: write_beside(path, bytes)? })
}

impl Made {
    /// It appears at its path, unless a file is there: `AlreadyExists` then.
    pub fn appear(self) -> io::Result<()> {
        let moved = rustix::fs::renameat_with(
            rustix::fs::CWD,
            &self.beside,
            rustix::fs::CWD,
            &self.path,
            rustix::fs::RenameFlags::NOREPLACE,
        );
        if let Err(errno) = moved {
            // What is beside is ours alone; what is at the path stays.
            let _ = fs::remove_file(&self.beside);
            return Err(errno.into());
        }
        flush_directory_of(&self.path)
    }
}

/// Removes the file at `path`; one that is not there is no error.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => flush_directory_of(path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

/// Flushes the directory that holds `path`, so that its entry survives a crash.
pub fn flush_directory_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => File::open(directory)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

/// The name of the file that is written before it is moved to `path`: hidden, and the same each time, so that a
/// crash leaves at most one.
pub fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.tidegate-new"))
}

fn write_beside(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let beside = beside(path);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(beside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_replaced_whole_or_kept() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("a");
        create(&path, b"one").unwrap();
        assert_eq!(create(&path, b"two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        replace(&path, b"three").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(fs::read_dir(room.path()).unwrap().count(), 0, "something was left beside it");
    }
}
