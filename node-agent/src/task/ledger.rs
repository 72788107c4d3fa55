//! The journal of tasks: the active task, on the disk before each of its steps, and how the last ones ended, so that a
//! restored store has none of them run again.

use super::run;
use crate::host::TaskEnd;
use crate::pair::state::State;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::task::{Outcome, Task, TaskRelease};
use tidegate_proto::{Revision, TaskId};

/// How many tasks that have ended are remembered.
const REMEMBERED: usize = 200;

/// How much of the reason of a failure is remembered, in characters.
const SHORT: usize = 200;

/// How much of the output of a hook is remembered, in bytes: the end of it.
const OUTPUT: usize = 1024;

/// What is remembered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ledger {
    /// The task that was taken up.
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
    /// It has ended, and that is to be reported.
    Ended {
        /// The mod_revision of the claim; absent = it ended without one.
        claim: Revision,
        #[serde(alias = "told")]
        end: TaskEnd,
    },
}

/// A task that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Past {
    id: TaskId,
    at: Timestamp,
    release: TaskRelease,
    outcome: Outcome,
    /// The end of what the hook printed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    output: String,
}

impl State for Ledger {
    const NAME: &'static str = "journal of tasks";
    const SCHEMA: u32 = 1;
    const IF_DAMAGED: &'static str = "see which hooks still run, then move both files away: a task that was claimed is then \
                                      part as unknown";
    const CRASH_POINT: &'static str = "task";

    fn step(&self) -> String {
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

impl Ledger {
    /// How this very task ended here.
    pub fn remembers(&self, id: &TaskId, task: &Task) -> Option<TaskEnd> {
        let same = |past: &&Past| past.id == *id && past.at == task.at && past.release == task.release;
        let past = self.ended.iter().find(same)?;
        Some(TaskEnd { outcome: past.outcome.clone(), output: past.output.clone() })
    }

    /// The same with another task under way.
    pub fn with(&self, active: Option<Active>) -> Self {
        Self { active, ..self.clone() }
    }

    /// Remembers how a task ended.
    pub fn note(&mut self, id: &TaskId, task: &Task, end: &TaskEnd) {
        if self.remembers(id, task).is_some() {
            return;
        }
        let short = |why: &String| why.chars().take(SHORT).collect();
        let outcome = match &end.outcome {
            Outcome::Failed { why } => Outcome::Failed { why: short(why) },
            Outcome::Unknown { why } => Outcome::Unknown { why: short(why) },
            other => other.clone(),
        };
        let (release, output) = (task.release.clone(), run::tail(&end.output, OUTPUT).to_owned());
        self.ended.push_back(Past { id: id.clone(), at: task.at, release, outcome, output });
        while self.ended.len() > REMEMBERED {
            self.ended.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::pair::Pair;
    use crate::pair::state::StateFile;

    fn task(tag: &str, at: i64) -> Task {
        let release = TaskRelease {
            stream: "compute".parse().unwrap(),
            revision: "7".parse().unwrap(),
            tag: tag.parse().unwrap(),
        };
        Task { hook: "pull".parse().unwrap(), release, at: Timestamp(at), settled: None }
    }

    fn failed() -> TaskEnd {
        TaskEnd { outcome: Outcome::Failed { why: "x".repeat(9_000) }, output: "ä".repeat(OUTPUT) }
    }

    #[test]
    fn ledger_round_trips_and_remembers_last_tasks() {
        let room = tempfile::tempdir().unwrap();
        let mut file = StateFile::<Ledger>::within(&Machine::shared(), room.path());
        let mut ledger = file.read().unwrap();
        assert_eq!(ledger, Ledger::default());
        let id: TaskId = "prewarm-1".parse().unwrap();
        ledger.note(&id, &task("r-1", 5), &failed());
        for number in 0..REMEMBERED {
            let ended = TaskEnd::short(Outcome::Succeeded);
            ledger.note(&format!("t-{number}").parse().unwrap(), &task("r-2", 6), &ended);
        }
        assert_eq!(ledger.remembers(&id, &task("r-1", 5)), None, "the oldest goes first");
        ledger.note(&id, &task("r-1", 5), &failed());
        let stage = Stage::Begun { claim: Revision(9), boot: "b".into() };
        ledger.active = Some(Active { id: id.clone(), task: task("r-9", 9), order: Revision(8), stage });
        file.write(&ledger).unwrap();
        let read = StateFile::<Ledger>::within(&Machine::shared(), room.path()).read().unwrap();
        assert_eq!(read, ledger);
        let (why, output) = ("x".repeat(SHORT), "ä".repeat(OUTPUT / 2));
        let short = TaskEnd { outcome: Outcome::Failed { why }, output };
        assert_eq!(read.remembers(&id, &task("r-1", 5)), Some(short), "with the end of its output");
        for other in [task("r-1", 6), task("r-2", 5)] {
            assert_eq!(read.remembers(&id, &other), None, "the same name, and another task: {other:?}");
        }
    }

    #[test]
    fn task_remembered_without_output_is_read() {
        let mut ledger = Ledger::default();
        let id: TaskId = "prewarm-1".parse().unwrap();
        let ended = TaskEnd::short(Outcome::Succeeded);
        ledger.note(&id, &task("r-1", 5), &ended);
        let written = serde_json::to_value(&ledger).unwrap();
        assert!(
            written["ended"][0].get("output").is_none(),
            "as an agent before this one wrote it: {written}"
        );
        let read: Ledger = serde_json::from_value(written).unwrap();
        assert_eq!(read.remembers(&id, &task("r-1", 5)), Some(ended));
    }

    #[test]
    fn end_of_a_task_is_read_under_its_former_name() {
        let stage = Stage::Ended { claim: Revision(9), end: TaskEnd::short(Outcome::Succeeded) };
        let mut former = serde_json::to_value(&stage).unwrap();
        former["told"] = former.as_object_mut().unwrap().remove("end").unwrap();
        assert_eq!(serde_json::from_value::<Stage>(former).unwrap(), stage);
    }

    #[test]
    fn a_damaged_or_newer_one_is_refused() {
        for (text, part) in [("{\"schema\":2}", "newer agent"), ("nonsense", "damaged"), ("{}", "damaged")] {
            let room = tempfile::tempdir().unwrap();
            let paths = [room.path().join("journal.a"), room.path().join("journal.b")];
            Pair::new(&Machine::shared(), paths).write(text.as_bytes()).unwrap();
            let refused =
                StateFile::<Ledger>::within(&Machine::shared(), room.path()).read().unwrap_err().to_string();
            assert!(refused.contains(part), "{refused}");
        }
    }
}
