//! A world: real processes on free loopback ports, all of them ended when it ends.
//!
//! A process that makes a [`World`] becomes a child subreaper, so that what a daemon leaves behind (an agent's services
//! outlive their agent) comes back to us and can be found. Dropping a world ends every such process, whether the drop
//! comes of a good end, an error, a panic or an interrupt that was turned into an error by [`interrupt::Interrupt`].
//! Nothing is ever ended by name, and no system service is started.

pub mod agent;
pub mod balancer;
pub mod caller;
pub mod coordinator;
pub mod descendants;
pub mod error;
pub mod etcd;
pub mod executed;
pub mod haproxy;
pub mod host;
pub mod interrupt;
pub mod mariadb;
pub mod operator;
pub mod place;
pub mod port;
pub mod postgres;
pub mod process;
pub mod program;
mod server_home;
pub mod show_stat;
pub mod wait;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use error::WorldError;
pub use host::Host;
pub use process::{Process, Spawn, tail};

use crate::world::descendants::{Scope, sweep};

/// A disk with less room than this, in bytes, is as good as full: databases and stores grow by so much at once.
const LEAST_ROOM: u64 = 4 << 20;

/// The environment variable that marks every process of a world, and is inherited by what these start.
pub const MARK: &str = "TIDEGATE_WORLD";

/// The one that names the world's directory.
pub const DIRECTORY: &str = "TIDEGATE_WORLD_DIR";

/// A directory, and the processes that belong to it.
#[derive(Debug)]
pub struct World {
    dir: PathBuf,
    mark: String,
    scope: Scope,
}

impl World {
    /// A world that is alone in this process: at its end *every* descendant is ended.
    ///
    /// # Errors
    /// When the directory cannot be made or the system refuses to make us a subreaper.
    pub fn alone(dir: &Path) -> Result<Self, WorldError> {
        Self::new(dir, |_| Scope::Every)
    }

    /// A world beside others in this process (tests in threads): at its end the descendants that bear its mark are ended.
    ///
    /// # Errors
    /// As [`World::alone`].
    pub fn beside(dir: &Path) -> Result<Self, WorldError> {
        Self::new(dir, |mark| Scope::Marked(format!("{MARK}={mark}")))
    }

    fn new(dir: &Path, scope: impl FnOnce(&str) -> Scope) -> Result<Self, WorldError> {
        let mark = uuid::Uuid::new_v4().simple().to_string();
        std::fs::create_dir_all(dir).map_err(|source| WorldError::Files {
            tried: "make",
            path: dir.to_owned(),
            source,
        })?;
        let dir = std::fs::canonicalize(dir).map_err(|source| WorldError::Files {
            tried: "find",
            path: dir.to_owned(),
            source,
        })?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|e| WorldError::Subreaper(e.into()))?;
        Ok(Self { dir, scope: scope(&mark), mark })
    }

    /// Where its files are; an absolute path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A path below its directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Whether its directory has room for what its processes write.
    ///
    /// # Errors
    /// When it has none: databases, stores and ledgers fail each in their own words then.
    pub fn must_have_room(&self) -> Result<(), WorldError> {
        match rustix::fs::statvfs(&self.dir) {
            Ok(disk) if disk.f_bavail * disk.f_frsize < LEAST_ROOM => Err(WorldError::Full {
                dir: self.dir.clone(),
                left: disk.f_bavail * disk.f_frsize / 1024,
                least: LEAST_ROOM / 1024,
            }),
            // A file system that does not say is not known to be full.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Starts a process in a group of its own, with its output in `<name>.log` of this world's directory.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(&self, spawn: Spawn) -> Result<Process, WorldError> {
        Process::start(spawn.env(MARK, &self.mark).env(DIRECTORY, &self.dir), &self.dir)
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    /// When it cannot be started, does not end within `limit`, or does not exit with 0: with the end of its output.
    pub async fn run(&self, spawn: Spawn, limit: Duration) -> Result<(), WorldError> {
        let mut process = self.spawn(spawn)?;
        let status = process.wait(limit).await?;
        if status.success() {
            return Ok(());
        }
        let (name, tail) = (process.name().to_owned(), process.tail());
        Err(WorldError::Ended { name, status: status.to_string(), tail })
    }

    /// Ends every process of this world now, and answers how many there were.
    pub fn sweep(&self) -> usize {
        sweep(&self.scope)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.sweep();
    }
}

/// What a database of a server may be called, so that no statement needs quotes.
fn database_name(name: &str) -> Result<(), WorldError> {
    match !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_') {
        true => Ok(()),
        false => Err(WorldError::DatabaseName(name.to_owned())),
    }
}
