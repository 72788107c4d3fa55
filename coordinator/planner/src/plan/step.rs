//! The next step of one upgrade, by phase.

mod abort;
mod bind;
mod contract;
mod declined;
mod enter;
mod failures;
mod faults;
mod gone;
mod later;
pub(super) mod left_behind;
pub(crate) mod metadata;
mod moving;
pub(crate) mod outside;
mod preflight;
mod recalled;
mod reconciled;
pub(super) mod release;
mod remove;
pub(super) mod returned;
mod roll;
mod rollback;
mod schema;
mod shared;
mod stage;
mod stragglers;

use super::Draft;
use crate::gate::{person, store};
pub(crate) use rollback::begin_rollback;
use tidegate_proto::record::upgrade::{Phase, RollbackStep};

/// Decides the next step. Whatever it waits for, the database is looked at where a rollback, or another upgrade, would need
/// that.
pub(super) fn step(draft: &mut Draft<'_>) {
    decide(draft);
    schema::see_after_reconciliation(draft);
    schema::see_for_others(draft);
}

fn decide(draft: &mut Draft<'_>) {
    if !draft.passes(store::readable(&draft.view())) || !draft.passes(person::paused(&draft.view())) {
        return;
    }
    if reconciled::restate(draft) {
        return;
    }
    let exposes = match draft.upgrade.phase {
        Phase::Roll { .. } | Phase::Remove | Phase::Contract { .. } => true,
        Phase::Migrate => draft.upgrade.waves.is_some(),
        _ => false,
    };
    if exposes && faults::watch(draft) || later::holds(draft) {
        return;
    }
    match draft.upgrade.phase.clone() {
        Phase::Preflight => preflight::preflight(draft),
        Phase::Stage => stage::stage(draft),
        Phase::Expand => schema::expand(draft),
        Phase::Migrate => schema::migrate(draft),
        Phase::Roll { wave } => roll::roll(draft, wave),
        Phase::Remove => remove::remove(draft),
        Phase::Contract { certificate } => contract::contract(draft, certificate),
        Phase::RollingBack { step: RollbackStep::Restage, .. } => rollback::restage(draft),
        Phase::RollingBack { step: RollbackStep::Move, .. } => rollback::roll(draft),
        Phase::RollingBack { step: RollbackStep::Lower, .. } => rollback::lower(draft),
        Phase::RollingBack { step: RollbackStep::Undo, .. } => rollback::undo(draft),
        Phase::Completed | Phase::RolledBack { .. } | Phase::Failed { .. } => return,
    }
    let keeps_no_count = matches!(
        draft.upgrade.phase,
        Phase::Preflight
            | Phase::Stage
            | Phase::Remove
            | Phase::RollingBack { step: RollbackStep::Restage | RollbackStep::Lower, .. }
    );
    if keeps_no_count {
        // The next leader goes on from here; nothing of it is a stall.
        draft.checkpoint(0, false);
    }
}
