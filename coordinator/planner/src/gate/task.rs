//! Hooks that were ordered on nodes.

use super::Sample;
use super::said::{Said, Waits, first};
use serde::{Deserialize, Serialize};
use tidegate_proto::{HookName, NodeId, TaskId};

/// A gate on the tasks of a release.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[expect(missing_docs, reason = "each is described by its sentence, below")]
pub enum TaskGate {
    TaskWaiting { hook: HookName, nodes: Sample },
    TaskRunning { hook: HookName, nodes: Sample },
    TaskUnknown { hook: HookName, node: NodeId, task: TaskId, why: String },
    TaskFailed { hook: HookName, node: NodeId, why: String },
}

impl TaskGate {
    pub(super) fn said(&self, waits: Waits<'_>) -> Said {
        match self {
            Self::TaskWaiting { hook, nodes } => Said::new(
                format!("hook {hook} has not started on {nodes}"),
                "the agents of these nodes, which run one task at a time",
            ),
            Self::TaskRunning { hook, nodes } => Said::new(
                format!("hook {hook} runs on {nodes}"),
                "the agents of these nodes; or a person, who settles the task where a machine is gone for good",
            )
            .next_step(first(nodes).and_then(|node| {
                waits.release(|_, _| format!("tidegate task list --node {node}"))
            })),
            Self::TaskUnknown { hook, node, task, why } => Said::new(
                format!("hook {hook} started on {node}, and its outcome is not known: {why}"),
                "a person, who has verified that its process has ended, and how",
            )
            .next_step(waits.release(|_, _| {
                format!("tidegate task settle {node} {task} --outcome succeeded|failed --why …")
            })),
            Self::TaskFailed { hook, node, why } => Said::new(
                format!("hook {hook} failed on {node}: {why}"),
                "a person, who corrects the hook on that node and retries the release",
            )
            .next_step(waits.release(|stream, revision| {
                format!("tidegate release retry {revision} --stream {stream}")
            })),
        }
    }
}
