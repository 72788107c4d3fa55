//! A command that changes something: the planner makes a commit of it from the view, which is committed under the
//! leader's fence. Where another commit was first, it is planned again, a few times.

use super::{OperationError, unreadable};
use crate::context::Context;
use crate::leadership::{Leadership, events_in};
use crate::report::SyncStatus;
use crate::telemetry::Chain;
use std::time::Duration;
use tidegate_planner::ask::release::Asked;
use tidegate_planner::ask::{Refusal, RefusalKind, reconciled};
use tidegate_planner::gate::store::stale;
use tidegate_planner::{Fleet, Moment};
use tidegate_proto::{Commit, Revision, mutant};
use tidegate_store::CommitError;
use tokio::sync::watch;

/// How often a mutation is planned again when another commit was first.
const ATTEMPTS: u32 = 8;

/// How long the view may take to show what was just written (a watch delivers within milliseconds).
const PATIENCE: Duration = Duration::from_secs(5);

/// What a command becomes: a commit, or the knowledge that nothing has to change.
pub(super) trait Mutation {
    /// What is written; none = nothing.
    fn commit(&self) -> Option<&Commit>;
}

impl Mutation for Commit {
    fn commit(&self) -> Option<&Commit> {
        Some(self)
    }
}

impl Mutation for Asked {
    fn commit(&self) -> Option<&Commit> {
        self.commit.as_ref()
    }
}

/// Applies a mutation, or says why not; none is applied on a store that a witness contradicts.
pub(super) async fn apply(
    context: &Context,
    leadership: &Leadership,
    ask: impl Fn(&Fleet, &Moment) -> Result<Commit, Refusal>,
) -> Result<Revision, OperationError> {
    settle_as_seen(context, leadership, ask).await.map(|(_, at)| at)
}

/// Applies a mutation also on a store that was restored, and not yet reconciled.
pub(super) async fn apply_on_any_store(
    context: &Context,
    leadership: &Leadership,
    ask: impl Fn(&Fleet, &Moment) -> Result<Commit, Refusal>,
) -> Result<Revision, OperationError> {
    let settled =
        settle_on_any_store(context, leadership, || async { Ok(()) }, |fleet, moment, ()| ask(fleet, moment));
    settled.await.map(|(_, at)| at)
}

/// Applies what is asked of a release stream. One at a time here, so that those who ask at once do not overtake each
/// other over and over; what comes between is a turn, and then it is planned again.
pub(super) async fn asked_of_stream(
    context: &Context,
    leadership: &Leadership,
    ask: impl Fn(&Fleet, &Moment) -> Result<Asked, Refusal>,
) -> Result<(Asked, Revision), OperationError> {
    let _alone = context.releases.lock().await;
    settle_as_seen(context, leadership, ask).await
}

/// Applies a mutation that depends on the view alone; the mutation, and the revision at which it was applied.
pub(super) async fn settle_as_seen<W: Mutation>(
    context: &Context,
    leadership: &Leadership,
    ask: impl Fn(&Fleet, &Moment) -> Result<W, Refusal>,
) -> Result<(W, Revision), OperationError> {
    settle(context, leadership, || async { Ok(()) }, |fleet, moment, ()| ask(fleet, moment)).await
}

/// Applies a mutation that depends on what `prepare` reads besides the view, each time again; the mutation, and the
/// revision at which it was applied. None is applied on a store that a witness contradicts.
pub(super) async fn settle<P, W: Mutation, F: Future<Output = Result<P, OperationError>>>(
    context: &Context,
    leadership: &Leadership,
    prepare: impl Fn() -> F,
    ask: impl Fn(&Fleet, &Moment, &P) -> Result<W, Refusal>,
) -> Result<(W, Revision), OperationError> {
    settle_on_any_store(context, leadership, prepare, |fleet, moment, prepared| {
        reconciled(fleet, moment).and_then(|()| ask(fleet, moment, prepared))
    })
    .await
}

