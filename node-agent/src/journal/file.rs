//! The journal's file: read once, then written beside what else the agent does.

use super::{Journal, SCHEMA};
use crate::crash;
use crate::host::{self, Host};
use crate::pair::Pair;
use crate::pair::form::NotRead;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_proto::mutant;
use tokio::sync::oneshot;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It could not be read or written.
    #[error("could not {doing} the journal {}", path.display())]
    File {
        /// `read` or `write`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is not a journal.
    #[error(
        "the journal {} is damaged: {found}; look at what runs, then move both files away, so that the service is adopted again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
    },
    /// A newer agent wrote it.
    #[error(
        "the journal {} has schema {found}, this agent reads up to {SCHEMA}: start the newer agent again",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
    },
}

/// Where the journal of a service is kept.
#[derive(Debug, Clone)]
pub struct JournalFile {
    home: PathBuf,
    pair: Pair,
}

impl JournalFile {
    /// The journal of the service whose directory in the state directory is `home`.
    pub fn within(host: &Arc<dyn Host>, home: &Path) -> Self {
        let pair = Pair::new(host, [home.join("journal.a"), home.join("journal.b")]);
        Self { home: home.to_owned(), pair }
    }

    /// Reads it, before anything is written; one that was never written is empty.
    pub fn read(&mut self) -> Result<Journal, JournalError> {
        self.pair.read_form(SCHEMA).map_err(|unread| match unread {
            NotRead::File(source) => self.failed("read", source),
            NotRead::Damaged(found) => JournalError::Damaged { path: self.path(), found },
            NotRead::Newer(found) => JournalError::Newer { path: self.path(), found },
        })
    }

    /// Writes it, and returns when it is on the disk.
    pub fn write(&mut self, journal: &Journal) -> Result<(), JournalError> {
        crash::point("journal", || journal.phase.name(), crash::When::Before);
        self.pair.write_form(journal).map_err(|source| self.failed("write", source))?;
        crash::point("journal", || journal.phase.name(), crash::When::After);
        Ok(())
    }

    /// Both files, as a shell names them.
    fn path(&self) -> PathBuf {
        self.home.join("journal.[ab]")
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> JournalError {
        JournalError::File { doing, path: self.path(), source }
    }
}

/// Writes the journal beside what else the agent does: one write at a time, in order. What must be on the disk first waits
/// for it: an act, and a report on which others build.
#[derive(Debug)]
pub struct JournalWriter {
    host: Arc<dyn Host>,
    file: JournalFile,
    /// The journal has changed since the last write was begun.
    changed: bool,
    writes: Option<oneshot::Receiver<(JournalFile, Result<(), JournalError>)>>,
}

impl JournalWriter {
    /// For a file that was read.
    pub fn new(host: &Arc<dyn Host>, file: JournalFile) -> Self {
        Self { host: Arc::clone(host), file, changed: false, writes: None }
    }

    /// The journal has changed: it is written before the next act with an effect, the next report, the next rest.
    pub fn mark_changed(&mut self) {
        self.changed = true;
    }

    /// Begins to write `journal` where it has changed, after what is being written.
    pub async fn begin(&mut self, journal: &Journal) -> Result<(), JournalError> {
        if !std::mem::take(&mut self.changed) {
            return Ok(());
        }
        self.ended().await?;
        let (mut file, journal) = (self.file.clone(), journal.clone());
        self.writes = Some(host::aside(self.host.as_ref(), move || {
            let written = file.write(&journal);
            (file, written)
        }));
        Ok(())
    }

    /// Waits until `journal` is on the disk.
    pub async fn flush(&mut self, journal: &Journal) -> Result<(), JournalError> {
        self.begin(journal).await?;
        self.ended().await
    }

    /// The same, before what the journal must outlast: an act, or a report on which others build.
    pub async fn flush_first(&mut self, journal: &Journal) -> Result<(), JournalError> {
        if mutant::is("journal-is-written-after-the-act") {
            return Ok(());
        }
        self.flush(journal).await
    }

    async fn ended(&mut self) -> Result<(), JournalError> {
        let Some(writes) = &mut self.writes else { return Ok(()) };
        let ended = writes.await;
        self.writes = None;
        let (file, written) = ended.map_err(|broken| self.file.failed("write", io::Error::other(broken)))?;
        self.file = file;
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Phase;
    use crate::machine::Machine;

    #[test]
    fn a_journal_is_read_as_it_was_written() {
        let room = tempfile::tempdir().unwrap();
        let mut file = JournalFile::within(&Machine::shared(), room.path());
        assert_eq!(file.read().unwrap(), Journal::default());
        let journal = Journal { phase: Phase::Drained { forced: true }, ..Journal::default() };
        file.write(&journal).unwrap();
        assert_eq!(JournalFile::within(&Machine::shared(), room.path()).read().unwrap(), journal);
    }

    #[test]
    fn a_damaged_or_newer_journal_is_refused_and_kept() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("journal.a");
        let refused = |told: &str| {
            let before = std::fs::read(&path).unwrap();
            let error = JournalFile::within(&Machine::shared(), room.path()).read().unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), before);
        };
        for (text, told) in
            [("{\"schema\":1}", "damaged"), ("nonsense", "damaged"), ("{\"schema\":2}", "newer agent")]
        {
            let _ = std::fs::remove_file(&path);
            Pair::new(&Machine::shared(), [path.clone(), room.path().join("journal.b")])
                .write(text.as_bytes())
                .unwrap();
            refused(told);
        }
        std::fs::write(&path, "not written by an agent").unwrap();
        refused("neither file is whole");
    }
}
