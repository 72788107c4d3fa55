//! The code of a release on this node: copied whole or not at all, its digest verified when it is copied and again
//! before it is started.

use crate::config::settings::Artifact;
use crate::durable::{self, Made};
use crate::file_error::FileError;
use crate::host::NotStaged;
use crate::place::Place;
use crate::small;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tidegate_proto::{Digest, ReleaseTag};

/// Where the code of a release lies, below the directory of its service.
pub(crate) fn directory(home: &Path, tag: &ReleaseTag) -> PathBuf {
    home.join("releases").join(tag.as_str())
}

/// Copies the artifact of a release into its directory, unless it is there already; returns its digest. Blocks.
pub(crate) fn stage(
    directory: &Path,
    tag: &ReleaseTag,
    artifact: &Artifact,
    wanted: Option<Digest>,
) -> Result<Digest, NotStaged> {
    let source = artifact.source.as_path();
    let name = source.file_name().unwrap_or(std::ffi::OsStr::new("artifact"));
    let place = directory.join(name);
    let wanted_by_all = [wanted, artifact.sha256];
    let fits = |found: Digest| wanted_by_all.iter().flatten().find(|wanted| **wanted != found).copied();
    if let (Some(wanted), Ok(found)) = (wanted, digest_of(&place))
        && wanted == found
        && fits(found).is_none()
    {
        return Ok(found);
    }
    fs::create_dir_all(directory).map_err(FileError::at("make the directory", directory))?;
    durable::sweep(directory);
    let (made, found) = copy(source, &place, artifact.max_bytes)?;
    if let Some(wanted) = fits(found) {
        // Not what was asked for: nothing of it stays.
        return Err(NotStaged::Digest { tag: tag.clone(), path: source.to_owned(), found, wanted });
    }
    made.replace().map_err(FileError::at("move into place", &place))?;
    let flushed = Place::of(directory).and_then(|place| place.flush());
    flushed.map_err(FileError::at("flush the directory of", directory))?;
    Ok(found)
}

/// Whether some file of the release's directory has the digest that is asked for. Blocks.
pub(crate) fn verify(directory: &Path, tag: &ReleaseTag, wanted: Digest) -> Result<(), NotStaged> {
    let missing = || NotStaged::Missing { tag: tag.clone(), directory: directory.to_owned(), wanted };
    let entries = fs::read_dir(directory).map_err(|_| missing())?;
    let mut files = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file());
    files.any(|path| digest_of(&path).is_ok_and(|found| found == wanted)).then_some(()).ok_or_else(missing)
}

/// Removes the code of a release. Blocks.
pub(crate) fn remove(directory: &Path) -> Result<(), NotStaged> {
    match fs::remove_dir_all(directory) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(FileError::at("remove", directory)(e).into()),
        _ => Ok(()),
    }
}

fn digest_of(path: &Path) -> Result<Digest, FileError> {
    let mut from = small::open(path).map_err(FileError::at("read", path))?;
    pour(&mut from, &mut io::sink()).map_err(FileError::at("read", path))
}

/// Copies an artifact beside its place, with the permissions that it has. One that grows meanwhile is cut off behind
/// the limit, and is too large.
fn copy(source: &Path, place: &Path, most: u64) -> Result<(Made, Digest), NotStaged> {
    let from = small::open(source).map_err(FileError::at("read the artifact", source))?;
    let metadata = from.metadata().map_err(FileError::at("read the artifact", source))?;
    let too_large = || NotStaged::TooLarge { path: source.to_owned(), most };
    if metadata.len() > most {
        return Err(too_large());
    }
    let mut made = Made::begin(place, metadata.permissions().mode() & 0o777)
        .map_err(FileError::at("write beside", place))?;
    let mut from = from.take(most + 1);
    let digest = pour(&mut from, &mut made.file).map_err(FileError::at("copy the artifact to", place))?;
    if from.limit() == 0 {
        return Err(too_large());
    }
    made.file.sync_all().map_err(FileError::at("write", place))?;
    Ok((made, digest))
}

fn pour(from: &mut impl Read, into: &mut impl Write) -> io::Result<Digest> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; 32 * 1024];
    loop {
        match from.read(&mut piece)? {
            0 => return Ok(Digest::from_bytes(hash.finalize().into())),
            n => {
                hash.update(&piece[..n]);
                into.write_all(&piece[..n])?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Mode;

    #[test]
    fn only_what_was_asked_for_is_staged() {
        let room = tempfile::tempdir().unwrap();
        let source = room.path().join("pantry");
        fs::write(&source, "code").unwrap();
        let text = format!("source = {:?}\nversion = 1\n", source);
        let artifact: Artifact = toml::from_str(&text).unwrap();
        let tag: ReleaseTag = "pantry-1".parse().unwrap();
        let place = directory(room.path(), &tag);
        let refused = stage(&place, &tag, &artifact, Some(Digest::of(b"other"))).unwrap_err();
        assert!(matches!(refused, NotStaged::Digest { .. }), "{refused}");
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "something of it stayed");

        let good = Digest::of(b"code");
        assert_eq!(stage(&place, &tag, &artifact, Some(good)).unwrap(), good);
        verify(&place, &tag, good).unwrap();
        fs::write(place.join("pantry"), "changed").unwrap();
        assert!(matches!(verify(&place, &tag, good), Err(NotStaged::Missing { .. })));
        // Staging it again fixes it.
        stage(&place, &tag, &artifact, Some(good)).unwrap();
        verify(&place, &tag, good).unwrap();
        remove(&place).unwrap();
        remove(&place).unwrap();
        fs::remove_file(&source).unwrap();
        assert!(stage(&place, &tag, &artifact, Some(good)).unwrap_err().to_string().contains("pantry"));
    }

    #[test]
    fn artifact_that_is_no_regular_file_or_too_large_is_refused() {
        let room = tempfile::tempdir().unwrap();
        let (source, tag) = (room.path().join("pantry"), "pantry-1".parse::<ReleaseTag>().unwrap());
        let place = directory(room.path(), &tag);
        let artifact: Artifact =
            toml::from_str(&format!("source = {source:?}\nversion = 1\nmax_bytes = 4\n")).unwrap();
        let refused = || {
            let refused =
                tidegate_proto::Chain(&stage(&place, &tag, &artifact, None).unwrap_err()).to_string();
            assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "something of it stayed");
            refused
        };
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &source, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(refused().contains("it is no regular file but Fifo"));
        for other in ["/dev/zero", "/"] {
            fs::remove_file(&source).unwrap();
            std::os::unix::fs::symlink(other, &source).unwrap();
            assert!(refused().contains("it is no regular file"), "{other}");
        }
        fs::remove_file(&source).unwrap();
        fs::write(&source, "12345").unwrap();
        assert!(refused().contains("is larger than 4 bytes"));
        fs::write(&source, "1234").unwrap();
        assert_eq!(stage(&place, &tag, &artifact, None).unwrap(), Digest::of(b"1234"));
    }
}
