//! Finds programs: our own beside the current one, those of others on the path and where distributions hide them.

use std::path::{Path, PathBuf};

use crate::world::WorldError;

/// Where a distribution may keep servers that are not on the path of a user.
const HIDDEN: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"];
/// Debian's PostgreSQL keeps its server programs below here, by version.
const POSTGRESQL: &str = "/usr/lib/postgresql";

/// A program of this workspace: in the same `target/<profile>` as the program (or the test of it) that runs now.
///
/// # Errors
/// When it is not built.
pub fn own(name: &str) -> Result<PathBuf, WorldError> {
    let here = std::env::current_exe().map_err(|source| WorldError::Files {
        tried: "find",
        path: "this program".into(),
        source,
    })?;
    let mut dir = here.parent().unwrap_or(Path::new("/"));
    if dir.ends_with("deps") || dir.ends_with("examples") {
        dir = dir.parent().unwrap_or(dir);
    }
    let path = dir.join(name);
    if path.is_file() { Ok(path) } else { Err(WorldError::NotBuilt { program: name.to_owned(), path }) }
}

/// A program of others.
///
/// # Errors
/// When it is not installed; the error says what installs it.
pub fn outside(name: &str) -> Result<PathBuf, WorldError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(HIDDEN.map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| WorldError::Missing { program: name.to_owned() })
}

/// A server program of PostgreSQL, of the newest version that is installed.
///
/// # Errors
/// As [`outside`].
pub fn postgresql(name: &str) -> Result<PathBuf, WorldError> {
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir(POSTGRESQL)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin").join(name)))
        })
        .filter(|(_, path)| path.is_file())
        .collect();
    versions.sort();
    versions.pop().map_or_else(|| outside(name), |(_, path)| Ok(path))
}
