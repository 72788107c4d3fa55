//! Act: carries out the planned actions, in order, with no choice left. A commit that fails ends its subject's actions
//! in this turn; others go on, so an upgrade that is too large, or was overtaken, blocks no other. Where the store does
//! not answer, the turn ends; the next plans again from a new snapshot. A deposed leader's writes fail by their fence.

pub(crate) mod schema;

pub(crate) use schema::Workers;

use crate::leadership::{Leadership, OLDEST_VIEW};
use crate::telemetry::Chain;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_planner::gate::store::refused;
use tidegate_planner::{Action, Plan, PlannedCommit, Reason};
use tidegate_proto::key::Subject;
use tidegate_proto::mutant;
use tidegate_store::{CommitError, StoreError};
use tokio::time::Instant;

/// What came of the actions of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Acted {
    /// Whether the store was changed: then the next turn begins as soon as that is seen.
    pub any: bool,
}

/// Carries out the actions of a plan, and adds to its reasons what they met. A person's stop is heeded between two of
/// them.
pub(crate) async fn act(
    leadership: &Leadership,
    workers: &Workers,
    plan: &mut Plan,
    planned_at: Instant,
) -> Acted {
    workers.reap().await;
    workers.add_certificate_failures(plan);
    workers.stop_unrequested(plan);
    let (actions, withheld) = (std::mem::take(&mut plan.actions), std::mem::take(&mut plan.withheld));
    let (acted, refused) = carry_out(leadership, workers, actions, planned_at).await;
    leadership.keep_refused(refused, &withheld);
    for (id, reasons) in &mut plan.waiting {
        reasons.extend(leadership.refused(&Subject::Upgrade(id.clone())));
    }
    acted
}

async fn carry_out(
    leadership: &Leadership,
    workers: &Workers,
    actions: Vec<Action>,
    planned_at: Instant,
) -> (Acted, BTreeMap<Subject, Reason>) {
    let mut acted = Acted::default();
    let (mut held, mut refusals) = (BTreeSet::<Subject>::new(), BTreeMap::new());
    for action in actions {
        if !leadership.is_held() {
            break;
        }
        let subject = action.subject();
        if held.contains(&subject) {
            continue;
        }
        match action {
            Action::Commit(planned) => match commit(leadership, planned, planned_at).await {
                Outcome::Done => acted.any = true,
                Outcome::Overtaken => drop(held.insert(subject)),
                Outcome::Refused(reason) => {
                    refusals.insert(subject.clone(), reason);
                    if mutant::is("refused-subject-ends-the-turn") {
                        break;
                    }
                    held.insert(subject);
                }
                Outcome::Unanswered => break,
            },
            Action::Schema { upgrade, job } => workers.ensure_job(upgrade, job),
            Action::Certify { upgrade } => workers.certifies(upgrade),
        }
    }
    (acted, refusals)
}

/// Whether it is not sent any more: the commits before it took long, or this process was stopped.
fn is_too_late(planned: &PlannedCommit, planned_at: Instant) -> bool {
    let late =
        planned.by_recent_view && planned_at.elapsed() > OLDEST_VIEW && !mutant::is("late-order-is-sent");
    if late {
        tracing::info!(subject = %planned.subject, what = planned.what, "planned too long ago; planned again");
    }
    late
}

/// What came of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    /// It was carried out.
    Done,
    /// Something else was first, or it is too late for it.
    Overtaken,
    /// The store refused it, and that says nothing of any other.
    Refused(Reason),
    /// The store did not answer.
    Unanswered,
}

/// Carries out one commit.
async fn commit(leadership: &Leadership, planned: PlannedCommit, planned_at: Instant) -> Outcome {
    if is_too_late(&planned, planned_at) {
        return Outcome::Overtaken;
    }
    let done = leadership.commit_planned(&planned).await;
    let PlannedCommit { subject, what, .. } = planned;
    match done {
        Ok(committed) => {
            tracing::info!(%subject, revision = %committed.revision, what, "done");
            Outcome::Done
        }
        Err(CommitError::Conflict { .. }) => {
            tracing::debug!(%subject, what, "transaction conflict; planned again");
            Outcome::Overtaken
        }
        Err(error) => {
            tracing::warn!(%subject, what, error = %Chain(&error), "not done; planned again");
            match error {
                CommitError::Invalid(_) | CommitError::Store(StoreError::Refused { .. }) => {
                    Outcome::Refused(refused(what, &Chain(&error)))
                }
                _ => Outcome::Unanswered,
            }
        }
    }
}

#[cfg(test)]
mod tests;
