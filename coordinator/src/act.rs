//! Act: carries out what was planned, in order, with no choice left. The first commit that fails ends the turn; the
//! next turn plans anew from what is then seen. A deposed leader's writes fail by their fence.

pub mod schema;

pub use schema::Workers;

use crate::record::metrics::Outcome;
use crate::room::Room;
use crate::seat::Seat;
use crate::telemetry::Chain;
use tidegate_planner::{Action, PlannedCommit};
use tidegate_store::CommitError;

/// What came of the actions of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Acted {
    /// Whether the store was changed: then the next turn begins as soon as that is seen.
    pub any: bool,
}

/// Carries out the actions of one turn. A person's stop is heeded between two of them.
pub async fn carry_out(room: &Room, seat: &Seat, workers: &Workers, actions: Vec<Action>) -> Acted {
    let mut acted = Acted::default();
    for action in actions {
        if !seat.is_held() {
            break;
        }
        let goes_on = match action {
            Action::Commit(planned) => {
                let done = commit(room, seat, planned).await;
                acted.any |= done;
                done
            }
            Action::Schema { upgrade, job } => {
                workers.sees_to(upgrade, job);
                true
            }
            Action::Certify { upgrade } => {
                workers.certifies(upgrade);
                true
            }
        };
        if !goes_on {
            break;
        }
    }
    acted
}

/// Carries out one commit; whether it was done.
pub async fn commit(room: &Room, seat: &Seat, planned: PlannedCommit) -> bool {
    let PlannedCommit { subject, what, commit } = planned;
    match room.store.commit(&commit).await {
        Ok(committed) => {
            seat.has_committed(committed.revision);
            room.metrics.committed(Outcome::Done);
            tracing::info!(%subject, revision = %committed.revision, what, "done");
            true
        }
        Err(CommitError::Conflict { .. }) => {
            room.metrics.committed(Outcome::Conflict);
            tracing::debug!(%subject, what, "something else was first; planned anew");
            false
        }
        Err(error) => {
            room.metrics.committed(Outcome::Failed);
            tracing::warn!(%subject, what, error = %Chain(&error), "not done; planned anew");
            false
        }
    }
}
