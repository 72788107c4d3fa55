//! A wish that changes something: asked of the planner over what is seen, committed under the leader's fence. What
//! was seen may be overtaken meanwhile: then it is asked anew, a few times.

use super::OperationError;
use crate::record::metrics::Outcome;
use crate::room::Room;
use crate::seat::{Seat, events_in};
use crate::telemetry::Chain;
use std::time::Duration;
use tidegate_planner::ask::{Refusal, RefusalKind};
use tidegate_planner::{Fleet, Moment};
use tidegate_proto::{Commit, Revision};
use tidegate_store::CommitError;

/// How often a wish is asked anew when something else was first.
const ATTEMPTS: u32 = 8;

/// How long the picture may take to show what was just written (a watch delivers within milliseconds).
const PATIENCE: Duration = Duration::from_secs(5);

/// Grants a wish, or says why not.
pub async fn grant(
    room: &Room,
    seat: &Seat,
    ask: impl Fn(&Fleet, &Moment) -> Result<Commit, Refusal>,
) -> Result<Revision, OperationError> {
    for _ in 0..ATTEMPTS {
        if !room.mirror.reaches_within(seat.committed(), PATIENCE).await {
            return Err(away(room));
        }
        let mut sight = room.mirror.sight();
        sight.mark_unchanged();
        match room.store.commit(&asked(room, seat, &ask)?).await {
            Ok(committed) => {
                seat.has_committed(committed.revision);
                room.metrics.committed(Outcome::Done);
                // Whoever asks next sees it; if the watch is late, the wish is granted all the same.
                room.mirror.reaches_within(committed.revision, PATIENCE).await;
                return Ok(committed.revision);
            }
            Err(CommitError::Conflict { .. }) if seat.is_held() => {
                room.metrics.committed(Outcome::Conflict);
                // Something else was first: the watch is about to show it.
                let _ = tokio::time::timeout(Duration::from_millis(500), sight.changed()).await;
            }
            Err(CommitError::Conflict { .. }) => {
                return Err(OperationError::Unavailable(
                    "this coordinator has just lost the leadership; nothing was changed: ask again"
                        .to_owned(),
                ));
            }
            Err(error) => {
                room.metrics.committed(Outcome::Failed);
                return Err(OperationError::Unavailable(format!(
                    "could not write to the store: {}",
                    Chain(&error)
                )));
            }
        }
    }
    Err(OperationError::Unavailable(format!(
        "the records concerned changed {ATTEMPTS} times while this was asked; nothing was changed: ask again"
    )))
}

/// Asks whether a wish would be granted now; changes nothing.
pub async fn ponder(
    room: &Room,
    seat: &Seat,
    ask: impl Fn(&Fleet, &Moment) -> Result<Commit, Refusal>,
) -> Result<(), OperationError> {
    if !room.mirror.reaches_within(seat.committed(), PATIENCE).await {
        return Err(away(room));
    }
    asked(room, seat, ask).map(|_| ())
}

fn asked(
    room: &Room,
    seat: &Seat,
    ask: impl Fn(&Fleet, &Moment) -> Result<Commit, Refusal>,
) -> Result<Commit, OperationError> {
    let picture = room.mirror.picture();
    let events = |asked: &Result<Commit, Refusal>| asked.as_ref().map_or(0, events_in);
    seat.plan(&picture.fleet, |moment| ask(&picture.fleet, moment), events).map_err(refused)
}

fn away(room: &Room) -> OperationError {
    let why =
        room.trouble().unwrap_or_else(|| "this coordinator has not yet seen its own last write".to_owned());
    OperationError::Unavailable(format!("{why}; nothing was changed"))
}

fn refused(refusal: Refusal) -> OperationError {
    match refusal.kind {
        RefusalKind::NotFound => OperationError::NotFound(refusal.message),
        RefusalKind::Invalid => OperationError::BadInput(refusal.message),
        RefusalKind::State => OperationError::Refused(refusal.message),
    }
}
