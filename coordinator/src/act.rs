//! Act: carries out what was planned, in order, with no choice left. A commit that fails ends what its subject has in this
//! turn, and the others go on: what is too large, or was overtaken, in one upgrade holds no other. Where the store does not
//! answer, the turn ends. The next turn plans anew from what is then seen. A deposed leader's writes fail by their fence.

pub mod schema;

pub use schema::Workers;

use crate::record::metrics::Outcome as Counted;
use crate::room::Room;
use crate::seat::Seat;
use crate::telemetry::Chain;
use std::collections::BTreeSet;
use tidegate_planner::{Action, PlannedCommit};
use tidegate_proto::key::Subject;
use tidegate_store::{CommitError, StoreError};

/// What came of the actions of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Acted {
    /// Whether the store was changed: then the next turn begins as soon as that is seen.
    pub any: bool,
}

/// Carries out the actions of one turn. A person's stop is heeded between two of them.
pub async fn carry_out(room: &Room, seat: &Seat, workers: &Workers, actions: Vec<Action>) -> Acted {
    let mut acted = Acted::default();
    let mut held: BTreeSet<Subject> = BTreeSet::new();
    for action in actions {
        if !seat.is_held() {
            break;
        }
        let subject = action.subject();
        if held.contains(&subject) {
            continue;
        }
        match action {
            Action::Commit(planned) => match commit(room, seat, planned).await {
                Outcome::Done => acted.any = true,
                Outcome::Refused => drop(held.insert(subject)),
                Outcome::Unanswered => break,
            },
            Action::Schema { upgrade, job } => workers.sees_to(upgrade, job),
            Action::Certify { upgrade } => workers.certifies(upgrade),
        }
    }
    acted
}

/// What came of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It was carried out.
    Done,
    /// It was not, and that says nothing of any other.
    Refused,
    /// The store did not answer.
    Unanswered,
}

/// Carries out one commit.
async fn commit(room: &Room, seat: &Seat, planned: PlannedCommit) -> Outcome {
    let PlannedCommit { subject, what, commit } = planned;
    match room.store.commit(&commit).await {
        Ok(committed) => {
            seat.has_committed(committed.revision);
            room.metrics.committed(Counted::Done);
            tracing::info!(%subject, revision = %committed.revision, what, "done");
            Outcome::Done
        }
        Err(CommitError::Conflict { .. }) => {
            room.metrics.committed(Counted::Conflict);
            tracing::debug!(%subject, what, "something else was first; planned anew");
            Outcome::Refused
        }
        Err(error) => {
            room.metrics.committed(Counted::Failed);
            tracing::warn!(%subject, what, error = %Chain(&error), "not done; planned anew");
            match error {
                CommitError::Invalid(_) | CommitError::Store(StoreError::Refused { .. }) => Outcome::Refused,
                _ => Outcome::Unanswered,
            }
        }
    }
}
