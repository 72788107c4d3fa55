//! Stage: agents fetch the new code beside the old, and hold both: a rollback needs no download. Services that share the
//! schema are given a window here: whatever ends the upgrade from now on opens it again.

use super::super::Draft;
use super::enter::roll;
use super::shared;
use crate::gate::person::approved;
use crate::gate::roll::staged;
use crate::gate::version::acknowledged;
use crate::upgrade::phase::Move;
use tidegate_proto::commit::Commit;
use tidegate_proto::spec::ApprovalPoint;

pub(super) fn stage(draft: &mut Draft<'_>) {
    let Some(former) = draft.upgrade.former.as_ref().map(|f| f.release.clone()) else { return };
    let target = draft.spec().target();
    draft.direct(&[former.clone(), target.clone()], "the new code is staged beside the old");
    let staged = draft.passes(staged(&draft.view(), &[former, target]));
    let acknowledged = draft.passes(acknowledged(&draft.view()));
    let shared = shared::commit_windows(draft);
    let next = if draft.upgrade.schema.is_some() { ApprovalPoint::Expand } else { ApprovalPoint::Roll };
    let approved = draft.passes(approved(&draft.view(), next));
    if draft.has_commits() || !(staged && acknowledged && shared && approved) {
        return;
    }
    let because = "every node has the new release, its digest verified";
    match next {
        ApprovalPoint::Expand => draft.advance(Move::Staged, Commit::new(), |_| (), because),
        _ => roll(draft, Move::Staged, because),
    }
}
