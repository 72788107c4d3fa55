//! A wish that changes something: asked of the planner over what is seen, committed under the leader's fence. What
//! was seen may be overtaken meanwhile: then it is asked anew, a few times.

use super::OperationError;
use crate::room::Room;
use crate::seat::{Seat, events_in};
use crate::telemetry::Chain;
use std::time::Duration;
use tidegate_planner::ask::release::Asked;
use tidegate_planner::ask::{Refusal, RefusalKind, reconciled};
use tidegate_planner::{Fleet, Moment};
use tidegate_proto::{Commit, Revision};
use tidegate_store::CommitError;

/// How often a wish is asked anew when something else was first.
const ATTEMPTS: u32 = 8;

/// How long the picture may take to show what was just written (a watch delivers within milliseconds).
const PATIENCE: Duration = Duration::from_secs(5);

/// What a wish becomes: a commit, or the knowledge that it is fulfilled already.
pub(super) trait Wished {
    /// What is written; none = nothing.
    fn commit(&self) -> Option<&Commit>;
}

impl Wished for Commit {
    fn commit(&self) -> Option<&Commit> {
        Some(self)
    }
}

impl Wished for Asked {
    fn commit(&self) -> Option<&Commit> {
        self.commit.as_ref()
    }
}

/// Grants a wish, or says why not; none is granted on a store that somebody contradicts.
pub(super) async fn grant(
    room: &Room,
    seat: &Seat,
    ask: impl Fn(&Fleet, &Moment) -> Result<Commit, Refusal>,
) -> Result<Revision, OperationError> {
    let granted = settle(room, seat, || async { Ok(()) }, |fleet, moment, ()| ask(fleet, moment)).await?;
    Ok(granted.1)
}

/// Grants a wish also on a store that was restored, and not yet reconciled.
pub(super) async fn grant_on_any_store(
    room: &Room,
    seat: &Seat,
    ask: impl Fn(&Fleet, &Moment) -> Result<Commit, Refusal>,
) -> Result<Revision, OperationError> {
    let granted =
        settle_on_any_store(room, seat, || async { Ok(()) }, |fleet, moment, ()| ask(fleet, moment)).await?;
    Ok(granted.1)
}

/// Grants what is asked of a release stream. One at a time here, so that those who ask at once do not overtake each
/// other over and over; what comes between is a turn, and then it is asked anew.
pub(super) async fn asked_of_stream(
    room: &Room,
    seat: &Seat,
    ask: impl Fn(&Fleet, &Moment) -> Result<Asked, Refusal>,
) -> Result<(Asked, Revision), OperationError> {
    let _alone = room.releases.lock().await;
    settle(room, seat, || async { Ok(()) }, |fleet, moment, ()| ask(fleet, moment)).await
}

/// Grants a wish that rests on what `prepare` reads besides the picture, each time anew; what was wished, and the
/// revision at which it was granted. None is granted on a store that somebody contradicts.
pub(super) async fn settle<P, W: Wished, F: Future<Output = Result<P, OperationError>>>(
    room: &Room,
    seat: &Seat,
    prepare: impl Fn() -> F,
    ask: impl Fn(&Fleet, &Moment, &P) -> Result<W, Refusal>,
) -> Result<(W, Revision), OperationError> {
    settle_on_any_store(room, seat, prepare, |fleet, moment, prepared| {
        reconciled(fleet, moment).and_then(|()| ask(fleet, moment, prepared))
    })
    .await
}

