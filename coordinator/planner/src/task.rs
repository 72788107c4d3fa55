//! How far a task is: what its agent tells of it, and what a person states where the agent cannot.

use crate::fleet::Fleet;
use std::fmt;
use tidegate_proto::record::task::{Ended, Outcome};
use tidegate_proto::{NodeId, TaskId};

/// How much of what an agent tells is repeated, in characters: it ends up in records of the coordinator.
const MOST: usize = 500;

/// What a task's hook is run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Before a release goes out.
    Prewarm,
    /// After it was collected.
    Removal,
}

impl Purpose {
    /// The word that the name of such a task begins with.
    fn word(self) -> &'static str {
        match self {
            Self::Prewarm => "prewarm",
            Self::Removal => "remove",
        }
    }

    /// The purpose of a task, by its name; none = the task is of an unknown kind.
    pub fn of(id: &TaskId) -> Option<Self> {
        let first = id.as_str().split('-').next();
        [Self::Prewarm, Self::Removal].into_iter().find(|purpose| first == Some(purpose.word()))
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How far a task is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskState {
    /// No agent has claimed it.
    Untaken,
    /// Its agent has claimed it, and tells when it has ended.
    Claimed,
    /// It was claimed, and its agent cannot find out how it ended: a person states it.
    Unknown(String),
    /// It ended well.
    Succeeded,
    /// It did not.
    Failed(String),
}

impl TaskState {
    /// Whether it was begun, and has not ended as far as is known.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Claimed | Self::Unknown(_))
    }

    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Untaken => "waiting",
            Self::Claimed => "claimed",
            Self::Unknown(_) => "unknown",
            Self::Succeeded => "succeeded",
            Self::Failed(_) => "failed",
        }
    }
}

/// How far a task is. What its agent has seen counts more than what a person states.
pub fn state(fleet: &Fleet, node: &NodeId, id: &TaskId) -> TaskState {
    let settled = fleet.task(node, id).and_then(|task| task.record.body.settled.clone());
    let told = fleet.task_result(node, id).map(|result| &result.record.body.outcome);
    match (told, settled) {
        (Some(Outcome::Succeeded), _) => TaskState::Succeeded,
        (Some(Outcome::Failed { why }), _) => TaskState::Failed(short(why)),
        (Some(_), Some(word)) => match word.ended {
            Ended::Succeeded => TaskState::Succeeded,
            Ended::Failed => TaskState::Failed(format!("{} states: {}", word.who, word.why)),
        },
        (Some(Outcome::Claimed), None) => TaskState::Claimed,
        (Some(Outcome::Unknown { why }), None) => TaskState::Unknown(short(why)),
        (None, _) => TaskState::Untaken,
    }
}

fn short(why: &str) -> String {
    why.chars().take(MOST).collect()
}
