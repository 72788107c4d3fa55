//! Remove: the floor stands; the old code leaves the nodes. Then contract, on its certificate, or the end.

use super::super::{Draft, SchemaJob};
use super::enter::approved;
use super::stage::tell_failures;
use super::{acknowledged, all_at, all_serving, schema, set_window, shared, stragglers};
use crate::certificate::SESSIONS;
use crate::fleet::Instance;
use crate::reason::{PersonGate, Reason, RollGate, SchemaGate};
use crate::upgrade::phase::Move;
use tidegate_proto::NodeId;
use tidegate_proto::commit::Commit;
use tidegate_proto::spec::ApprovalPoint;

pub(super) fn remove(draft: &mut Draft<'_>) {
    let target = draft.spec().target();
    stragglers::walk(draft, &target, "the old code is removed");
    let gone = removed(draft);
    let acknowledged = acknowledged(draft);
    let at_new = all_at(draft, target.version);
    if draft.has_commits() || !(gone && acknowledged && at_new) || !has_its_window(draft) {
        return;
    }
    if draft.upgrade.schema.is_some() {
        return contract(draft);
    }
    if all_serving(draft) {
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
        set_window(draft, to, to, "every instance is at the new version, and the window admitted others");
    }
    is_its
}

/// The way into contract: the fill is done (rows that came after it are filled now), a person has approved what needs a person, and a certificate is made.
fn contract(draft: &mut Draft<'_>) {
    if !schema::run(draft, SchemaJob::Migrate, |facts| facts.migrated)
        || !accepted(draft)
        || !approved(draft, ApprovalPoint::Contract)
        || !shared::commit_windows(draft)
    {
        return;
    }
    draft.certify();
    draft.wait(Reason::Schema(SchemaGate::Schema {
        job: "contract".to_owned(),
        progress: "its certificate is being made".to_owned(),
    }));
}

/// Where the database cannot list its sessions, an approval must accept that by name.
fn accepted(draft: &mut Draft<'_>) -> bool {
    let Some(why) = draft.facts().and_then(|facts| facts.sessions_unknown.clone()) else { return true };
    let accepted = draft
        .upgrade
        .approvals
        .get(&ApprovalPoint::Contract)
        .is_some_and(|word| word.accepts.contains(SESSIONS));
    if !accepted {
        draft.wait(Reason::Person(PersonGate::Acceptance { why }));
    }
    accepted
}

/// Whether every node holds no other code than it should. One that could not remove it is named with the cause: its agent
/// tries again when a person has the directive written again.
pub(super) fn removed(draft: &mut Draft<'_>) -> bool {
    let Some(service) = draft.service() else { return false };
    let has_failed = |instance: &Instance| instance.has_stage_failures();
    let failed: Vec<&Instance> = service.cluttered().each.filter(|instance| has_failed(instance)).collect();
    let at_work = |node: &NodeId| service.get(node).is_some_and(has_failed);
    let nodes = service.cluttered().sample_but(at_work, failed.len());
    tell_failures(draft, failed.iter().copied());
    let waits = draft.wait_for_any(nodes, |nodes| Reason::Roll(RollGate::Removing { nodes }));
    !waits && failed.is_empty()
}
