//! Hooks on named nodes: what warms a release up before it goes out, and what removes its image when it is collected.
//! Ordered as tasks, each under a name that is never used again; claimed and run by the nodes' agents.

use crate::fleet::Fleet;
use crate::moment::Moment;
use crate::plan::action::{Action, PlannedCommit};
use crate::plan::draft::BATCH;
use crate::reason::{Reason, Sample};
use crate::stream::change::Change;
use Purpose::{Prewarm, Removal};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::stream::{Errand, Head, Stream};
use tidegate_proto::record::task::{Outcome, Task, TaskRelease};
use tidegate_proto::{Digest, Key, NodeId, ReleaseRevision, Revision, StreamName, TaskId};

/// What hooks are run for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Before a release goes out.
    Prewarm,
    /// After it was collected.
    Removal,
}

/// How far the hooks of a release are.
pub(super) enum Errands {
    /// Every node has succeeded.
    Done,
    /// Some have not ended.
    Waits(Reason),
    /// One has failed.
    Failed(Reason),
}

/// The name of a task: short whatever the stream is called, and another for each attempt.
fn id(name: &StreamName, purpose: Purpose, head: &Head) -> TaskId {
    let word = match purpose {
        Prewarm => "prewarm",
        Removal => "remove",
    };
    let stream: String = Digest::of(name.as_str().as_bytes()).to_string().chars().take(12).collect();
    format!("{word}-{stream}-{}-{}", head.release.revision, head.attempt)
        .parse()
        .expect("a word, twelve digits of a digest and two numbers are a name")
}

/// How far the hooks of a release are.
pub(super) fn look(change: &Change<'_>, purpose: Purpose, asked: &Errand, head: &Head) -> Errands {
    let id = id(change.name, purpose, head);
    let outcome =
        |node: &NodeId| change.fleet.task_result(node, &id).map(|result| &result.record.body.outcome);
    let failed = asked.nodes.iter().find_map(|node| match outcome(node) {
        Some(Outcome::Failed { why }) => Some((node.clone(), why.clone())),
        _ => None,
    });
    if let Some((node, why)) = failed {
        return Errands::Failed(Reason::ErrandFailed { hook: asked.hook.clone(), node, why });
    }
    let open = asked.nodes.iter().filter(|node| outcome(node) != Some(&Outcome::Succeeded));
    let nodes = Sample::counted(open);
    match nodes.is_empty() {
        true => Errands::Done,
        false => Errands::Waits(Reason::Errand { hook: asked.hook.clone(), nodes }),
    }
}

/// Every release of which hooks are wanted now, with the hooks.
fn wanted(stream: &Stream) -> impl Iterator<Item = (Purpose, &Errand, &Head)> {
    let prewarm = stream.settings.prewarm.as_ref();
    let removal = stream.settings.removal.as_ref();
    let warmed = stream.pending.iter().filter_map(move |head| Some((Prewarm, prewarm?, head)));
    let collected = stream.kept.iter().filter(|head| head.release.status == ReleaseStatus::Deprecated);
    warmed.chain(collected.filter_map(move |head| Some((Removal, removal?, head))))
}

/// Orders the hooks that are missing: of waiting releases that nothing else holds, and of collected ones.
pub(super) fn order(
    change: &Change<'_>,
    waiting: &mut BTreeMap<ReleaseRevision, Vec<Reason>>,
) -> Option<Action> {
    let mut commit = Commit::new()
        .when(change.moment.leader.fence())
        .when(Precondition::At(Key::Stream(change.name.clone()), change.at()));
    let mut count = 0;
    for (purpose, asked, head) in wanted(&change.stream) {
        if purpose == Prewarm && !super::is_held_by_prewarm_alone(change, head) {
            continue;
        }
        if purpose == Removal
            && let Errands::Waits(reason) | Errands::Failed(reason) = look(change, purpose, asked, head)
        {
            waiting.insert(head.release.revision, vec![reason]);
        }
        let id = id(change.name, purpose, head);
        for node in asked.nodes.iter().collect::<BTreeSet<_>>() {
            let known =
                change.fleet.task(node, &id).is_some() || change.fleet.task_result(node, &id).is_some();
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
            let body = Task { hook: asked.hook.clone(), release, at: change.moment.wall };
            commit = commit.when(Precondition::At(key.clone(), Revision::ABSENT)).put(key, body);
        }
    }
    let what = format!("{count} tasks");
    let subject = Subject::Stream(change.name.clone());
    (count > 0).then_some(Action::Commit(PlannedCommit { subject, what, commit }))
}

/// Removes tasks that nothing waits for any more, with their results; never one that an agent has claimed and not ended.
pub(super) fn forget(fleet: &Fleet, moment: &Moment, name: &StreamName) -> Option<Action> {
    let stream = fleet.stream(name)?;
    let kept: BTreeSet<TaskId> = wanted(stream).map(|(purpose, _, head)| id(name, purpose, head)).collect();
    let mut commit = Commit::new().when(moment.leader.fence());
    let mut count = 0;
    for (node, id, task) in fleet.tasks() {
        let claimed = fleet.task_result(node, id);
        let runs = claimed.is_some_and(|result| result.record.body.outcome == Outcome::Claimed);
        if task.release.stream != *name || kept.contains(id) || runs || count == BATCH / 2 {
            continue;
        }
        count += 1;
        let (task, result) = (Key::Task(node.clone(), id.clone()), Key::TaskResult(node.clone(), id.clone()));
        let at = claimed.map_or(Revision::ABSENT, |result| result.at);
        commit = commit.when(Precondition::At(result.clone(), at)).delete(task);
        commit = if claimed.is_some() { commit.delete(result) } else { commit };
    }
    let what = format!("forget {count} tasks");
    let subject = Subject::Stream(name.clone());
    (count > 0).then_some(Action::Commit(PlannedCommit { subject, what, commit }))
}
