//! Files that are whole or absent after a crash: written beside their place, flushed, then moved. Nothing is written
//! through a link ([`Place`]).

use crate::place::Place;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// How a file that is not yet in its place is called at the end.
const NEW: &str = ".tidegate-new";

/// A file of this age is not being written any more: its writer was killed.
const LEFT_OVER: Duration = Duration::from_secs(3600);

/// Replaces the file at `path` by `bytes`; after a crash it holds either what it held or all of `bytes`.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    make(path, bytes)?.replace()
}

/// The same, but never over a file that is there: `AlreadyExists` then.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    make(path, bytes)?.appear()
}

/// Makes a file that is to appear at `path`: whole, and on the disk.
pub(crate) fn make(path: &Path, bytes: &[u8]) -> io::Result<Made> {
    let mut made = Made::begin(path, 0o644)?;
    made.file.write_all(bytes)?;
    made.file.sync_all()?;
    Ok(made)
}

/// A file beside the path at which it is to be, under a name that cannot be predicted. Removed when it is dropped before.
#[derive(Debug)]
pub(crate) struct Made {
    place: Place,
    beside: OsString,
    /// The file, open for writing. What is to survive a crash is flushed before it is moved.
    pub file: File,
    moved: bool,
}

impl Made {
    /// An empty file.
    pub(crate) fn begin(path: &Path, mode: u32) -> io::Result<Self> {
        let place = Place::of(path)?;
        let name = place.name().to_string_lossy();
        let beside = OsString::from(format!(".{name}.{}{NEW}", uuid::Uuid::new_v4().simple()));
        let file = place.create(&beside, mode)?;
        Ok(Self { place, beside, file, moved: false })
    }

    /// It appears at its path, unless a file is there: `AlreadyExists` then.
    pub(crate) fn appear(mut self) -> io::Result<()> {
        self.place.move_into(&self.beside)?;
        self.moved = true;
        self.place.flush()
    }

    /// It takes the place of what is at its path.
    pub(crate) fn replace(mut self) -> io::Result<()> {
        self.place.move_over(&self.beside)?;
        self.moved = true;
        self.place.flush()
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.moved {
            let _ = self.place.remove(&self.beside);
        }
    }
}

/// Removes the file at `path`; one that is not there is no error.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let place = Place::of(path)?;
    match place.remove(place.name()) {
        Ok(()) => place.flush(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

/// Removes what a crash left beside the files of a directory. That it cannot be read is no error: nothing is left then.
pub(crate) fn sweep(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|name| name.starts_with('.') && name.ends_with(NEW));
        let written = entry.metadata().and_then(|metadata| metadata.modified());
        let age = written.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
        if ours && age.is_some_and(|age| age > LEFT_OVER) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn existing_file_is_replaced_whole_or_kept() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("a");
        create(&path, b"one").unwrap();
        assert_eq!(create(&path, b"two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        replace(&path, b"three").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"three");
        drop(make(&path, b"never moved").unwrap());
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(fs::read_dir(room.path()).unwrap().count(), 0, "something was left beside it");
    }

    #[test]
    fn link_at_a_path_is_replaced_and_never_written_through() {
        let room = tempfile::tempdir().unwrap();
        let (path, victim) = (room.path().join("config.json"), room.path().join("victim"));
        fs::write(&victim, "untouched").unwrap();
        symlink(&victim, &path).unwrap();
        // The name that earlier versions wrote to before they moved the file.
        symlink(&victim, room.path().join(".config.json.tidegate-new")).unwrap();
        assert_eq!(create(&path, b"chosen").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        replace(&path, b"chosen").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"untouched");
        assert_eq!(fs::read(&path).unwrap(), b"chosen");
        assert!(!path.symlink_metadata().unwrap().is_symlink());
        symlink(&victim, room.path().join("link")).unwrap();
        remove(&room.path().join("link")).unwrap();
        assert!(victim.exists());
    }

    #[test]
    fn only_old_files_of_a_killed_writer_are_swept() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("a");
        let fresh = make(&path, b"being written").unwrap();
        let old = room.path().join(".a.0123.tidegate-new");
        for file in [&old, &room.path().join("a.tidegate-new"), &room.path().join(".a")] {
            let file = File::create(file).unwrap();
            file.set_modified(SystemTime::now() - 2 * LEFT_OVER).unwrap();
        }
        sweep(room.path());
        assert!(!old.exists());
        fresh.appear().unwrap();
        assert_eq!(fs::read_dir(room.path()).unwrap().count(), 3);
        sweep(&room.path().join("absent"));
    }
}
