//! The demo's directory: made for each demo, never another program's, used by one demo at a time.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use thiserror::Error;
use tidegate_agent::exclusive;

/// The file that says that a directory is a demo's own; it is locked while one runs.
pub const MARK: &str = ".tidegate-demo";
/// The longest path that a socket may have (108 bytes with its end), less the longest name that HAProxy makes of one.
const LONGEST: usize = 107 - "/haproxy.sock.4194304.tmp".len();

/// Why a directory cannot be used.
#[derive(Debug, Error)]
pub enum PlaceError {
    /// It holds something else.
    #[error("{0} is not empty, and no earlier run made it: name a directory that is empty or absent")]
    Foreign(PathBuf),
    /// Another demo runs in it.
    #[error("another run uses {0}: wait for its end, or name another directory")]
    Busy(PathBuf),
    /// An earlier demo was killed, and what it had started lives on.
    #[error("processes of an earlier run in {dir} still run, which was killed: end them first (kill {})", .pids.join(" "))]
    LeftOver {
        /// The directory.
        dir: PathBuf,
        /// The processes.
        pids: Vec<String>,
    },
    /// Sockets need short paths.
    #[error("the path {0} is too long for the sockets in it: name a directory of at most {LONGEST} bytes")]
    TooLong(PathBuf),
    /// The system refused.
    #[error("could not {tried} {path}")]
    Files {
        /// What was tried.
        tried: &'static str,
        /// With which path.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

fn failed<'a>(tried: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> PlaceError + 'a {
    move |source| PlaceError::Files { tried, path: path.to_owned(), source }
}

/// A directory that is this demo's alone while this value lives.
#[derive(Debug)]
pub struct Place {
    dir: PathBuf,
    _locked: File,
}

/// Where the demo's files go by default: `target/demo`, beside `target/<profile>` with this program.
///
/// # Errors
/// When the system does not report where this program is.
pub fn default_dir() -> Result<PathBuf, PlaceError> {
    let here = std::env::current_exe().map_err(failed("find", Path::new("this program")))?;
    let target = here.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    Ok(target.join("demo"))
}

impl Place {
    /// Empties an earlier run's directory, or makes it.
    ///
    /// # Errors
    /// When it belongs to another program, is in use, or cannot be made; then nothing in it was changed.
    pub fn fresh(dir: &Path) -> Result<Self, PlaceError> {
        fs::create_dir_all(dir).map_err(failed("make", dir))?;
        let dir = fs::canonicalize(dir).map_err(failed("find", dir))?;
        if dir.as_os_str().len() > LONGEST {
            return Err(PlaceError::TooLong(dir));
        }
        let mark = dir.join(MARK);
        let empty = fs::read_dir(&dir).map_err(failed("read", &dir))?.next().is_none();
        if !empty && !mark.is_file() {
            return Err(PlaceError::Foreign(dir));
        }
        let locked = File::options().create(true).append(true).open(&mark).map_err(failed("write", &mark))?;
        exclusive::lock(&locked).map_err(|e| match e {
            Errno::WOULDBLOCK => PlaceError::Busy(dir.clone()),
            other => PlaceError::Files { tried: "lock", path: mark.clone(), source: other.into() },
        })?;
        let pids = left_over(&dir);
        if !pids.is_empty() {
            return Err(PlaceError::LeftOver { dir, pids });
        }
        let place = Self { dir, _locked: locked };
        place.clear(|name| name != MARK)?;
        Ok(place)
    }

    /// The directory; an absolute path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Removes the entries whose names are chosen, with all that is in them.
    ///
    /// # Errors
    /// When one cannot be removed.
    pub fn clear(&self, chosen: impl Fn(&str) -> bool) -> Result<(), PlaceError> {
        for entry in fs::read_dir(&self.dir).map_err(failed("read", &self.dir))?.flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            if !chosen(&name.to_string_lossy()) {
                continue;
            }
            let whole = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let removed = if whole { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(failed("remove", &path))?;
        }
        Ok(())
    }
}

/// Processes of a world in this directory, or of one whose command line names it: a run that was killed (SIGKILL) could not
/// end them. They are never ended here, for they are not ours.
fn left_over(dir: &Path) -> Vec<String> {
    let (name, mark) = (dir.as_os_str().as_encoded_bytes(), format!("{}=", crate::world::MARK));
    let holds = |text: &[u8], what: &[u8]| text.windows(what.len()).any(|part| part == what);
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id())
        .filter(|pid| {
            let of = |what: &str| fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
            let environ = of("environ");
            // The demo itself may bear the mark of a world that it is tested in; its directory comes last.
            !holds(&of("comm"), b"tidegate-demo")
                && (is_of(&environ, name)
                    || (holds(&of("cmdline"), name) && holds(&environ, mark.as_bytes())))
        })
        .map(|pid| pid.to_string())
        .collect()
}

/// Whether an environment is that of a world in this directory, or below it. Servers have their files elsewhere where
/// another user owns them, so that their command lines do not name it.
fn is_of(environ: &[u8], dir: &[u8]) -> bool {
    let name = format!("{}=", crate::world::DIRECTORY);
    let worlds = environ.split(|byte| *byte == 0).filter_map(|entry| entry.strip_prefix(name.as_bytes()));
    let mut below = worlds.filter_map(|world| world.strip_prefix(dir));
    below.any(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::{Place, PlaceError, is_of};

    #[test]
    fn world_in_or_below_a_directory_is_of_it() {
        let environ = b"PATH=/bin\0TIDEGATE_WORLD_DIR=/tmp/gate/back-roll\0HOME=/";
        assert!(is_of(environ, b"/tmp/gate") && is_of(environ, b"/tmp/gate/back-roll"));
        assert!(!is_of(environ, b"/tmp/gat") && !is_of(environ, b"/tmp/gate/back"));
        assert!(!is_of(b"PATH=/tmp/gate", b"/tmp/gate"));
    }

    #[test]
    fn leftovers_of_a_killed_demo_are_named_and_left_alone() {
        let room = tempfile::tempdir().unwrap();
        let dir = std::fs::canonicalize(room.path()).unwrap().join("demo");
        drop(Place::fresh(&dir).unwrap());
        let mut left = std::process::Command::new("sh")
            .args(["-c", "read -r end", "agent"])
            .arg(dir.join("agent-node-1.toml"))
            .env(crate::world::MARK, "gone")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = left.id().to_string();
        // A process shows its own command line a moment after it was started.
        let refused = (0..200).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            Place::fresh(&dir).err()
        });
        left.kill().unwrap();
        left.wait().unwrap();
        let refused = refused.expect("a process of an earlier demo was overlooked").to_string();
        assert!(refused.contains(&pid), "{refused}");
        drop(Place::fresh(&dir).unwrap());
    }

    #[test]
    fn an_earlier_run_is_cleared_and_anything_else_is_left_alone() {
        let room = tempfile::tempdir().unwrap();
        let dir = room.path().join("demo");
        let first = Place::fresh(&dir).unwrap();
        std::fs::write(dir.join("report.json"), "{}").unwrap();
        std::fs::create_dir(dir.join("store")).unwrap();
        assert!(matches!(Place::fresh(&dir), Err(PlaceError::Busy(_))));
        assert!(dir.join("report.json").exists(), "a running demo lost its files");
        drop(first);
        let _second = Place::fresh(&dir).unwrap();
        assert!(!dir.join("report.json").exists() && !dir.join("store").exists());

        let foreign = room.path().join("home");
        std::fs::create_dir(&foreign).unwrap();
        std::fs::write(foreign.join("thesis"), "years").unwrap();
        assert!(matches!(Place::fresh(&foreign), Err(PlaceError::Foreign(_))));
        assert_eq!(std::fs::read_to_string(foreign.join("thesis")).unwrap(), "years");
        let long = room.path().join("x".repeat(100));
        assert!(matches!(Place::fresh(&long), Err(PlaceError::TooLong(_))));
    }
}
