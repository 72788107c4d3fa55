//! What is no longer in use is collected, counts are stored, and signals that nothing counts any more are removed.

use super::{Step, canary_of};
use crate::action::{Action, PlannedCommit};
use crate::fleet::Fleet;
use crate::plan::draft::BATCH;
use crate::stream::change::Change;
use crate::stream::retention;
use tidegate_proto::commit::Commit;
use tidegate_proto::key::{SignalSubject, Subject};
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::stream::Head;
use tidegate_proto::{Key, ReleaseRevision, StreamName};

/// How many are collected with another step, in its commit: a release that goes out overtakes one, and mostly frees
/// one. A turn of its own for that would delay the next release. The largest step leaves room for them.
pub(super) const WITH_ANOTHER: usize = 4;

/// What nothing holds is collected, at most so many; never in the commit that overtook it, so that no release makes two
/// moves at once.
pub(super) fn collect(change: &mut Change<'_>, most: usize) -> Option<Step> {
    const BECAUSE: &str = "no longer in use";
    let held = retention::kept(&change.stream);
    let ripe: Vec<ReleaseRevision> = change
        .stream
        .kept
        .iter()
        .filter(|head| head.release.status != ReleaseStatus::Deprecated && change.was_kept(head))
        .map(|head| head.release.revision)
        .filter(|revision| held.get(revision).is_none_or(Vec::is_empty))
        .take(most)
        .collect();
    let names: Vec<String> = ripe.iter().map(ToString::to_string).collect();
    for revision in &ripe {
        change.collected(*revision, BECAUSE).ok()?;
        if change.stream.settings.removal.is_none() {
            change.departs(*revision);
        }
    }
    let names = names.join(", ");
    (!ripe.is_empty())
        .then(|| Step::recorded(format!("revision {names}"), format!("revision {names} deprecated"), BECAUSE))
}

/// The counts are stored while one of them matters: every few seconds where a deadline is near, every hour where a
/// rollback window is open.
pub(super) fn count(change: &Change<'_>) -> Option<Step> {
    const SOON_MS: u64 = 5_000;
    const LATE_MS: u64 = 3_600_000;
    let stream = &change.stream;
    let uncounted = change.moment.uncounted.get(change.name).copied().unwrap_or(0);
    let with_deadline = |head: &Head| {
        canary_of(stream, head.release.revision).is_some_and(|canary| canary.deadline.is_some())
    };
    let soon = stream.canary.as_deref().is_some_and(with_deadline)
        || stream.pending.iter().any(|head| head.on_trial);
    let window = stream.settings.rollback_window.as_millis();
    let late = stream
        .kept
        .iter()
        .any(|head| head.release.status == ReleaseStatus::Superseded && head.superseded_ms < window);
    let due = (soon && uncounted >= SOON_MS) || (late && uncounted >= LATE_MS);
    due.then_some(Step { words: None })
}

/// The signals of computes about what is no longer a canary are removed, a batch at a time.
pub(super) fn forget_signals(fleet: &Fleet, name: &StreamName) -> Option<Action> {
    let canary = fleet.stream(name)?.canary.as_ref().map(|head| head.release.revision);
    let (subject, computes) = fleet
        .signals()
        .find(|(SignalSubject::Release(stream, revision), _)| stream == name && Some(*revision) != canary)?;
    let commit = computes
        .take(BATCH)
        .fold(Commit::new(), |commit, compute| commit.delete(Key::Signal(subject.clone(), compute.clone())));
    let what = format!("remove signals of computes for {subject}");
    Some(Action::Commit(PlannedCommit::new(Subject::Stream(name.clone()), what, commit)))
}
