//! Stage: agents fetch the new code beside the old, and hold both: a rollback needs no download. Services that share the
//! schema are given a window here: whatever ends the upgrade from now on opens it again.

use super::super::Draft;
use super::enter::{approved, roll};
use super::{acknowledged, direct, shared};
use crate::fleet::{Instance, Known};
use crate::reason::{Reason, RollGate, Sample, VersionGate};
use crate::upgrade::phase::Move;
use tidegate_proto::commit::Commit;
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::{NodeId, Release};

pub(super) fn stage(draft: &mut Draft<'_>) {
    let Some(former) = draft.upgrade.former.as_ref().map(|f| f.release.clone()) else { return };
    let target = draft.spec().target();
    direct(draft, &[former.clone(), target.clone()], "the new code is staged beside the old");
    let staged = staged(draft, &[former, target]);
    let acknowledged = acknowledged(draft);
    let shared = shared::commit_windows(draft);
    let next = if draft.upgrade.schema.is_some() { ApprovalPoint::Expand } else { ApprovalPoint::Roll };
    let approved = approved(draft, next);
    if draft.has_commits() || !(staged && acknowledged && shared && approved) {
        return;
    }
    let because = "every node has the new release, its digest verified";
    match next {
        ApprovalPoint::Expand => draft.advance(Move::Staged, Commit::new(), |_| (), because),
        _ => roll(draft, Move::Staged, because),
    }
}

/// Waits until every instance that is not excused holds the releases; tells whether all do.
fn staged(draft: &mut Draft<'_>, releases: &[Release]) -> bool {
    let Some(service) = draft.service() else { return false };
    let exceptions = draft.exceptions();
    let excused = |node: &NodeId| exceptions.is_skipped(node);
    let among = exceptions.skipped().filter(|node| service.is_unstaged(node));
    let (quiet, others): (Vec<_>, Vec<_>) =
        among.filter_map(|node| service.get(node)).partition(|instance| instance.known() == Known::Silent);
    let silent = service.unstaged_silent().sample_but(excused, quiet.len());
    // Who failed is named with the cause, and is not at work.
    let has_failed = |instance: &Instance| instance.has_stage_failures();
    let failed = service.stage_failed().count - others.iter().filter(|instance| has_failed(instance)).count();
    let not_at_work = |node: &NodeId| excused(node) || service.get(node).is_some_and(has_failed);
    let reporting = service.unstaged().sample_but(not_at_work, others.len() + failed);
    tell_failures(draft, service.stage_failed().each.filter(|instance| !excused(&instance.node)));
    let name = service.name().clone();
    let mut waits = failed > 0;
    waits |=
        draft.wait_for_any(silent, |nodes| Reason::Version(VersionGate::Silent { service: name, nodes }));
    if let Some(release) = releases.last().map(|r| r.tag.clone()) {
        waits |= draft.wait_for_any(reporting, |nodes| Reason::Roll(RollGate::Staging { release, nodes }));
    }
    !waits
}

/// Says which of these could not stage a release, and why.
pub(super) fn tell_failures<'a>(draft: &mut Draft<'_>, instances: impl Iterator<Item = &'a Instance>) {
    instances
        .flat_map(|instance| instance.stage_failures().map(|(tag, why)| (instance.node.clone(), tag, why)))
        .take(Sample::NAMED)
        .for_each(|(node, release, why)| {
            draft.wait(Reason::Roll(RollGate::StageFailed { node, release, why }))
        });
}
