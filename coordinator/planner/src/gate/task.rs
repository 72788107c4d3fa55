//! Hooks that were ordered on nodes.

use super::description::{Description, Waits, first};
use super::store::unreadable;
use super::{Reason, Sample};
use crate::fleet::Fleet;
use crate::task::image::{ImageHook, open_on, removals};
use crate::task::{Purpose, TaskState, state};
use serde::{Deserialize, Serialize};
use tidegate_proto::record::stream::{Head, NodeHook};
use tidegate_proto::{HookName, Key, NodeId, ReleaseTag, StreamName, TaskId};

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
    pub(super) fn describe(&self, waits: Waits<'_>) -> Description {
        match self {
            Self::TaskWaiting { hook, nodes } => Description::new(
                format!("hook {hook} has not started on {nodes}"),
                "the agents of these nodes, which run one task at a time",
            ),
            Self::TaskRunning { hook, nodes } => Description::new(
                format!("hook {hook} runs on {nodes}"),
                "the agents of these nodes; or a person, who settles the task where a machine is gone for good",
            )
            .next_step(first(nodes).and_then(|node| {
                waits.release(|_, _| format!("tidegate task list --node {node}"))
            })),
            Self::TaskUnknown { hook, node, task, why } => Description::new(
                format!("hook {hook} started on {node}, and its outcome is not known: {why}"),
                "a person, who has verified that its process has ended, and how",
            )
            .next_step(waits.release(|_, _| {
                let settle = |outcome| format!("tidegate task settle {node} {task} --outcome {outcome} --why …");
                format!("{}, or {}", settle("succeeded"), settle("failed"))
            })),
            Self::TaskFailed { hook, node, why } => Description::new(
                format!("hook {hook} failed on {node}: {why}"),
                "a person, who corrects the hook on that node and retries the release",
            )
            .next_step(waits.release(|stream, revision| {
                format!("tidegate release retry {revision} --stream {stream}")
            })),
        }
    }
}

/// How far the hooks of a release are.
pub(crate) enum Hooks {
    /// Every node has succeeded.
    Done,
    /// Some have not ended.
    Waits(Vec<Reason>),
    /// One has failed.
    Failed(Reason),
}

impl Hooks {
    /// What it waits for, or what failed.
    pub(crate) fn reasons(self) -> Option<Vec<Reason>> {
        match self {
            Self::Done => None,
            Self::Waits(reasons) => Some(reasons),
            Self::Failed(reason) => Some(vec![reason]),
        }
    }
}

/// Whether the hooks of a release have succeeded on every node.
pub(crate) fn hooks(
    fleet: &Fleet,
    name: &StreamName,
    purpose: Purpose,
    asked: &NodeHook,
    head: &Head,
) -> Hooks {
    let id = purpose.task(name, head);
    let hook = &asked.hook;
    let unknown = |node: &NodeId, task: &TaskId, why| {
        let (node, task) = (node.clone(), task.clone());
        Reason::from(TaskGate::TaskUnknown { hook: hook.clone(), node, task, why })
    };
    let (mut untaken, mut running, mut reasons) = (Vec::new(), Vec::new(), Vec::new());
    for node in &asked.nodes {
        if let Some(reason) = is_unreadable(fleet, node, &id) {
            reasons.push(reason);
            continue;
        }
        match state(fleet, node, &id) {
            TaskState::Succeeded => {}
            TaskState::Failed(why) => {
                let failed = TaskGate::TaskFailed { hook: hook.clone(), node: node.clone(), why };
                return Hooks::Failed(failed.into());
            }
            TaskState::Unknown(why) => reasons.push(unknown(node, &id, why)),
            TaskState::Claimed => running.push(node),
            TaskState::Untaken => match open_on(fleet, node, name, &head.release.tag, &id) {
                Some(ImageHook { id: former, state: TaskState::Unknown(why), .. }) => {
                    reasons.push(unknown(node, former, why))
                }
                Some(_) => running.push(node),
                None => untaken.push(node),
            },
        }
    }
    if !untaken.is_empty() {
        let nodes = Sample::counted(untaken.into_iter());
        reasons.push(TaskGate::TaskWaiting { hook: hook.clone(), nodes }.into());
    }
    if !running.is_empty() {
        let nodes = Sample::counted(running.into_iter());
        reasons.push(TaskGate::TaskRunning { hook: hook.clone(), nodes }.into());
    }
    if reasons.is_empty() { Hooks::Done } else { Hooks::Waits(reasons) }
}

/// A record of the task that cannot be read: neither is it ordered again, nor does it count as anything.
pub(crate) fn is_unreadable(fleet: &Fleet, node: &NodeId, id: &TaskId) -> Option<Reason> {
    let keys = [Key::Task(node.clone(), id.clone()), Key::TaskResult(node.clone(), id.clone())];
    keys.iter().find_map(|key| Some(unreadable(key, fleet.unreadable_at(key)?)))
}

/// Why a release with this tag does not go out yet: its image is being removed, or an agent may begin to remove it.
pub(crate) fn being_removed(fleet: &Fleet, stream: &StreamName, tag: &ReleaseTag) -> Vec<Reason> {
    let held = |removal: &ImageHook<'_>| removal.state.is_open() || removal.state == TaskState::Untaken;
    removals(fleet, stream, tag).filter(held).map(|held| removal(fleet, held)).collect()
}

/// The same for removals alone that were begun and have not ended as far as is known.
pub(crate) fn removal_runs(fleet: &Fleet, stream: &StreamName, tag: &ReleaseTag) -> Option<Reason> {
    removals(fleet, stream, tag).find(|removal| removal.state.is_open()).map(|open| removal(fleet, open))
}

/// The same for removals alone that an agent may still begin.
pub(crate) fn not_withdrawn(fleet: &Fleet, stream: &StreamName, tag: &ReleaseTag) -> Vec<Reason> {
    let untaken = |removal: &ImageHook<'_>| removal.state == TaskState::Untaken;
    removals(fleet, stream, tag).filter(untaken).map(|left| removal(fleet, left)).collect()
}

fn removal(fleet: &Fleet, removal: ImageHook<'_>) -> Reason {
    let ImageHook { node, id, task, state } = removal;
    if let Some(reason) = is_unreadable(fleet, node, id) {
        return reason;
    }
    let hook = task.hook.clone();
    let nodes = || Sample::counted([node].into_iter());
    match state {
        TaskState::Unknown(why) => TaskGate::TaskUnknown { hook, node: node.clone(), task: id.clone(), why },
        TaskState::Untaken => TaskGate::TaskWaiting { hook, nodes: nodes() },
        _ => TaskGate::TaskRunning { hook, nodes: nodes() },
    }
    .into()
}
