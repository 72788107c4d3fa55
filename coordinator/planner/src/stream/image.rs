//! The image of a tag: what holds it, and which removals of it are withdrawn. Several revisions may bear one tag, so an image is
//! held by tag and not by revision.
//!
//! # Invariants
//! * No removal is ordered while anything holds the image.
//! * The commit after which something holds an image again deletes the removals of it that no agent has claimed, and
//!   compares that none was ordered meanwhile.

use crate::fleet::Fleet;
use crate::task::image::removals;
use crate::task::{Purpose, TaskState};
use std::collections::BTreeSet;
use tidegate_proto::commit::{Commit, MAX_COMMIT_OPERATIONS, MAX_PLANNED_PRECONDITIONS, Precondition, Write};
use tidegate_proto::key::Kind;
use tidegate_proto::record::release::{ComputeRelease, ReleaseStatus};
use tidegate_proto::record::stream::{Head, Stream};
use tidegate_proto::record::task::Task;
use tidegate_proto::{Key, NodeId, ReleaseRevision, ReleaseTag, Revision, StreamName, TaskId, mutant};

/// What holds an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
pub enum Holder {
    /// A release with its tag that is not collected.
    #[strum(to_string = "revision {0} has the same tag and is {1}")]
    Release(ReleaseRevision, ReleaseStatus),
    /// Computes that run its tag: so many.
    #[strum(to_string = "{0} computes run its tag")]
    Running(u64),
    /// The manual strategy of the stream.
    #[strum(to_string = "the stream's manual strategy names its tag")]
    Manual,
    /// A later collected release with its tag: the image is removed for that one.
    #[strum(to_string = "it is removed with revision {0}, which has the same tag")]
    Later(ReleaseRevision),
}

/// What holds the image of a tag; none = it may be removed.
pub fn holder(stream: &Stream, tag: &ReleaseTag) -> Option<Holder> {
    if mutant::is("image-is-held-by-revision") {
        return None;
    }
    let bears = |head: &&Head| head.release.tag == *tag && head.release.status != ReleaseStatus::Deprecated;
    let release = stream.heads().filter(bears).max_by_key(|head| head.release.revision);
    let running = stream.running.get(tag).map(|running| running.count).filter(|count| *count > 0);
    release
        .map(|head| Holder::Release(head.release.revision, head.release.status))
        .or(running.map(Holder::Running))
        .or_else(|| (stream.settings.strategy.manual.as_ref() == Some(tag)).then_some(Holder::Manual))
}

/// Whether the image of a tag is known to be there: a release with the tag is in use, or was and is kept. One that waits
/// may not have been warmed up yet, one in error may have failed because its image is missing, and the count of running
/// computes is reported by others and proves nothing.
pub fn is_there(stream: &Stream, tag: &ReleaseTag) -> bool {
    let in_use = |release: &ComputeRelease| match release.status {
        ReleaseStatus::Canary | ReleaseStatus::Deployed => true,
        ReleaseStatus::Superseded => release.deployed_at.is_some(),
        _ => false,
    };
    stream.heads().any(|head| head.release.tag == *tag && in_use(&head.release))
}

/// What holds the image of a collected release beside itself, or is removed in its place.
pub fn holder_beside(stream: &Stream, collected: &Head) -> Option<Holder> {
    let (tag, revision) = (&collected.release.tag, collected.release.revision);
    let mut kept = stream.kept.iter().map(|head| &head.release);
    let later = kept.find(|release| release.tag == *tag && release.revision > revision);
    holder(stream, tag).or(later.map(|release| Holder::Later(release.revision)))
}

/// Whether a commit withdraws every removal of the image that an agent may still begin.
pub(crate) fn is_withdrawn(fleet: &Fleet, commit: &Commit, stream: &StreamName, tag: &ReleaseTag) -> bool {
    let withdrawn: BTreeSet<&Key> = commit
        .writes
        .iter()
        .filter_map(|write| match write {
            Write::Delete(key) => Some(key),
            Write::Put(..) => None,
        })
        .collect();
    removals(fleet, stream, tag)
        .filter(|removal| removal.state == TaskState::Untaken)
        .all(|removal| withdrawn.contains(&Key::Task(removal.node.clone(), removal.id.clone())))
}

/// Adds to a commit that changes a stream the deletion of every removal that no agent has claimed and whose image
/// something holds afterwards that nothing held before, as many as fit into the transaction. What is left, and what was
/// void before, is forgotten by a turn; until then it holds the release back.
pub(crate) fn withdrawn(fleet: &Fleet, commit: Commit, name: &StreamName, after: &Stream) -> Commit {
    if mutant::is("removal-is-not-withdrawn") {
        return commit;
    }
    let Some(before) = fleet.stream(name) else { return commit };
    let is_held_again = |tag: &ReleaseTag| holder(before, tag).is_none() && holder(after, tag).is_some();
    // The order of a removal compares the stream and does not rewrite it.
    let commit = match before.heads().any(|head| is_held_again(&head.release.tag)) {
        true => commit.when(Precondition::NoneCreatedAfter(Kind::Task, fleet.revision())),
        false => commit,
    };
    let is_void = |node: &NodeId, id: &TaskId, task: &Task| {
        task.release.stream == *name
            && Purpose::of(id) == Some(Purpose::Removal)
            && is_held_again(&task.release.tag)
            && fleet.task_result(node, id).is_none()
            // Its agent may have claimed it. Until the result can be read, it holds the release back.
            && fleet.unreadable_at(&Key::TaskResult(node.clone(), id.clone())).is_none()
    };
    let void = fleet.tasks().filter(|(node, id, task)| is_void(node, id, task));
    let compared = MAX_PLANNED_PRECONDITIONS.saturating_sub(commit.when.len());
    let fit = compared.min(MAX_COMMIT_OPERATIONS.saturating_sub(commit.writes.len()));
    void.take(fit).fold(commit, |commit, (node, id, _)| {
        // An order without a result is never rewritten, and its name is never used again: one compare is enough.
        commit
            .when(Precondition::At(Key::TaskResult(node.clone(), id.clone()), Revision::ABSENT))
            .delete(Key::Task(node.clone(), id.clone()))
    })
}
