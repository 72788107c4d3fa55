//! When to turn: only the leader does; woken by what the store shows and by the schema worker, backed by a timer.
//! Leads as soon as it can, and stops at once when it no longer does.

use crate::act::Workers;
use crate::context::Context;
use crate::eligibility::hindrance;
use crate::leadership::Leadership;
use crate::record::waiting::Recorder;
use crate::record::{retention, strays};
use crate::telemetry::Chain;
use crate::turn::turn;
use std::sync::Arc;
use std::time::Duration;
use tidegate_proto::{Revision, TermId, mutant};
use tidegate_store::process::spawn;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// A turn at least this often: elapsed waits grow without any change in the store.
const TIMER: Duration = Duration::from_secs(1);

/// Turns until cancelled: campaigns, leads, and campaigns again when the leadership is lost. It finishes the current
/// action and resigns before it returns.
pub async fn run(
    context: Context,
    leaderships: watch::Sender<Option<Arc<Leadership>>>,
    ttl: Duration,
    cancel: CancellationToken,
) {
    loop {
        let falls = context.mirror.falls();
        let Some(leadership) = campaign(&context, ttl, &cancel).await else { break };
        let leadership = Arc::new(Leadership::new(leadership, Arc::clone(&context.metrics)));
        tracing::info!(term = %leadership.leading.term, revision = %leadership.leading.revision, "leads");
        leaderships.send_replace(Some(Arc::clone(&leadership)));
        context.metrics.leader.set(1);
        lead(&context, &leadership, falls, &cancel).await;
        leaderships.send_replace(None);
        context.metrics.leader.set(0);
        leadership.resign().await;
        if !cancel.is_cancelled() {
            tracing::warn!("no longer leads");
        }
    }
}

/// Campaigns until elected; none = cancelled. Only a candidate while it has what the active upgrades need; that is
/// checked again when it is elected.
async fn campaign(
    context: &Context,
    ttl: Duration,
    cancel: &CancellationToken,
) -> Option<tidegate_store::Leadership> {
    loop {
        tokio::select! {
            // After a cancelled process has resigned, it does not campaign again.
            biased;
            () = cancel.cancelled() => return None,
            () = wait_until_eligible(context) => {}
        }
        // A term's id is random: a store that does not know it was restored from a backup.
        let term: TermId = uuid::Uuid::new_v4().to_string().parse().expect("a UUID is a name");
        match context.store.campaign(term, context.address.to_string(), ttl, cancel.clone()).await {
            Ok(leadership) => match hindrance(context).await {
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
                tracing::warn!(error = %Chain(&error), "could not campaign for leadership; tries again");
                tokio::select! {
                    () = cancel.cancelled() => return None,
                    () = tokio::time::sleep(TIMER) => {}
                }
            }
        }
    }
}

/// Waits until nothing hinders this coordinator from campaigning.
async fn wait_until_eligible(context: &Context) {
    context.mirror.reaches(Revision::ABSENT).await;
    while let Some(why) = hindrance(context).await {
        let said = context.hindrance.send_replace(Some(why.clone()));
        if said.as_ref() != Some(&why) {
            tracing::warn!(why, "does not campaign for leadership");
        }
        tokio::time::sleep(TIMER).await;
    }
    context.hindrance.send_replace(None);
}

/// Waits until a leadership is over. It also is when the store falls back behind what was seen of it (`falls` = how
/// often it had before): what this leader has written is not all there, and a term belongs to one store.
async fn is_over(context: &Context, leadership: &Leadership, falls: u64, cancel: &CancellationToken) {
    tokio::select! {
        () = leadership.lost.cancelled(), if !mutant::is("lost-leadership-is-not-noticed") => {}
        () = cancel.cancelled() => {}
        () = context.mirror.falls_beyond(falls) => {}
    }
}

/// Turns while the leadership lasts.
async fn lead(context: &Context, leadership: &Arc<Leadership>, falls: u64, cancel: &CancellationToken) {
    let mut sync_status = context.mirror.sync_status();
    let mut schemas = leadership.schemas().subscribe();
    let recorder = Recorder::begin(context, leadership);
    let _trimmed =
        AbortOnDropHandle::new(spawn(retention::look_after(context.store.clone(), Arc::clone(leadership))));
    let swept =
        strays::look_after(context.store.clone(), Arc::clone(&context.mirror), Arc::clone(leadership));
    let _swept = AbortOnDropHandle::new(spawn(swept));
    let workers = Workers::new(context.clone(), Arc::clone(leadership));
    loop {
        // Never from a state before the leader's own last commit.
        tokio::select! {
            biased;
            () = is_over(context, leadership, falls, cancel) => break,
            () = context.mirror.reaches(leadership.committed()) => {}
        }
        sync_status.mark_unchanged();
        schemas.mark_unchanged();
        let began = Instant::now();
        let acted = turn(context, leadership, &recorder, &workers).await;
        context.metrics.turned(began.elapsed());
        if acted.any {
            continue;
        }
        tokio::select! {
            biased;
            () = is_over(context, leadership, falls, cancel) => break,
            Ok(()) = sync_status.changed() => {}
            Ok(()) = schemas.changed() => {}
            () = tokio::time::sleep(TIMER) => {}
        }
    }
    workers.stop().await;
    recorder.stop().await;
}
