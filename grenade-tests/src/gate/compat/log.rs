//! Where the output of a suite is kept. A recorded verdict has the digest of its log, so no later run may overwrite the log,
//! and neither may one that runs at the same time.

use std::fs::{File, Permissions};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempPath;
use tidegate_proto::{Digest, ReleaseTag};

use crate::gate::exit::say;
use crate::gate::reach::digest_of;

/// How many digits of the digest a name has: as many as `grenade matrix` shows.
const DIGITS: usize = 12;

/// The log of a suite that runs.
#[derive(Debug)]
pub(super) struct Log {
    partial: TempPath,
    name: Name,
}

/// What it is called when the suite has ended.
#[derive(Debug)]
enum Name {
    /// Its own, by its digest.
    Digest { stem: String },
    /// As `--log` says.
    Given(PathBuf),
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub(super) enum LogError {
    /// It would be overwritten.
    #[error(
        "{} exists, and may be the log of a recorded verdict: name another file with --log, or leave --log out and the log \
         gets a name of its own", .0.display()
    )]
    Exists(PathBuf),
    /// It cannot be written.
    #[error("could not write {}: {error}", path.display())]
    Unwritable {
        /// Where.
        path: PathBuf,
        /// The error of the system.
        error: Error,
    },
}

impl Log {
    /// An empty one in its directory, under a name that no other run has, and the file to write to.
    pub(super) fn begin(
        given: Option<&Path>,
        compute: &ReleaseTag,
        storage: &ReleaseTag,
    ) -> Result<(Self, File), LogError> {
        let stem = format!("grenade-compat-{compute}-{storage}");
        let (path, name) = match given {
            Some(path) if path.exists() => return Err(LogError::Exists(path.to_owned())),
            Some(path) => (path.to_owned(), Name::Given(path.to_owned())),
            None => (PathBuf::from(&stem), Name::Digest { stem }),
        };
        let is_named = path.file_name().is_some() && !path.as_os_str().as_encoded_bytes().ends_with(b"/");
        let named =
            if is_named { Ok(()) } else { Err(Error::new(ErrorKind::IsADirectory, "is no file name")) };
        let file = named.and_then(|()| {
            let mut prefix = path.file_name().unwrap_or_default().to_owned();
            prefix.push(".");
            tempfile::Builder::new()
                .prefix(&prefix)
                .suffix(".partial")
                // As of any file: less what the umask takes.
                .permissions(Permissions::from_mode(0o666))
                .tempfile_in(
                    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")),
                )
        });
        let (file, partial) = file.map_err(|error| LogError::Unwritable { path, error })?.into_parts();
        Ok((Self { partial, name }, file))
    }

    /// Where it is while the suite runs.
    pub(super) fn path(&self) -> &Path {
        &self.partial
    }

    /// Keeps what there is, of a suite whose verdict is not recorded.
    pub(super) fn keep(self) -> Result<PathBuf, LogError> {
        let path = self.partial.to_path_buf();
        self.partial.keep().map_err(|error| LogError::Unwritable { path, error: error.error })
    }

    /// Gives it its name; answers that and its digest.
    pub(super) fn settle(self) -> Result<(PathBuf, Digest), LogError> {
        let path = self.partial.to_path_buf();
        let digest = digest_of(&path).map_err(|error| LogError::Unwritable { path, error })?;
        let digits: String = digest.to_string().chars().take(DIGITS).collect();
        let (partial, own) = match self.name {
            // What is there by this name has the same digest.
            Name::Digest { stem } => (self.partial, PathBuf::from(format!("{stem}-{digits}.log"))),
            Name::Given(path) => match self.partial.persist_noclobber(&path) {
                Ok(()) => return Ok((path, digest)),
                Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {
                    let own = path.with_added_extension(digits);
                    let (path, kept) = (path.display(), own.display());
                    say(format_args!(
                        "warning: {path} exists by now and was not overwritten; the log is {kept}"
                    ));
                    (error.path, own)
                }
                Err(error) => return Err(unnamed(path, error)),
            },
        };
        match partial.persist(&own) {
            Ok(()) => Ok((own, digest)),
            Err(error) => Err(unnamed(own, error)),
        }
    }
}

/// A log that cannot get its name stays where it is.
fn unnamed(path: PathBuf, error: tempfile::PathPersistError) -> LogError {
    // One that cannot be kept is gone, and the error says why.
    let kept = error.path.keep().map(|kept| format!("; the output is in {}", kept.display()));
    let error = Error::other(format!("{}{}", error.error, kept.unwrap_or_default()));
    LogError::Unwritable { path, error }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn begin(path: &Path) -> Result<(Log, File), LogError> {
        Log::begin(Some(path), &"c-1".parse().unwrap(), &"s-1".parse().unwrap())
    }

    #[test]
    fn log_of_a_run_at_the_same_time_is_kept_beside_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("suite.log");
        let (mut first, mut second) = (begin(&path).unwrap(), begin(&path).unwrap());
        assert_ne!(first.0.path(), second.0.path());
        first.1.write_all(b"one").unwrap();
        second.1.write_all(b"two").unwrap();
        assert_eq!(first.0.settle().unwrap(), (path.clone(), Digest::of(b"one")));
        let (other, digest) = second.0.settle().unwrap();
        assert_eq!(digest, Digest::of(b"two"));
        let digits = &digest.to_string()[..DIGITS];
        assert_eq!(other, path.with_added_extension(digits));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "two");
        let refused = begin(&path).unwrap_err().to_string();
        assert!(refused.contains("may be the log of a recorded verdict"), "{refused}");
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(left.len(), 2, "{left:?}");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_ne!(mode & 0o044, 0, "others may read it, as far as the umask allows: {mode:o}");
    }
}
