//! A hook to run once on a node, and what came of it. The record only names the hook: what that is, the node's own
//! configuration says. Claimed by a transaction before it runs; a claimed task is never moved or repeated on silence: it
//! waits for its agent, or for a person who states that its process has ended.

use super::report::Identity;
use super::{Body, Timestamp};
use crate::word::words;
use crate::{HookName, ReleaseRevision, ReleaseTag, StreamName};
use serde::{Deserialize, Serialize};

/// What is to be run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Task {
    /// The hook, as the node's own configuration defines it.
    pub hook: HookName,
    /// The compute release that it is run for.
    pub release: TaskRelease,
    /// When it was ordered.
    pub at: Timestamp,
    /// A declaration by a person that its process has ended, where the agent could not find out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Settlement>,
}

impl Body for Task {
    const SCHEMA: u32 = 1;
}

/// The compute release that a task is run for, as passed to the hook.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TaskRelease {
    /// Its stream.
    pub stream: StreamName,
    /// Its revision.
    pub revision: ReleaseRevision,
    /// The tag of its image.
    pub tag: ReleaseTag,
}

/// A declaration by a person about a task that was claimed: how its process has ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Settlement {
    /// How it ended.
    pub ended: Ended,
    /// Who says so.
    pub who: String,
    /// How they know.
    pub why: String,
    /// When they said it.
    pub at: Timestamp,
}

/// How a task ended, as a person states it.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// What the hook is for is done.
    Succeeded,
    /// It is not.
    Failed,
}

words!(Ended, NotAnEnd, "{0:?} is not how a task ends: succeeded or failed");

/// What came of a task.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TaskResult {
    /// How far it is.
    pub outcome: Outcome,
    /// When that was reported, by the agent's clock.
    pub at: Timestamp,
    /// The agent that claimed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Identity>,
    /// The last lines that the hook printed; at most [`MAX_OUTPUT`] bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
}

/// The most output of a hook that a result has, in bytes.
pub const MAX_OUTPUT: usize = 4 * 1024;

impl TaskResult {
    /// A result that names no agent and has no output.
    pub fn new(outcome: Outcome, at: Timestamp) -> Self {
        Self { outcome, at, by: None, output: String::new() }
    }
}

impl Body for TaskResult {
    const SCHEMA: u32 = 1;
    const MAX_BYTES: usize = 32 * 1024;
}

/// The most results of one node that are read; an agent has few, because each belongs to a task.
pub const MAX_RESULTS_OF_NODE: usize = 1000;

/// How far a task is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Outcome {
    /// The agent has taken it and runs it, or did when it was last heard.
    Claimed,
    /// The hook ended well.
    Succeeded,
    /// It did not, or there is no such hook.
    Failed {
        /// What was tried and found.
        why: String,
    },
    /// It was claimed, the hook may have run, and its agent cannot find out how it ended.
    Unknown {
        /// Why not.
        why: String,
    },
}

impl Outcome {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        self.into()
    }
}
