//! Failures are written down before anything follows from them: who failed is left alone until a person retries it, so
//! that nobody is taken out and let back in without an end.

use super::super::Draft;
use super::walk::UnderWay;
use crate::fleet::{Instance, Known, ServiceFleet};
use crate::reason::{Reason, Sample};
use tidegate_proto::commit::Commit;
use tidegate_proto::record::upgrade::{Failure, Upgrade};
use tidegate_proto::{NodeId, ServiceVersion};

/// On which way an instance failed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Failed {
    /// In this wave.
    In(u32),
    /// On the way back.
    Returning,
}

/// Whether it failed on the way back, and nobody has retried it since.
pub(super) fn has_failed_returning(upgrade: &Upgrade, instance: &Instance) -> bool {
    upgrade.failed.get(&instance.node).is_some_and(|failure| failure.returning)
}

/// Writes down failures that are not yet written down; tells whether there were any.
pub(super) fn record(draft: &mut Draft<'_>, under_way: &UnderWay<'_>, on: Failed) -> bool {
    let upgrade = draft.upgrade;
    let is_known = |instance: &Instance| match on {
        Failed::In(_) => upgrade.failed.contains_key(&instance.node),
        Failed::Returning => has_failed_returning(upgrade, instance),
    };
    let fresh: Vec<_> = under_way
        .failed
        .iter()
        .filter(|(instance, _)| !is_known(instance))
        .map(|(instance, why)| (instance.node.clone(), why.clone()))
        .collect();
    if fresh.is_empty() {
        return false;
    }
    let names: Vec<String> = fresh.iter().map(|(node, _)| node.to_string()).collect();
    let because = fresh.iter().map(|(node, why)| format!("{node}: {why}")).collect::<Vec<_>>().join("; ");
    let change = move |body: &mut Upgrade| {
        for (node, reason) in fresh {
            let before = body.failed.get(&node).map_or(0, |failure| failure.wave);
            let (wave, returning) = match on {
                Failed::In(wave) => (wave, false),
                Failed::Returning => (before, true),
            };
            body.failed.insert(node, Failure { wave, reason, accepted: false, returning });
        }
    };
    let phase = upgrade.phase.name();
    let what = format!("{} failed", names.join(", "));
    draft.rewrite(Commit::new(), change, what.clone(), &format!("{phase}, {what}"), &because);
    true
}

/// Whether it is seen at another version.
pub(super) fn is_elsewhere(service: &ServiceFleet, node: &NodeId, version: ServiceVersion) -> bool {
    let instance = service.get(node).filter(|instance| instance.counts());
    instance.is_some_and(|i| matches!(i.known(), Known::At(known) if known != version))
}

/// Says of those that are not where they should be because they failed, or because a person skipped them, that this
/// is why.
pub(super) fn tell_excused(draft: &mut Draft<'_>, is_missing: impl Fn(&NodeId) -> bool) {
    let upgrade = draft.upgrade;
    let failed = upgrade.failed.iter().filter(|(node, _)| is_missing(node));
    for (node, failure) in failed.take(Sample::NAMED) {
        draft.wait(Reason::Failed { node: node.clone(), why: failure.reason.clone() });
    }
    let skipped = upgrade.skipped.keys().filter(|node| !upgrade.failed.contains_key(*node));
    let skipped = Sample::counted(skipped.filter(|node| is_missing(node)));
    draft.wait_for_any(skipped, |nodes| Reason::Skipped { nodes });
}

/// Says who has failed and was neither retried nor accepted: what a person who finds it paused has to decide about.
pub(super) fn tell_open(draft: &mut Draft<'_>) {
    let open = draft.upgrade.failed.iter().filter(|(_, failure)| !failure.accepted);
    for (node, failure) in open.take(Sample::NAMED) {
        draft.wait(Reason::Failed { node: node.clone(), why: failure.reason.clone() });
    }
}
