//! Preflight: every finding is listed; without a blocker the window becomes [from, from] and staging begins.

use super::super::Draft;
use super::bind::bound;
use super::enter::approved;
use crate::preflight::{findings, former};
use crate::reason::Reason;
use crate::upgrade::phase::Move;
use tidegate_proto::commit::Commit;
use tidegate_proto::spec::ApprovalPoint;

pub(super) fn preflight(draft: &mut Draft<'_>) {
    let (fleet, spec) = (draft.fleet, draft.spec());
    let found = findings(fleet, spec, draft.upgrade.schema.as_ref());
    for finding in found.into_iter().filter(|finding| finding.blocks) {
        draft.wait(Reason::Preflight { finding: finding.what });
    }
    if draft.is_waiting() || !bound(draft) || !approved(draft, ApprovalPoint::Stage) {
        return;
    }
    let Some(former) = former(fleet, spec) else { return };
    let extra = draft.window(Commit::new(), spec.from, spec.from);
    draft.advance(Move::Cleared, extra, move |body| body.former = Some(former), "preflight found no blocker");
}
