//! The disable-file, whose presence makes the health check answer 503. Only this module creates and removes it; a file
//! that a person made or changed is never touched. It survives the agent and a reboot: the file is the state.

use crate::directive::seen::DisableFile;
use crate::host::{Host, Made};
use crate::small;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_proto::{Generation, NodeId, mutant};

/// The largest file that can be the agent's own, in bytes.
const MAX_OWN: usize = 512;

/// The disable-file of one service.
#[derive(Debug, Clone)]
pub struct DisableFileHandle {
    host: Arc<dyn Host>,
    path: PathBuf,
    node: NodeId,
    nonce: String,
}

impl DisableFileHandle {
    /// The file at `path`, as the agent of `node` with `nonce` puts it.
    pub fn new(host: &Arc<dyn Host>, path: &Path, node: NodeId, nonce: String) -> Self {
        Self { host: Arc::clone(host), path: path.to_owned(), node, nonce }
    }

    /// Whose it is. What is there and cannot be read is a person's.
    pub fn look(&self) -> DisableFile {
        match self.host.read(&self.path, MAX_OWN) {
            // Also a dangling link: health checks follow it and find nothing.
            Err(e) if e.kind() == io::ErrorKind::NotFound => DisableFile::Absent,
            Ok(bytes) if self.is_own(&bytes) => DisableFile::Own,
            _ => DisableFile::Foreign,
        }
    }

    /// Makes it beside its place, whole and flushed.
    pub fn make(&self, generation: Generation) -> io::Result<Box<dyn Made>> {
        self.host.make(&self.path, self.content(&generation.to_string()).as_bytes())
    }

    /// Puts it in its place; one that is there already stays as it is.
    pub fn put(&self, made: Box<dyn Made>) -> io::Result<()> {
        match made.appear() {
            // A dangling link blocks the name and disables nothing.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && self.look() != DisableFile::Absent => {
                Ok(())
            }
            done => done,
        }
    }

    /// Takes it away, if it is the agent's own. Not flushed: one that came back after a crash would hide, and be taken
    /// away again.
    pub fn take_away(&self) -> io::Result<()> {
        if self.look() != DisableFile::Own {
            return Ok(());
        }
        match self.host.remove(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// Whether its directory can be written, by making and removing a file beside it.
    pub fn try_directory(&self) -> io::Result<()> {
        self.host.make(&self.path, b"").map(drop)
    }

    fn content(&self, generation: &str) -> String {
        format!(
            "put by tidegate-agent on {}, generation {generation}, mark {}\nTo keep this instance out by hand, change this text.\n",
            self.node, self.nonce
        )
    }

    fn is_own(&self, bytes: &[u8]) -> bool {
        if mutant::is("persons-file-is-taken-for-its-own") {
            return true;
        }
        let Ok(text) = std::str::from_utf8(bytes) else { return false };
        let generation = text.split_once("generation ").and_then(|(_, rest)| rest.split_once(','));
        generation.is_some_and(|(number, _)| number.parse::<u64>().is_ok() && text == self.content(number))
    }
}

/// The node whose agent put the file that is there; inner none = a person's, or not known. Outer none = there is no file.
pub fn owner(path: &Path) -> Option<Option<NodeId>> {
    let bytes = match small::read(path, MAX_OWN) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
        read => read.unwrap_or_default(),
    };
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    let rest = text.strip_prefix("put by tidegate-agent on ");
    Some(rest.and_then(|rest| rest.split_once(',')?.0.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use tidegate_proto::Revision;

    fn put(hand: &DisableFileHandle, generation: Revision) -> io::Result<()> {
        hand.make(generation).and_then(|made| hand.put(made))
    }

    #[test]
    fn symlink_is_judged_by_target_and_never_written_through() {
        let room = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (room.path().join("disable"), room.path().join("elsewhere"));
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        let hand =
            DisableFileHandle::new(&Machine::shared(), &path, "n1".parse().unwrap(), "nonce".to_owned());
        // It leads nowhere: no health check sees a file there, so it disables no instance.
        assert_eq!(hand.look(), DisableFile::Absent);
        assert_eq!(put(&hand, Revision(7)).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(!elsewhere.exists(), "the link was written through");
        assert!(path.symlink_metadata().unwrap().is_symlink(), "the link was replaced");
        // A person's file behind it hides, and stays.
        std::fs::write(&elsewhere, "mine\n").unwrap();
        assert_eq!(hand.look(), DisableFile::Foreign);
        put(&hand, Revision(7)).unwrap();
        hand.take_away().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine\n");
    }

    #[test]
    fn irregular_or_large_file_is_foreign_and_blocks_no_read() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("disable");
        let hand =
            DisableFileHandle::new(&Machine::shared(), &path, "n1".parse().unwrap(), "nonce".to_owned());
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(hand.look(), DisableFile::Foreign);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert_eq!(hand.look(), DisableFile::Foreign);
    }

    #[test]
    fn a_persons_file_is_neither_replaced_nor_removed() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("disable");
        let hand =
            DisableFileHandle::new(&Machine::shared(), &path, "n1".parse().unwrap(), "nonce".to_owned());
        assert_eq!(hand.look(), DisableFile::Absent);
        put(&hand, Revision(7)).unwrap();
        assert_eq!(hand.look(), DisableFile::Own);
        put(&hand, Revision(8)).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains("generation 7"), "it was written over");

        let changed = std::fs::read_to_string(&path).unwrap() + "kept out for a disk test\n";
        for foreign in ["", "mine\n", changed.as_str()] {
            std::fs::write(&path, foreign).unwrap();
            assert_eq!(hand.look(), DisableFile::Foreign, "{foreign:?}");
            put(&hand, Revision(9)).unwrap();
            hand.take_away().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), foreign);
        }
        let other =
            DisableFileHandle::new(&Machine::shared(), &path, "n1".parse().unwrap(), "another".to_owned());
        std::fs::remove_file(&path).unwrap();
        put(&other, Revision(1)).unwrap();
        assert_eq!(hand.look(), DisableFile::Foreign, "another agent's file was taken for its own");
        other.take_away().unwrap();
        assert_eq!(hand.look(), DisableFile::Absent);
    }
}
