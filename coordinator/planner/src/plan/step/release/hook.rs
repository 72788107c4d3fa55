//! Hooks on named nodes: what warms a release up before it goes out, and what removes its image when it is collected.
//! Ordered as tasks, each under a name that is never used again; claimed and run by the nodes' agents.

use crate::action::{Action, PlannedCommit};
use crate::fleet::Fleet;
use crate::gate::Reason;
use crate::gate::task::{hooks, is_unreadable};
use crate::plan::draft::BATCH;
use crate::stream::change::Change;
use crate::stream::image;
use crate::task::Purpose::{self, Prewarm, Removal};
use crate::task::image::{is_open, open_on};
use crate::task::state;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::stream::{Head, NodeHook, Stream};
use tidegate_proto::record::task::{Task, TaskRelease};
use tidegate_proto::{Key, ReleaseRevision, Revision, StreamName, TaskId};

/// Every release that needs hooks now, with the hooks.
fn wanted(stream: &Stream) -> impl Iterator<Item = (Purpose, &NodeHook, &Head)> {
    let prewarm = stream.settings.prewarm.as_ref();
    let removal = stream.settings.removal.as_ref();
    let warmed = stream.pending.iter().filter_map(move |head| Some((Prewarm, prewarm?, head)));
    let collected = stream
        .kept
        .iter()
        .filter(|head| head.release.status == ReleaseStatus::Deprecated)
        .filter(|head| image::holder_beside(stream, head).is_none());
    warmed.chain(collected.filter_map(move |head| Some((Removal, removal?, head))))
}

/// Orders the hooks that are missing: of waiting releases that nothing else holds, and of collected ones.
pub(super) fn order(
    change: &Change<'_>,
    waiting: &mut BTreeMap<ReleaseRevision, Vec<Reason>>,
) -> Option<Action> {
    let mut commit = Commit::new().when(Precondition::At(Key::Stream(change.name.clone()), change.at()));
    let mut count = 0;
    for (purpose, asked, head) in wanted(&change.stream) {
        if purpose == Prewarm && !super::is_held_by_prewarm_alone(change, head) {
            continue;
        }
        if purpose == Removal && is_open(change.fleet, change.name, Prewarm, &head.release.tag) {
            continue;
        }
        if purpose == Removal
            && let Some(reasons) = hooks(change.fleet, change.name, purpose, asked, head).reasons()
        {
            waiting.insert(head.release.revision, reasons);
        }
        let id = purpose.task(change.name, head);
        for node in asked.nodes.iter().collect::<BTreeSet<_>>() {
            let fleet = change.fleet;
            let known = fleet.task(node, &id).is_some()
                || fleet.task_result(node, &id).is_some()
                || is_unreadable(fleet, node, &id).is_some()
                || open_on(fleet, node, change.name, &head.release.tag, &id).is_some();
            if known || count == BATCH {
                continue;
            }
            count += 1;
            let key = Key::Task(node.clone(), id.clone());
            let release = TaskRelease {
                stream: change.name.clone(),
                revision: head.release.revision,
                tag: head.release.tag.clone(),
            };
            let at = change.moment.wall;
            let body = Task { hook: asked.hook.clone(), release, at, settled: None };
            // A result that was there before its task would be taken for this task's.
            let result = Key::TaskResult(node.clone(), id.clone());
            commit = commit
                .when(Precondition::At(key.clone(), Revision::ABSENT))
                .when(Precondition::At(result, Revision::ABSENT))
                .put(key, body);
        }
    }
    let what = format!("{count} tasks");
    let subject = Subject::Stream(change.name.clone());
    (count > 0).then_some(Action::Commit(PlannedCommit::new(subject, what, commit)))
}

/// Removes tasks that nothing waits for any more, with their results; never one that an agent has claimed and that has
/// not ended as far as is known.
pub(super) fn forget(fleet: &Fleet, name: &StreamName) -> Option<Action> {
    let stream = fleet.stream(name)?;
    let kept: BTreeSet<TaskId> = wanted(stream).map(|(purpose, _, head)| purpose.task(name, head)).collect();
    let mut commit = Commit::new();
    let mut count = 0;
    for (node, id, task) in fleet.tasks() {
        let stays =
            kept.contains(id) || state(fleet, node, id).is_open() || is_unreadable(fleet, node, id).is_some();
        if task.release.stream != *name || stays || count == BATCH / 2 {
            continue;
        }
        count += 1;
        let known = fleet.task_result(node, id);
        let (order, result) =
            (Key::Task(node.clone(), id.clone()), Key::TaskResult(node.clone(), id.clone()));
        let at = known.map_or(Revision::ABSENT, |result| result.at);
        commit = commit
            .when(Precondition::At(order.clone(), task.at))
            .when(Precondition::At(result.clone(), at))
            .delete(order);
        commit = if known.is_some() { commit.delete(result) } else { commit };
    }
    let what = format!("forget {count} tasks");
    let subject = Subject::Stream(name.clone());
    (count > 0).then_some(Action::Commit(PlannedCommit::new(subject, what, commit)))
}
