//! A small text that changes often and must not be lost: two files, written in turn and in place, so that a write costs
//! one flush of data and none of names or sizes; beside other writers on the disk that is many times less than moving a
//! new file into place. A write that is cut off at any byte leaves the former text in the other file.

pub(crate) mod state;

use crate::host::Host;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tidegate_proto::Digest;

/// Files are as long as a multiple of this, in bytes, so that they seldom grow.
const BLOCK: usize = 4096;

/// The largest file that is read, in bytes.
const MAX_FILE: usize = 256 * 1024 * 1024;

/// The two files, and which was written last.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    host: Arc<dyn Host>,
    paths: [PathBuf; 2],
    newest: usize,
    sequence: u64,
}

/// What the two files hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Neither is there.
    Nothing,
    /// The newest text that is whole.
    Text(Vec<u8>),
    /// There is a file, and none is whole.
    Damaged,
}

impl Pair {
    /// Those at `paths` of a node.
    pub(crate) fn new(host: &Arc<dyn Host>, paths: [PathBuf; 2]) -> Self {
        Self { host: Arc::clone(host), paths, newest: 1, sequence: 0 }
    }

    /// The newest text that is whole; to be called before anything is written.
    pub(crate) fn read(&mut self) -> io::Result<Kept> {
        let mut kept = Kept::Nothing;
        for (n, path) in self.paths.iter().enumerate() {
            let bytes = match self.host.read(path, MAX_FILE) {
                Ok(bytes) => bytes,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            match whole(&bytes) {
                Some((sequence, text)) if sequence > self.sequence => {
                    (self.sequence, self.newest) = (sequence, n);
                    kept = Kept::Text(text.to_vec());
                }
                None if kept == Kept::Nothing => kept = Kept::Damaged,
                _ => {}
            }
        }
        Ok(kept)
    }

    /// Writes `text`, and returns when it is on the disk.
    pub(crate) fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let (next, sequence) = (1 - self.newest, self.sequence + 1);
        let mut bytes = format!("{sequence} {} {}\n", text.len(), mark(sequence, text)).into_bytes();
        bytes.extend_from_slice(text);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), b'\n');
        self.host.write_in_place(&self.paths[next], bytes)?;
        (self.newest, self.sequence) = (next, sequence);
        Ok(())
    }
}

/// The checksum of a whole text; it covers the number too.
fn mark(sequence: u64, text: &[u8]) -> Digest {
    Digest::of(&[sequence.to_be_bytes().as_slice(), text].concat())
}

/// The number and the text of a file, where it is whole. Its first line: the number, the length of the text, its mark.
fn whole(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let mut words = std::str::from_utf8(&bytes[..end]).ok()?.split(' ');
    let sequence = words.next()?.parse().ok()?;
    let length: usize = words.next()?.parse().ok()?;
    let text = bytes[end + 1..].get(..length)?;
    (words.next()?.parse() == Ok(mark(sequence, text))).then_some((sequence, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use std::fs;
    use std::path::Path;

    fn pair(room: &Path) -> Pair {
        Pair::new(&Machine::shared(), [room.join("a"), room.join("b")])
    }

    fn text(bytes: &[u8]) -> Kept {
        Kept::Text(bytes.to_vec())
    }

    #[test]
    fn the_newest_is_read_however_long_those_before_it_were() {
        let room = tempfile::tempdir().unwrap();
        let mut written = pair(room.path());
        assert_eq!(written.read().unwrap(), Kept::Nothing);
        for length in [10, 9000, 20, 0, 5000, 4096, 1] {
            let one = vec![b'x'; length];
            written.write(&one).unwrap();
            assert_eq!(pair(room.path()).read().unwrap(), text(&one), "{length}");
        }
        // A restarted agent continues where the former one ended.
        let mut again = pair(room.path());
        again.read().unwrap();
        again.write(b"again").unwrap();
        assert_eq!(pair(room.path()).read().unwrap(), text(b"again"));
    }

    #[test]
    fn a_write_that_was_cut_off_anywhere_leaves_what_stood_before() {
        let room = tempfile::tempdir().unwrap();
        let mut written = pair(room.path());
        for one in ["first", "second"] {
            written.write(one.as_bytes()).unwrap();
        }
        let path = written.paths[1 - written.newest].clone();
        let before = fs::read(&path).unwrap();
        let long = "third ".repeat(1000);
        written.write(long.as_bytes()).unwrap();
        let after = fs::read(&path).unwrap();
        assert!(after.len() > before.len(), "it grew");
        for cut in 0..after.len() {
            // The disk writes blocks in any order: what is new may be its beginning or its end.
            let mut beginning = after[..cut].to_vec();
            beginning.extend(before.get(cut..).unwrap_or_default());
            let mut end = before[..cut.min(before.len())].to_vec();
            end.resize(cut, 0);
            end.extend(&after[cut..]);
            for torn in [beginning, end].into_iter().filter(|torn| whole(torn) != whole(&after)) {
                fs::write(&path, &torn).unwrap();
                assert_eq!(pair(room.path()).read().unwrap(), text(b"second"), "cut at {cut}");
            }
        }
        fs::write(&path, &after).unwrap();
        assert_eq!(pair(room.path()).read().unwrap(), text(long.as_bytes()));
    }

    #[test]
    fn where_neither_is_whole_that_is_said() {
        let room = tempfile::tempdir().unwrap();
        fs::write(room.path().join("b"), "nonsense").unwrap();
        assert_eq!(pair(room.path()).read().unwrap(), Kept::Damaged);
        fs::write(room.path().join("a"), "").unwrap();
        assert_eq!(pair(room.path()).read().unwrap(), Kept::Damaged);
    }
}
