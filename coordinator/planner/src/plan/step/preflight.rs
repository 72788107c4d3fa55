//! Preflight: every finding is listed; without a blocker the window becomes [from, from], unless an instance was admitted
//! meanwhile, and staging begins. Where the hop was cut off and instances run `to`, the window stays at [from, to].

use super::super::Draft;
use super::bind::bound;
use crate::gate::person::{self, approved};
use crate::gate::preflight::{findings, former, has_begun};
use crate::gate::verdict::passed::passed;
use crate::upgrade::phase::Move;
use tidegate_proto::Key;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::spec::ApprovalPoint;

pub(super) fn preflight(draft: &mut Draft<'_>) {
    let (fleet, spec) = (draft.fleet, draft.spec());
    let found = findings(fleet, spec, draft.upgrade.schema.as_ref());
    for finding in found.into_iter().filter(|finding| finding.blocks) {
        draft.wait(person::finding(&finding.what, finding.until));
    }
    let former = former(fleet, spec);
    let passed = former.as_ref().map(|former| passed(fleet, spec, &former.release));
    if let Some(Err(reasons)) = &passed {
        reasons.iter().for_each(|reason| draft.wait(reason.clone()));
    }
    if draft.is_waiting() || !bound(draft) || !draft.passes(approved(&draft.view(), ApprovalPoint::Stage)) {
        return;
    }
    let (Some(former), Some(Ok(verdicts))) = (former, passed) else { return };
    let begun = draft.service().filter(|service| has_begun(service, spec));
    let extra = match begun {
        Some(service) => {
            let window = Key::Window(spec.service.clone());
            Commit::new().when(Precondition::At(window, service.window_at()))
        }
        // The former window may admit `to`, and no version is to serve before its schema is expanded.
        None => draft.unless_joined(draft.window(Commit::new(), spec.from, spec.from)),
    };
    let extra = verdicts.into_iter().fold(extra, Commit::when);
    draft.advance(Move::Cleared, extra, move |body| body.former = Some(former), "preflight found no blocker");
}
