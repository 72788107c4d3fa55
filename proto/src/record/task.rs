//! A hook to run once on a node, and what came of it. The record only names the hook: what that is, the node's own
//! configuration says. Claimed by a transaction before it runs; a claimed task is never moved or repeated on silence.

use super::{Body, Timestamp};
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
}

impl Body for Task {
    const SCHEMA: u32 = 1;
}

/// The compute release that a task is run for: what the hook is told of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TaskRelease {
    /// Its stream.
    pub stream: StreamName,
    /// Its revision.
    pub revision: ReleaseRevision,
    /// The tag of its image.
    pub tag: ReleaseTag,
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TaskResult {
    /// How far it is.
    pub outcome: Outcome,
    /// When that was told, by the agent's clock.
    pub at: Timestamp,
}

impl Body for TaskResult {
    const SCHEMA: u32 = 1;
}

/// How far a task is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
}
