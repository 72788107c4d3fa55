//! What a database shows of a contract may forbid to start a version, although the phase of the upgrade does not say so: the
//! store was restored since. A rollback goes by the databases in each of its steps.

use super::super::Draft;
use super::{roll, schema};
use crate::action::SchemaJob;
use crate::fleet::releases;
use crate::gate::schema::later::{none_came_later, others_are_seen};
use crate::upgrade::is_unseen;
use tidegate_proto::record::upgrade::PhaseName;

/// Holds an upgrade where a later one has contracted a database that its service uses, or may have: the store was reconciled,
/// and that database was not seen since. What is drained and not stopped goes back into rotation. Returns whether it is held.
pub(super) fn holds(draft: &mut Draft<'_>) -> bool {
    let phase = draft.upgrade.phase.name();
    if phase == PhaseName::RollingBack {
        return false;
    }
    if draft.passes(none_came_later(&draft.view())) {
        return is_first_look(draft, phase);
    }
    // Another database may take its place.
    if draft.upgrade.schema.is_some() {
        draft.schema(SchemaJob::Look);
    }
    match draft.service().filter(|_| draft.upgrade.former.is_some()) {
        Some(service) if !draft.has_commits() => {
            let releases = releases(draft.upgrade);
            roll::recall(draft, service, &releases, "the database was contracted by a later upgrade");
        }
        _ => draft.checkpoint(0, true),
    }
    true
}

/// Whether a phase that sets a window or moves instances waits for the first look at a database that the service uses. A job
/// of the upgrade itself that runs, or did not succeed, looks by itself.
fn is_first_look(draft: &mut Draft<'_>, phase: PhaseName) -> bool {
    if matches!(phase, PhaseName::Stage | PhaseName::Expand) {
        return false;
    }
    let is_looking = draft.facts().is_some_and(|facts| facts.running.is_some() || facts.trouble.is_some());
    let is_own = !is_looking && is_unseen(draft.fleet, draft.moment, draft.id, draft.upgrade);
    if is_own {
        schema::look(draft);
    }
    if draft.passes(others_are_seen(&draft.view(), SchemaJob::Look.word())) {
        return is_own;
    }
    draft.checkpoint(0, true);
    true
}
