//! Remove: the floor is in effect; the old code leaves the nodes. Then contract, on its certificate, or the end.

use super::super::Draft;
use super::{schema, shared, stragglers};
use crate::action::SchemaJob;
use crate::gate::person::{approved, sessions_accepted};
use crate::gate::roll::{all_serving, removed};
use crate::gate::schema::certifies;
use crate::gate::schema::ready::services_are_ready;
use crate::gate::version::{acknowledged, all_at};
use crate::upgrade::phase::Move;
use tidegate_proto::commit::Commit;
use tidegate_proto::spec::ApprovalPoint;

pub(super) fn remove(draft: &mut Draft<'_>) {
    let target = draft.spec().target();
    stragglers::move_to(draft, &target, "the old code is removed");
    let gone = draft.service().is_some_and(|service| draft.passes(removed(service)));
    let acknowledged = draft.passes(acknowledged(&draft.view()));
    let at_new = draft.passes(all_at(&draft.view(), target.version));
    if draft.has_commits() || !(gone && acknowledged && at_new) || !has_its_window(draft) {
        return;
    }
    if draft.upgrade.schema.is_some() {
        return contract(draft);
    }
    if draft.passes(all_serving(&draft.view())) {
        draft.advance(
            Move::Removed,
            Commit::new(),
            |_| (),
            "every instance was seen at the new version, in rotation, healthy",
        );
    }
}

/// Whether the window is `[to, to]`. A reconciliation of the store widens it to the versions that instances claimed to run;
/// it is narrowed again when every instance is known to be at the new version.
pub(super) fn has_its_window(draft: &mut Draft<'_>) -> bool {
    let to = draft.spec().to;
    let Some(service) = draft.service() else { return false };
    let is_its = service.window().is_some_and(|window| (window.floor, window.ceiling) == (to, to));
    if !is_its {
        draft.set_window(to, to, "every instance is at the new version, and the window admitted others");
    }
    is_its
}

/// The way into contract: the fill is done (rows that came after it are filled now), the services that share the schema
/// are at what it requires, a person has approved what needs a person, and a certificate is made.
fn contract(draft: &mut Draft<'_>) {
    if !schema::run(draft, SchemaJob::Migrate, |facts| facts.migrated)
        || !shared::commit_windows(draft)
        || !draft.passes(services_are_ready(&draft.view()))
        || !draft.passes(sessions_accepted(&draft.view()))
        || !draft.passes(approved(&draft.view(), ApprovalPoint::Contract))
    {
        return;
    }
    draft.certify();
    draft.wait(certifies());
}