async fn settle_on_any_store<P, W: Mutation, F: Future<Output = Result<P, OperationError>>>(
    context: &Context,
    leadership: &Leadership,
    prepare: impl Fn() -> F,
    ask: impl Fn(&Fleet, &Moment, &P) -> Result<W, Refusal>,
) -> Result<(W, Revision), OperationError> {
    let mut slow = 0;
    for _ in 0..ATTEMPTS {
        if !context.mirror.reaches_within(leadership.committed(), PATIENCE).await {
            return Err(away(context));
        }
        let mut sync_status = context.mirror.sync_status();
        sync_status.mark_unchanged();
        let prepared = prepare().await?;
        let asked_for = match asked(context, leadership, |fleet, moment| ask(fleet, moment, &prepared))? {
            Planned::Settled(asked_for) => asked_for,
            Planned::Unconfirmed(confirmation) => {
                match confirms(leadership, &confirmation).await? {
                    true => slow += 1,
                    false => overtaken(&mut sync_status).await,
                }
                continue;
            }
        };
        let Some(commit) = asked_for.commit() else {
            let seen = context.mirror.view().fleet.revision();
            still_leads(leadership).await?;
            return Ok((asked_for, seen));
        };
        match leadership.commit(commit).await {
            Ok(committed) => {
                // The next request sees it; if the watch is late, it was applied all the same.
                context.mirror.reaches_within(committed.revision, PATIENCE).await;
                return Ok((asked_for, committed.revision));
            }
            Err(CommitError::Conflict { .. }) if leadership.is_held() => {
                overtaken(&mut sync_status).await;
            }
            Err(error) => return Err(not_written(&error, commit)),
        }
    }
    let why = match slow > ATTEMPTS / 2 {
        true => format!("this coordinator saw too late what it had written to the store, {slow} times"),
        false => format!("the records concerned changed, {} times", ATTEMPTS - slow),
    };
    Err(OperationError::Unavailable(format!("{why} while this was asked; nothing was changed: ask again")))
}

/// Something else was first: the watch is about to show it.
async fn overtaken(sync_status: &mut watch::Receiver<SyncStatus>) {
    let _ = tokio::time::timeout(Duration::from_millis(500), sync_status.changed()).await;
}

/// Writes what shows how old the view is; false where something else was first.
async fn confirms(leadership: &Leadership, confirmation: &Commit) -> Result<bool, OperationError> {
    match leadership.commit(confirmation).await {
        Ok(_) => Ok(true),
        Err(CommitError::Conflict { .. }) if leadership.is_held() => Ok(false),
        Err(CommitError::Conflict { .. }) => Err(deposed()),
        Err(error) => Err(unwritten(&error)),
    }
}

/// What became of a commit that was not carried out, or may not have been.
fn not_written(error: &CommitError, commit: &Commit) -> OperationError {
    match error {
        CommitError::Conflict { .. } => deposed(),
        CommitError::Unknown { .. } => {
            OperationError::OutcomeUnknown(format!("{}; look before you ask again", Chain(error)))
        }
        CommitError::NotApplied { .. } if stale::taken_of(commit).is_some() => {
            OperationError::OutcomeUnknown(format!(
                "{}; the answer was waited for only shortly, and it may still be applied: look before you ask again",
                Chain(error)
            ))
        }
        _ => unwritten(error),
    }
}

fn unwritten(error: &CommitError) -> OperationError {
    OperationError::Unavailable(format!(
        "could not write to the store: {}; nothing was changed",
        Chain(error)
    ))
}

/// That nothing has to be written rests on what is seen, and another leader may have written since. The store is asked for
/// the fence, as a commit is: while it holds, all that was written is this leader's, and that was seen.
async fn still_leads(leadership: &Leadership) -> Result<(), OperationError> {
    match leadership.confirm().await {
        Ok(()) => Ok(()),
        Err(CommitError::Conflict { .. }) => Err(deposed()),
        Err(error) => Err(OperationError::Unavailable(format!(
            "could not ask the store whether this coordinator still leads: {}; nothing was changed",
            Chain(&error)
        ))),
    }
}

