//! The place of a file that the agent writes: a name in an open directory. A directory may belong to the service's
//! user, who can put a symbolic link where the agent, as root, is about to write. So the path to the directory follows
//! only links of root or of the agent's own user, and no file is opened through a link.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, readlinkat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use tidegate_proto::mutant;

/// As many links as the kernel follows in one path.
const MAX_LINKS: usize = 40;

/// A name in an open directory.
#[derive(Debug)]
pub(crate) struct Place {
    directory: OwnedFd,
    name: OsString,
}

impl Place {
    /// The place that `path` names.
    ///
    /// # Errors
    /// Where the directory cannot be opened, or is reached by a link of another user.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        Self::trusting(path, |user| user == 0 || user == rustix::process::geteuid().as_raw())
    }

    fn trusting(path: &Path, trusts: impl Fn(u32) -> bool) -> io::Result<Self> {
        let name = path.file_name().ok_or(Errno::ISDIR)?.to_owned();
        let path = std::path::absolute(path)?;
        let directory = open(path.parent().unwrap_or(Path::new("/")), trusts)?;
        Ok(Self { directory, name })
    }

    /// The file's own name.
    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    /// Opens a new file in the directory for writing: never one that is there, and never through a link.
    pub(crate) fn create(&self, name: &OsStr, mode: u32) -> io::Result<std::fs::File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.directory, name, flags, Mode::from_raw_mode(mode))?.into())
    }

    /// Opens the file for appending and makes it where it is absent; never through a link. A device such as `/dev/null`
    /// will do.
    pub(crate) fn append(&self) -> io::Result<std::fs::File> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE;
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(&self.directory, &self.name, flags, Mode::from_raw_mode(0o644))?;
        Ok(file.into())
    }

    /// Moves a file of the directory to the place, over what is there.
    pub(crate) fn move_over(&self, from: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.directory, from, &self.directory, &self.name)?)
    }

    /// Moves a file of the directory to the place, unless something is there: `AlreadyExists` then.
    pub(crate) fn move_into(&self, from: &OsStr) -> io::Result<()> {
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        Ok(rustix::fs::renameat_with(&self.directory, from, &self.directory, &self.name, flags)?)
    }

    /// Removes a file of the directory; a link is removed and not followed.
    pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.directory, name, AtFlags::empty())?)
    }

    /// Flushes the directory, so that its entries survive a crash.
    pub(crate) fn flush(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.directory)?)
    }
}

/// The users besides root and the agent's own that may put files into a directory, in words; none if there are none, or if
/// it is not there.
pub(crate) fn others_who_write(directory: &Path) -> Option<String> {
    let stat = rustix::fs::stat(directory).ok()?;
    let own = rustix::process::geteuid().as_raw();
    let mut others = Vec::new();
    if stat.st_uid != 0 && stat.st_uid != own {
        others.push(format!("user {}", stat.st_uid));
    }
    if stat.st_mode & 0o020 != 0 && stat.st_gid != 0 {
        others.push(format!("group {}", stat.st_gid));
    }
    if stat.st_mode & 0o002 != 0 {
        others.push("every user".to_owned());
    }
    (!others.is_empty()).then(|| others.join(", "))
}

/// Refuses what is no regular file: opening or reading a FIFO or a device may wait for ever, or never end.
pub(crate) fn is_regular(file: &OwnedFd) -> io::Result<()> {
    match FileType::from_raw_mode(fstat(file)?.st_mode) {
        FileType::RegularFile => Ok(()),
        other => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is no regular file but {other:?}")))
        }
    }
}

/// Opens a directory, component by component.
fn open(path: &Path, trusts: impl Fn(u32) -> bool) -> io::Result<OwnedFd> {
    let look = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = || openat(rustix::fs::CWD, "/", look | OFlags::DIRECTORY, Mode::empty());
    let (mut at, mut seen, mut links) = (root()?, PathBuf::from("/"), 0);
    let mut left: VecDeque<OsString> = parts(path).collect();
    while let Some(part) = left.pop_front() {
        let next = openat(&at, &part, look, Mode::empty())?;
        let stat = fstat(&next)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            (at, seen) = (next, seen.join(&part));
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        if !trusts(stat.st_uid) && !mutant::is("links-of-others-are-followed") {
            let (link, user) = (seen.join(&part), stat.st_uid);
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!(
                    "{} is a symbolic link of user {user}, who could lead the agent to any file: name the directory itself, or let root own the link",
                    link.display()
                ),
            ));
        }
        let target = PathBuf::from(OsString::from_vec(readlinkat(&next, "", Vec::new())?.into_bytes()));
        if target.is_absolute() {
            (at, seen) = (root()?, PathBuf::from("/"));
        }
        parts(&target).rev().for_each(|part| left.push_front(part));
    }
    Ok(openat(&at, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_links_of_trusted_users_lead_to_the_directory() {
        let room = tempfile::tempdir().unwrap();
        let inside = room.path().join("inside");
        std::fs::create_dir(&inside).unwrap();
        symlink(&inside, room.path().join("absolute")).unwrap();
        symlink("absolute", room.path().join("relative")).unwrap();
        symlink("loop", room.path().join("loop")).unwrap();
        for way in ["inside", "absolute", "relative", "inside/../relative", "./inside"] {
            let place = Place::of(&room.path().join(way).join("file")).unwrap();
            place.create(OsStr::new("file"), 0o600).unwrap();
            place.remove(OsStr::new("file")).unwrap();
        }
        let refused = Place::trusting(&room.path().join("relative/file"), |_| false).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(refused.to_string().contains("/relative is a symbolic link of user"), "{refused}");
        assert!(Place::trusting(&inside.join("file"), |_| false).is_ok(), "no link is on this way");
        assert!(Place::of(&room.path().join("loop/file")).is_err());
        std::fs::write(room.path().join("plain"), "").unwrap();
        assert!(Place::of(&room.path().join("plain/file")).is_err());
    }

    #[test]
    fn directory_that_others_may_write_to_is_named() {
        let room = tempfile::tempdir().unwrap();
        let mode = |mode: u32| {
            std::fs::set_permissions(room.path(), std::os::unix::fs::PermissionsExt::from_mode(mode))
                .unwrap();
            others_who_write(room.path())
        };
        assert_eq!(mode(0o755), None);
        assert_eq!(mode(0o757).as_deref(), Some("every user"));
        assert_eq!(others_who_write(&room.path().join("absent")), None);
    }

    #[test]
    fn no_file_is_opened_through_a_link() {
        let room = tempfile::tempdir().unwrap();
        let victim = room.path().join("victim");
        std::fs::write(&victim, "untouched").unwrap();
        symlink(&victim, room.path().join("log")).unwrap();
        let place = Place::of(&room.path().join("log")).unwrap();
        assert_eq!(place.create(OsStr::new("log"), 0o600).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(place.append().is_err());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "untouched");
    }
}
