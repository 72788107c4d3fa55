//! A task's state: what its agent reports, and what an operator states where the agent cannot.

pub(crate) mod image;

use crate::fleet::Fleet;
use tidegate_proto::record::stream::Head;
use tidegate_proto::record::task::{Ended, Outcome, TaskResult};
use tidegate_proto::{Digest, NodeId, StreamName, TaskId};

/// How much of an agent's report is repeated, in characters: it ends up in records of the coordinator.
const MOST: usize = 500;

/// What a task's hook is run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Purpose {
    /// Before a release goes out.
    Prewarm,
    /// After it was collected.
    #[strum(serialize = "remove")]
    Removal,
}

impl Purpose {
    /// The word that the name of such a task begins with.
    fn word(self) -> &'static str {
        self.into()
    }

    /// The purpose of a task, by its name; none = the task is of an unknown kind.
    pub fn of(id: &TaskId) -> Option<Self> {
        let first = id.as_str().split('-').next();
        [Self::Prewarm, Self::Removal].into_iter().find(|purpose| first == Some(purpose.word()))
    }

    /// The name of a task: short whatever the stream is called, and another for each attempt.
    pub(crate) fn task(self, name: &StreamName, head: &Head) -> TaskId {
        let stream: String = Digest::of(name.as_str().as_bytes()).to_string().chars().take(12).collect();
        format!("{self}-{stream}-{}-{}", head.release.revision, head.attempt)
            .parse()
            .expect("a word, twelve digits of a digest and two numbers are a name")
    }
}

/// How far a task is.
#[derive(Debug, Clone, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum TaskState {
    /// No agent has claimed it.
    #[strum(serialize = "waiting")]
    Untaken,
    /// Its agent has claimed it, and reports when it has ended.
    Claimed,
    /// It was claimed, and its agent cannot find out how it ended, was replaced by another, or is not named: a person states it.
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
        self.into()
    }
}

/// How far a task is. What its agent has seen counts more than what a person states.
pub fn state(fleet: &Fleet, node: &NodeId, id: &TaskId) -> TaskState {
    let settled = fleet.task(node, id).and_then(|task| task.record.body.settled.clone());
    let result = fleet.task_result(node, id).map(|result| &result.record.body);
    match (result.map(|result| &result.outcome), settled) {
        (Some(Outcome::Succeeded), _) => TaskState::Succeeded,
        (Some(Outcome::Failed { why }), _) => TaskState::Failed(short(why)),
        (Some(_), Some(word)) => match word.ended {
            Ended::Succeeded => TaskState::Succeeded,
            Ended::Failed => TaskState::Failed(format!("{} states: {}", word.who, word.why)),
        },
        (Some(Outcome::Claimed), None) => {
            let orphaned = result.and_then(|claim| orphaned(fleet, node, claim));
            orphaned.map_or(TaskState::Claimed, TaskState::Unknown)
        }
        (Some(Outcome::Unknown { why }), None) => TaskState::Unknown(short(why)),
        (None, _) => TaskState::Untaken,
    }
}

/// Why no agent may ever report how it ended: the claim names none, as no agent writes it, or another one reports the node in
/// place of the one that claimed it.
fn orphaned(fleet: &Fleet, node: &NodeId, claim: &TaskResult) -> Option<String> {
    let Some(by) = &claim.by else {
        return Some("its claim names no agent, so that none will report how it ends".to_owned());
    };
    let nonce = &by.nonce;
    let mut reports = fleet.services().filter_map(|service| service.get(node)?.report.as_ref()).peekable();
    let is_replaced = reports.peek().is_some() && reports.all(|report| report.identity.nonce != *nonce);
    is_replaced.then(|| {
        short(&format!("the agent with nonce {nonce} claimed it, and another agent reports the node now"))
    })
}

fn short(why: &str) -> String {
    why.chars().take(MOST).collect()
}
