//! The directory of a database server that refuses to run as root: outside of the world's directory, which another user
//! may be unable to reach, and owned by the user that the server runs as.

use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::world::{Spawn, WorldError};

/// A server that refuses to run as root.
#[derive(Debug, Clone, Copy)]
pub(super) struct Server {
    /// Its name in sentences.
    pub(super) name: &'static str,
    /// Its user, where we are root; without that user it runs as `nobody`.
    pub(super) user: &'static str,
}

/// The directory, removed when dropped.
#[derive(Debug)]
pub(super) struct ServerHome {
    directory: TempDir,
    // User and group; `None`: those of this process.
    owner: Option<(u32, u32)>,
}

impl ServerHome {
    /// Makes it.
    pub(super) fn make(server: Server) -> Result<Self, WorldError> {
        let owner = owner(server)?;
        let directory = tempfile::Builder::new()
            .prefix(&format!("tidegate-{}-", server.name.to_lowercase()))
            .tempdir()
            .map_err(|source| WorldError::Files { tried: "make", path: std::env::temp_dir(), source })?;
        let home = Self { directory, owner };
        home.own(home.directory.path())?;
        Ok(home)
    }

    /// The directory itself.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A path in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file that the server can read.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf, WorldError> {
        let path = self.path(name);
        std::fs::write(&path, text).map_err(|source| WorldError::Files {
            tried: "write",
            path: path.clone(),
            source,
        })?;
        self.own(&path)?;
        Ok(path)
    }

    /// A process that runs as the owner, where that is another user.
    pub(super) fn owned(&self, spawn: Spawn) -> Spawn {
        match self.owner {
            Some((user, group)) => spawn.user(user, group).dir(self.directory.path()),
            None => spawn,
        }
    }

    fn own(&self, path: &Path) -> Result<(), WorldError> {
        let Some((user, group)) = self.owner else { return Ok(()) };
        chown(path, Some(user), Some(group)).map_err(|source| WorldError::Files {
            tried: "change the owner of",
            path: path.to_owned(),
            source,
        })
    }
}

/// `None` if we are not root; else the server's own user, else `nobody`.
fn owner(server: Server) -> Result<Option<(u32, u32)>, WorldError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let path = Path::new("/etc/passwd");
    let accounts = std::fs::read_to_string(path).map_err(|source| WorldError::Files {
        tried: "read",
        path: path.to_owned(),
        source,
    })?;
    let find = |wanted: &str| {
        accounts.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(':').collect();
            match fields.as_slice() {
                [name, _, user, group, ..] if *name == wanted => {
                    Some((user.parse::<u32>().ok()?, group.parse::<u32>().ok()?))
                }
                _ => None,
            }
        })
    };
    let none = WorldError::NoUser { server: server.name, user: server.user };
    find(server.user).or_else(|| find("nobody")).map(Some).ok_or(none)
}