async fn settle_on_any_store<P, W: Wished, F: Future<Output = Result<P, OperationError>>>(
    room: &Room,
    seat: &Seat,
    prepare: impl Fn() -> F,
    ask: impl Fn(&Fleet, &Moment, &P) -> Result<W, Refusal>,
) -> Result<(W, Revision), OperationError> {
    for _ in 0..ATTEMPTS {
        if !room.mirror.reaches_within(seat.committed(), PATIENCE).await {
            return Err(away(room));
        }
        let mut sight = room.mirror.sight();
        sight.mark_unchanged();
        let prepared = prepare().await?;
        let wished = asked(room, seat, |fleet, moment| ask(fleet, moment, &prepared))?;
        let Some(commit) = wished.commit() else {
            let seen = room.mirror.picture().fleet.revision();
            still_leads(seat).await?;
            return Ok((wished, seen));
        };
        match seat.commit(commit).await {
            Ok(committed) => {
                // Whoever asks next sees it; if the watch is late, the wish is granted all the same.
                room.mirror.reaches_within(committed.revision, PATIENCE).await;
                return Ok((wished, committed.revision));
            }
            Err(CommitError::Conflict { .. }) if seat.is_held() => {
                // Something else was first: the watch is about to show it.
                let _ = tokio::time::timeout(Duration::from_millis(500), sight.changed()).await;
            }
            Err(CommitError::Conflict { .. }) => return Err(deposed()),
            Err(error @ CommitError::Unknown { .. }) => {
                return Err(OperationError::OutcomeUnknown(format!(
                    "{}; look before you ask again",
                    Chain(&error)
                )));
            }
            Err(error) => {
                return Err(OperationError::Unavailable(format!(
                    "could not write to the store: {}; nothing was changed",
                    Chain(&error)
                )));
            }
        }
    }
    Err(OperationError::Unavailable(format!(
        "the records concerned changed {ATTEMPTS} times while this was asked; nothing was changed: ask again"
    )))
}

/// That nothing has to be written rests on what is seen, and another leader may have written since. The store is asked for
/// the fence, as a commit is: while it holds, all that was written is this leader's, and that was seen.
async fn still_leads(seat: &Seat) -> Result<(), OperationError> {
    match seat.confirm().await {
        Ok(()) => Ok(()),
        Err(CommitError::Conflict { .. }) => Err(deposed()),
        Err(error) => Err(OperationError::Unavailable(format!(
            "could not ask the store whether this coordinator still leads: {}; nothing was changed",
            Chain(&error)
        ))),
    }
}

fn deposed() -> OperationError {
    OperationError::Unavailable(
        "this coordinator has just lost the leadership; nothing was changed: ask again".to_owned(),
    )
}

/// Asks the planner over what is seen, on any store; changes nothing.
pub(super) async fn look<T>(
    room: &Room,
    seat: &Seat,
    ask: impl Fn(&Fleet, &Moment) -> Result<T, Refusal>,
) -> Result<T, OperationError> {
    if !room.mirror.reaches_within(seat.committed(), PATIENCE).await {
        return Err(away(room));
    }
    let picture = room.mirror.picture();
    seat.plan(&picture, |moment| ask(&picture.fleet, moment), |_| 0).map_err(refused)
}

/// Asks whether a wish would be granted now; changes nothing.
pub(super) async fn ponder(
    room: &Room,
    seat: &Seat,
    ask: impl Fn(&Fleet, &Moment) -> Result<Commit, Refusal>,
) -> Result<(), OperationError> {
    if !room.mirror.reaches_within(seat.committed(), PATIENCE).await {
        return Err(away(room));
    }
    asked(room, seat, |fleet, moment| reconciled(fleet, moment).and_then(|()| ask(fleet, moment))).map(|_| ())
}

fn asked<W: Wished>(
    room: &Room,
    seat: &Seat,
    ask: impl Fn(&Fleet, &Moment) -> Result<W, Refusal>,
) -> Result<W, OperationError> {
    let picture = room.mirror.picture();
    let events =
        |asked: &Result<W, Refusal>| asked.as_ref().ok().and_then(Wished::commit).map_or(0, events_in);
    seat.plan(&picture, |moment| ask(&picture.fleet, moment), events).map_err(refused)
}

fn away(room: &Room) -> OperationError {
    let why =
        room.trouble().unwrap_or_else(|| "this coordinator has not yet seen its own last write".to_owned());
    OperationError::Unavailable(format!("{why}; nothing was changed"))
}

/// A refusal of the planner, as operations tell it.
pub(super) fn refused(refusal: Refusal) -> OperationError {
    match refusal.kind {
        RefusalKind::NotFound => OperationError::NotFound(refusal.message),
        RefusalKind::Invalid => OperationError::BadInput(refusal.message),
        RefusalKind::TooLarge => OperationError::TooLarge(refusal.message),
        RefusalKind::State => OperationError::Refused(refusal.message),
    }
}
