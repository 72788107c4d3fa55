//! What the agent must not forget: one small text per service, on disk before each act that it speaks of. Killed at
//! any instant and started again, the agent neither starts a service twice nor forgets a drain.

use crate::crash;
use crate::directive::phase::Phase;
use crate::host::{self, Host};
use crate::pair::Pair;
use crate::pair::form::NotRead;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_proto::record::directive::{Directive, Disposition};
use tidegate_proto::record::reconciliation::Obeyed;
use tidegate_proto::record::report::Witness;
use tidegate_proto::record::window::Window;
use tidegate_proto::{Digest, Generation, ReleaseTag, Revision, ServiceVersion};
use tokio::sync::oneshot;

/// The schema number that this version writes, and the highest that it reads.
const SCHEMA: u32 = 1;

/// What is remembered of one service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Journal {
    /// The form of this file.
    pub schema: u32,
    /// Where the instance stands.
    pub phase: Phase,
    /// The last directive that was accepted.
    #[serde(default)]
    pub order: Option<Order>,
    /// That directive presumes that the instance is out of rotation, and it was not: it is not carried out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declined: bool,
    /// The last window that was seen; absent where there was none.
    #[serde(default)]
    pub window: Option<Known>,
    /// The last admission.
    #[serde(default)]
    pub admitted: Option<Admitted>,
    /// The last refusal, until something changes.
    #[serde(default)]
    pub refusal: Option<Refusal>,
    /// The release that runs, or ran last; what is started again after a crash.
    #[serde(default)]
    pub release: Option<ReleaseTag>,
    /// The process that was started last, with the `process` driver.
    #[serde(default)]
    pub process: Option<Started>,
    /// Nothing of what was started since the last confirmed stop was ever in rotation: no request can be in flight.
    #[serde(default)]
    pub unexposed: bool,
    /// It was shown before its readiness could be known; while it verifies.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shown_unjudged: bool,
    /// The releases that the agent staged, by the digest that was verified.
    #[serde(default)]
    pub staged: BTreeMap<ReleaseTag, Digest>,
    /// What outranks a restored store: reports name it.
    #[serde(default)]
    pub witness: Witness,
}

/// An accepted directive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The mod_revision of its key.
    pub generation: Generation,
    /// What it said.
    pub directive: Directive,
}

/// A window as the store had it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// The mod_revision of its key.
    pub revision: Revision,
    /// Floor and ceiling.
    pub window: Window,
}

/// An admission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Admitted {
    /// The version that was admitted.
    pub version: ServiceVersion,
    /// Its release, where it is known.
    pub release: Option<ReleaseTag>,
    /// The mod_revision of the inventory record; 0 since the store was reconciled, until it is admitted there.
    pub revision: Revision,
}

/// An admission that was refused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// The version that was refused.
    pub version: ServiceVersion,
    /// The mod_revision of the window that refused it.
    pub window: Revision,
    /// Why, for people.
    pub reason: String,
    /// Whether an instance in rotation may stay there with this version until it is drained.
    #[serde(default)]
    pub bears: bool,
}

/// A process that the agent started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// Its id, and that of its group and session.
    pub pid: i32,
    /// When it started, in the kernel's ticks since boot: with the pid, a name that is not given twice.
    pub ticks: u64,
}

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

impl Default for Journal {
    fn default() -> Self {
        Self {
            schema: SCHEMA,
            phase: Phase::Fresh,
            order: None,
            declined: false,
            window: None,
            admitted: None,
            refusal: None,
            release: None,
            process: None,
            unexposed: false,
            shown_unjudged: false,
            staged: BTreeMap::new(),
            witness: Witness::default(),
        }
    }
}

impl Journal {
    /// The generation of the last accepted directive; 0 for none.
    pub fn generation(&self) -> Generation {
        self.order.as_ref().map_or(Revision::ABSENT, |order| order.generation)
    }

    /// What the accepted directive wants; none where there is none, or it was declined.
    pub fn disposition(&self) -> Option<&Disposition> {
        self.order.as_ref().filter(|_| !self.declined).map(|order| &order.directive.disposition)
    }

    /// The mod_revision of the last window that was seen; 0 for none.
    pub fn window_revision(&self) -> Revision {
        self.window.as_ref().map_or(Revision::ABSENT, |known| known.revision)
    }

    /// The mod_revision of the last admission; 0 for none.
    pub fn admission(&self) -> Revision {
        self.admitted.as_ref().map_or(Revision::ABSENT, |admitted| admitted.revision)
    }

    /// What was obeyed so far.
    pub fn obeyed(&self) -> Obeyed<'_> {
        Obeyed {
            term: self.witness.term.as_ref(),
            floor: self.witness.floor,
            revision: self.generation().max(self.window_revision()),
        }
    }

    /// A person has reconciled the store at `at`: what it says from there on is obeyed, and no directive from before.
    /// The order that was accepted stands until then, and the floor stands until a window is acknowledged.
    pub fn reconcile(&mut self, at: Revision) {
        if let Some(order) = &mut self.order {
            order.generation = at;
        }
        if let Some(admitted) = &mut self.admitted {
            // Its record was the former store's.
            admitted.revision = Revision::ABSENT;
        }
        self.window = None;
        self.refusal = None;
        self.witness = Witness { term: None, floor: self.witness.floor, reconciled: at };
    }
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

/// Writes a journal beside what goes on meanwhile: one write at a time, in order.
#[derive(Debug)]
pub struct Pen {
    host: Arc<dyn Host>,
    file: JournalFile,
    writes: Option<oneshot::Receiver<(JournalFile, Result<(), JournalError>)>>,
}

impl Pen {
    /// Nothing is being written; the file was read.
    pub fn new(host: &Arc<dyn Host>, file: JournalFile) -> Self {
        Self { host: Arc::clone(host), file, writes: None }
    }

    /// Begins to write `journal`, after what is being written.
    pub async fn begin(&mut self, journal: &Journal) -> Result<(), JournalError> {
        self.ended().await?;
        let (mut file, journal) = (self.file.clone(), journal.clone());
        self.writes = Some(host::aside(self.host.as_ref(), move || {
            let written = file.write(&journal);
            (file, written)
        }));
        Ok(())
    }

    /// Waits until what was begun is on the disk.
    pub async fn ended(&mut self) -> Result<(), JournalError> {
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
    use crate::host::Machine;

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