/// That this coordinator leads no longer.
pub(super) fn deposed() -> OperationError {
    OperationError::Unavailable(
        "this coordinator has just lost the leadership; nothing was changed: ask again".to_owned(),
    )
}

/// Asks the planner over what is seen, on any store; changes nothing.
pub(super) async fn look<T>(
    context: &Context,
    leadership: &Leadership,
    ask: impl Fn(&Fleet, &Moment) -> Result<T, Refusal>,
) -> Result<T, OperationError> {
    if !context.mirror.reaches_within(leadership.committed(), PATIENCE).await {
        return Err(away(context));
    }
    let view = context.mirror.view();
    leadership.plan(&view, |moment| ask(&view.fleet, moment), |_| 0).map_err(refused)
}

/// Validates a mutation; changes nothing.
pub(super) async fn validate(
    context: &Context,
    leadership: &Leadership,
    ask: impl Fn(&Fleet, &Moment) -> Result<Commit, Refusal>,
) -> Result<(), OperationError> {
    if !context.mirror.reaches_within(leadership.committed(), PATIENCE).await {
        return Err(away(context));
    }
    asked(context, leadership, |fleet, moment| reconciled(fleet, moment).and_then(|()| ask(fleet, moment)))
        .map(|_| ())
}

/// What a mutation became by what is seen.
enum Planned<W> {
    /// It can be applied.
    Settled(W),
    /// It would take an instance out by an old view: this is written first, and then it is planned again.
    Unconfirmed(Commit),
}

fn asked<W: Mutation>(
    context: &Context,
    leadership: &Leadership,
    ask: impl Fn(&Fleet, &Moment) -> Result<W, Refusal>,
) -> Result<Planned<W>, OperationError> {
    let view = context.mirror.view();
    let planned = |moment: &Moment| {
        let asked_for = ask(&view.fleet, moment)?;
        let before = asked_for.commit().and_then(|commit| stale::before_taking(moment, commit));
        let before = before.filter(|_| !mutant::is("retry-by-an-old-view"));
        let before = before.map(|service| stale::confirmation(&view.fleet, moment, service));
        Ok((asked_for, before))
    };
    let events = |planned: &Result<(W, Option<Commit>), Refusal>| {
        let asked_for = planned.as_ref().ok().map(|(asked_for, _)| asked_for);
        asked_for.and_then(Mutation::commit).map_or(0, events_in)
    };
    let (asked_for, before) = leadership.plan(&view, planned, events).map_err(refused)?;
    // The store would refuse it each time, as if another commit had been first.
    let hidden = asked_for.commit().and_then(|commit| view.fleet.unreadable_in(commit));
    if let Some(record) = hidden.and_then(|key| unreadable::advice(context, &view, key)) {
        return Err(OperationError::Refused(format!("nothing was changed: {record}")));
    }
    Ok(before.map_or(Planned::Settled(asked_for), Planned::Unconfirmed))
}

fn away(context: &Context) -> OperationError {
    let why = context
        .trouble()
        .unwrap_or_else(|| "this coordinator has not yet seen its own last write".to_owned());
    OperationError::Unavailable(format!("{why}; nothing was changed"))
}

/// A refusal of the planner, as an operation returns it.
pub(super) fn refused(refusal: Refusal) -> OperationError {
    match refusal.kind {
        RefusalKind::NotFound => OperationError::NotFound(refusal.message),
        RefusalKind::Invalid => OperationError::BadInput(refusal.message),
        RefusalKind::TooLarge => OperationError::TooLarge(refusal.message),
        RefusalKind::State => OperationError::Refused(refusal.message),
        RefusalKind::Rollback(bar) => OperationError::NoRollback { message: refusal.message, bar },
    }
}
