//! Reads small files that another user may have made: a FIFO, a device or an endless file neither blocks the agent nor
//! fills its memory.

use crate::place::is_regular;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Opens a regular file for reading; a FIFO or a device is refused and not waited for.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    is_regular(&file)?;
    Ok(file.into())
}

/// The bytes of a regular file of at most `most` bytes.
///
/// # Errors
/// What the system says; `InvalidInput` where it is no regular file; `FileTooLarge` where it is larger.
pub(crate) fn read(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is larger than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_small_regular_file_is_read() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("file");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert_eq!(read(&path, 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        let fifo = room.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        for never in [fifo.as_path(), Path::new("/dev/zero"), room.path()] {
            assert_eq!(read(never, 5).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{never:?}");
        }
        assert_eq!(read(&room.path().join("absent"), 5).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
