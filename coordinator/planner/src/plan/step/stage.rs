//! Stage: agents fetch the new code beside the old, and hold both: a rollback needs no download.

use super::super::Draft;
use super::enter::{approved, roll};
use super::{acknowledged, direct};
use crate::reason::{Reason, Sample};
use crate::upgrade::phase::Move;
use tidegate_proto::Release;
use tidegate_proto::commit::Commit;
use tidegate_proto::spec::ApprovalPoint;

pub(super) fn stage(draft: &mut Draft<'_>) {
    let Some(former) = draft.upgrade.former.as_ref().map(|f| f.release.clone()) else { return };
    let target = draft.spec().target();
    direct(draft, &[former.clone(), target.clone()], "the new code is staged beside the old");
    let staged = staged(draft, &[former, target]);
    let acknowledged = acknowledged(draft);
    let next = if draft.upgrade.schema.is_some() { ApprovalPoint::Expand } else { ApprovalPoint::Roll };
    let approved = approved(draft, next);
    if draft.has_commits() || !(staged && acknowledged && approved) {
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
    let skipped = &draft.upgrade.skipped;
    let missing: Vec<_> = service.unstaged().iter().filter(|node| !skipped.contains_key(*node)).collect();
    let (silent, reporting): (Vec<_>, Vec<_>) =
        missing.into_iter().partition(|node| service.silent().contains(*node));
    let failures: Vec<Reason> = reporting
        .iter()
        .filter_map(|node| service.get(node))
        .flat_map(|instance| instance.stage_failures().map(|(tag, why)| (instance.node.clone(), tag, why)))
        .take(Sample::NAMED)
        .map(|(node, release, why)| Reason::StageFailed { node, release, why })
        .collect();
    failures.into_iter().for_each(|reason| draft.wait(reason));
    let name = service.name().clone();
    let mut waits = draft
        .wait_for_any(Sample::counted(silent.into_iter()), |nodes| Reason::Silent { service: name, nodes });
    if let Some(release) = releases.last().map(|r| r.tag.clone()) {
        waits |= draft
            .wait_for_any(Sample::counted(reporting.into_iter()), |nodes| Reason::Staging { release, nodes });
    }
    !waits
}
