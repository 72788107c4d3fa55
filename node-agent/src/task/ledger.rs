//! What must not be forgotten of tasks: the one that was taken up, on the disk before each step of it, and how the last
//! ones ended, so that a store that is restored from a backup has none of them run again.

use crate::crash;
use crate::host::{Host, TaskEnd};
use crate::pair::Pair;
use crate::pair::form::NotRead;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::task::{Outcome, Task, TaskRelease};
use tidegate_proto::{Revision, TaskId};

/// The schema number that this version writes, and the highest that it reads.
const SCHEMA: u32 = 1;

/// How many tasks that have ended are remembered.
const REMEMBERED: usize = 200;

/// How much of the reason of a failure is remembered, in characters.
const SHORT: usize = 200;

/// What is remembered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// The form of this file.
    pub schema: u32,
    /// The task that was taken up.
    #[serde(default)]
    pub active: Option<Active>,
    /// Those that have ended, the latest last.
    #[serde(default)]
    ended: VecDeque<Past>,
}

/// The task that was taken up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Active {
    /// Its name.
    pub id: TaskId,
    /// What it says.
    pub task: Task,
    /// Its mod_revision.
    pub order: Revision,
    /// How far it is.
    pub stage: Stage,
}

/// How far a task is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Stage {
    /// It is about to be claimed, or was just now. Its hook has not begun.
    Taking,
    /// It is claimed; its hook is about to begin, or did.
    Begun {
        /// The mod_revision of the claim.
        claim: Revision,
        /// The boot of the machine in which that was.
        boot: String,
    },
    /// It has ended, and that is to be told.
    Ended {
        /// The mod_revision of the claim; absent = it ended without one.
        claim: Revision,
        /// How.
        told: TaskEnd,
    },
}

/// A task that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Past {
    id: TaskId,
    at: Timestamp,
    release: TaskRelease,
    outcome: Outcome,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { schema: SCHEMA, active: None, ended: VecDeque::new() }
    }
}

impl Ledger {
    /// How this very task ended here.
    pub fn remembers(&self, id: &TaskId, task: &Task) -> Option<Outcome> {
        let same = |past: &&Past| past.id == *id && past.at == task.at && past.release == task.release;
        self.ended.iter().find(same).map(|past| past.outcome.clone())
    }

    /// The same with another task under way.
    pub fn with(&self, active: Option<Active>) -> Self {
        Self { active, ..self.clone() }
    }

    /// Remembers how a task ended.
    pub fn note(&mut self, id: &TaskId, task: &Task, outcome: &Outcome) {
        let short = |why: &String| why.chars().take(SHORT).collect();
        let outcome = match outcome {
            Outcome::Failed { why } => Outcome::Failed { why: short(why) },
            Outcome::Unknown { why } => Outcome::Unknown { why: short(why) },
            other => other.clone(),
        };
        self.ended.push_back(Past { id: id.clone(), at: task.at, release: task.release.clone(), outcome });
        while self.ended.len() > REMEMBERED {
            self.ended.pop_front();
        }
    }

    fn word(&self) -> String {
        let stage = self.active.as_ref().map(|active| &active.stage);
        match stage {
            None => "none",
            Some(Stage::Taking) => "taking",
            Some(Stage::Begun { .. }) => "begun",
            Some(Stage::Ended { .. }) => "ended",
        }
        .to_owned()
    }
}

/// Why the journal of tasks cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// It could not be read or written.
    #[error("could not {doing} the journal of tasks {}", path.display())]
    File {
        /// `read`, `write` or `make the directory of`.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It is not one.
    #[error(
        "the journal of tasks {} is damaged: {found}; see which hooks still run, then move both files away: a task that was claimed is then told as unknown",
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
        "the journal of tasks {} has schema {found}, this agent reads up to {SCHEMA}: start the newer agent again",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u32,
    },
}

/// Where it is kept.
#[derive(Debug)]
pub struct LedgerFile {
    home: PathBuf,
    pair: Pair,
}

