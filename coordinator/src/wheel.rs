//! When to turn: only the leader does; woken by what the store shows and by the schema worker, backed by a timer.
//! Leads as soon as it can, and stops at once when it no longer does.

use crate::act::Workers;
use crate::record::waiting::Scribe;
use crate::record::{retention, strays};
use crate::room::Room;
use crate::seat::Seat;
use crate::standing::hindrance;
use crate::telemetry::Chain;
use crate::turn::turn;
use std::sync::Arc;
use std::time::Duration;
use tidegate_proto::{Revision, TermId, mutant};
use tidegate_store::Leadership;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// A turn at least this often: elapsed waits grow without any change in the store.
const TIMER: Duration = Duration::from_secs(1);

/// Turns until cancelled: stands for leader, leads, and stands again when the leadership is lost. The action under
/// way is finished before it returns, and the leadership given up.
pub async fn run(
    room: Room,
    seats: watch::Sender<Option<Arc<Seat>>>,
    ttl: Duration,
    cancel: CancellationToken,
) {
    loop {
        let falls = room.mirror.falls();
        let Some(leadership) = stand(&room, ttl, &cancel).await else { break };
        let seat = Arc::new(Seat::new(leadership, Arc::clone(&room.metrics)));
        tracing::info!(term = %seat.leading.term, revision = %seat.leading.revision, "leads");
        seats.send_replace(Some(Arc::clone(&seat)));
        room.metrics.leader.set(1);
        lead(&room, &seat, falls, &cancel).await;
        seats.send_replace(None);
        room.metrics.leader.set(0);
        seat.give_up().await;
        if !cancel.is_cancelled() {
            tracing::warn!("no longer leads");
        }
    }
}

/// Campaigns until elected; none = cancelled. Stands only while it has what the active upgrades need; what becomes
/// of that while it waits for its election is looked at again when it is elected.
async fn stand(room: &Room, ttl: Duration, cancel: &CancellationToken) -> Option<Leadership> {
    loop {
        tokio::select! {
            // Who is told to end and has just given its leadership up does not stand again.
            biased;
            () = cancel.cancelled() => return None,
            () = may_stand(room) => {}
        }
        // A term's id is random: a store that does not know it was restored from a backup.
        let term: TermId = uuid::Uuid::new_v4().to_string().parse().expect("a UUID is a name");
        match room.store.campaign(term, room.address.to_string(), ttl, cancel.clone()).await {
            Ok(leadership) => match hindrance(room).await {
                None => return Some(leadership),
                Some(why) => {
                    tracing::warn!(why, "elected, but does not lead");
                    if let Err(error) = leadership.resign().await {
                        tracing::warn!(error = %Chain(&error), "could not give the leadership up; it lapses by itself");
                    }
                }
            },
            Err(_) if cancel.is_cancelled() => return None,
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "could not stand for leader; tries again");
                tokio::select! {
                    () = cancel.cancelled() => return None,
                    () = tokio::time::sleep(TIMER) => {}
                }
            }
        }
    }
}

/// Waits until nothing hinders this coordinator from standing.
async fn may_stand(room: &Room) {
    room.mirror.reaches(Revision::ABSENT).await;
    while let Some(why) = hindrance(room).await {
        let said = room.hindrance.send_replace(Some(why.clone()));
        if said.as_ref() != Some(&why) {
            tracing::warn!(why, "does not stand for leader");
        }
        tokio::time::sleep(TIMER).await;
    }
    room.hindrance.send_replace(None);
}

/// Waits until a leadership is over. It also is when the store falls back behind what was seen of it (`falls` = how
/// often it had before): what this leader has written is not all there, and a term belongs to one store.
async fn is_over(room: &Room, seat: &Seat, falls: u64, cancel: &CancellationToken) {
    tokio::select! {
        () = seat.lost.cancelled(), if !mutant::is("lost-leadership-is-not-noticed") => {}
        () = cancel.cancelled() => {}
        () = room.mirror.falls_beyond(falls) => {}
    }
}

/// Turns while the leadership lasts.
async fn lead(room: &Room, seat: &Arc<Seat>, falls: u64, cancel: &CancellationToken) {
    let mut sight = room.mirror.sight();
    let mut schemas = seat.schemas().subscribe();
    let scribe = Scribe::begin(room, seat);
    let _trimmed =
        AbortOnDropHandle::new(tokio::spawn(retention::look_after(room.store.clone(), Arc::clone(seat))));
    let swept = strays::look_after(room.store.clone(), Arc::clone(&room.mirror), Arc::clone(seat));
    let _swept = AbortOnDropHandle::new(tokio::spawn(swept));
    let workers = Workers::new(room.clone(), Arc::clone(seat));
    loop {
        // Never from a state before the leader's own last commit.
        tokio::select! {
            biased;
            () = is_over(room, seat, falls, cancel) => break,
            () = room.mirror.reaches(seat.committed()) => {}
        }
        sight.mark_unchanged();
        schemas.mark_unchanged();
        let began = Instant::now();
        let acted = turn(room, seat, &scribe, &workers).await;
        room.metrics.turned(began.elapsed());
        if acted.any {
            continue;
        }
        tokio::select! {
            biased;
            () = is_over(room, seat, falls, cancel) => break,
            Ok(()) = sight.changed() => {}
            Ok(()) = schemas.changed() => {}
            () = tokio::time::sleep(TIMER) => {}
        }
    }
    workers.stop().await;
    scribe.stop().await;
}