impl LedgerFile {
    /// The one within `home`, which is made where it is missing.
    pub fn within(host: &Arc<dyn Host>, home: &Path) -> Result<Self, LedgerError> {
        let pair = Pair::new(host, [home.join("journal.a"), home.join("journal.b")]);
        let file = Self { home: home.to_owned(), pair };
        host.make_directory(home).map_err(|e| file.failed("make the directory of", e))?;
        Ok(file)
    }

    /// Reads it, before anything is written; one that was never written is empty.
    pub fn read(&mut self) -> Result<Ledger, LedgerError> {
        self.pair.read_form(SCHEMA).map_err(|unread| match unread {
            NotRead::File(source) => self.failed("read", source),
            NotRead::Damaged(found) => LedgerError::Damaged { path: self.path(), found },
            NotRead::Newer(found) => LedgerError::Newer { path: self.path(), found },
        })
    }

    /// Writes it, and returns when it is on the disk.
    pub fn write(&mut self, ledger: &Ledger) -> Result<(), LedgerError> {
        crash::point("task", || ledger.word(), crash::When::Before);
        self.pair.write_form(ledger).map_err(|source| self.failed("write", source))?;
        crash::point("task", || ledger.word(), crash::When::After);
        Ok(())
    }

    /// Both files, as a shell names them.
    fn path(&self) -> PathBuf {
        self.home.join("journal.[ab]")
    }

    fn failed(&self, doing: &'static str, source: io::Error) -> LedgerError {
        LedgerError::File { doing, path: self.path(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;

    fn task(tag: &str, at: i64) -> Task {
        let release = TaskRelease {
            stream: "compute".parse().unwrap(),
            revision: "7".parse().unwrap(),
            tag: tag.parse().unwrap(),
        };
        Task { hook: "pull".parse().unwrap(), release, at: Timestamp(at), settled: None }
    }

    #[test]
    fn it_is_read_as_it_was_written_and_the_last_ones_are_remembered() {
        let room = tempfile::tempdir().unwrap();
        let mut file = LedgerFile::within(&Machine::shared(), room.path()).unwrap();
        let mut ledger = file.read().unwrap();
        assert_eq!(ledger, Ledger::default());
        let id: TaskId = "prewarm-1".parse().unwrap();
        ledger.note(&id, &task("r-1", 5), &Outcome::Failed { why: "x".repeat(9_000) });
        for number in 0..REMEMBERED {
            ledger.note(&format!("t-{number}").parse().unwrap(), &task("r-2", 6), &Outcome::Succeeded);
        }
        assert_eq!(ledger.remembers(&id, &task("r-1", 5)), None, "the oldest goes first");
        ledger.note(&id, &task("r-1", 5), &Outcome::Failed { why: "x".repeat(9_000) });
        let stage = Stage::Begun { claim: Revision(9), boot: "b".into() };
        ledger.active = Some(Active { id: id.clone(), task: task("r-9", 9), order: Revision(8), stage });
        file.write(&ledger).unwrap();
        let read = LedgerFile::within(&Machine::shared(), room.path()).unwrap().read().unwrap();
        assert_eq!(read, ledger);
        let why = "x".repeat(SHORT);
        assert_eq!(read.remembers(&id, &task("r-1", 5)), Some(Outcome::Failed { why }));
        for other in [task("r-1", 6), task("r-2", 5)] {
            assert_eq!(read.remembers(&id, &other), None, "the same name, and another task: {other:?}");
        }
    }

    #[test]
    fn a_damaged_or_newer_one_is_refused() {
        for (text, told) in [("{\"schema\":2}", "newer agent"), ("nonsense", "damaged"), ("{}", "damaged")] {
            let room = tempfile::tempdir().unwrap();
            let mut file = LedgerFile::within(&Machine::shared(), room.path()).unwrap();
            file.pair.write(text.as_bytes()).unwrap();
            let refused =
                LedgerFile::within(&Machine::shared(), room.path()).unwrap().read().unwrap_err().to_string();
            assert!(refused.contains(told), "{refused}");
        }
    }
}
