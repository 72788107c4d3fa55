//! What people do about the reasons of an upgrade: each names what helps. A wait without a reason, and a reason without an
//! end, are breaches.

use crate::simulate::advice::{
    advised, as_seen, filled_by_hand, is_of_another_database, put_back, reconciled, restored,
    undo_ended_by_hand,
};
use crate::simulate::current::{Current, LOOK, MISFORTUNE};
use crate::simulate::falsify::kind::{FalseAction, Falsification};
use crate::simulate::named::judge_waiting;
use crate::simulate::operator::{Command, Operator, within};
use crate::simulate::scenario::UpgradePlan;
use crate::simulate::sharing::Wanted;
use crate::simulate::way_back::judge_refusal;
use crate::simulate::world::{World, tag};
use tidegate_planner::ask::RollbackBar;
use tidegate_proto::wire::v1::ExplainUpgradeReply;

/// The kind of the reason that the store refuses a record: no record of an upgrade outgrows the smallest limit that a world's
/// store has, and a coordinator has every permission.
const REFUSED: &str = "store-refused";

/// Makes false what is explained, where a falsification does that.
fn falsify(world: &World, explained: &mut ExplainUpgradeReply) {
    match world.scenario.falsify {
        Some(Falsification::Action(FalseAction::ReasonsAreLost)) => explained.reasons.clear(),
        Some(Falsification::Action(FalseAction::ReasonsNameNone)) => {
            for reason in &mut explained.reasons {
                reason.owner = "the agents".to_owned();
                reason.blocked_on = "2 instances are in service and 2 must stay".to_owned();
            }
        }
        Some(Falsification::Action(FalseAction::WriteIsRefused)) => {
            explained.reasons.iter_mut().for_each(|reason| reason.kind = REFUSED.to_owned());
        }
        _ => {}
    }
}

/// Does what the reasons of an upgrade advise; `last` = it has to have ended by now.
pub(super) async fn follow_reasons(
    world: &mut World,
    current: &mut Current,
    mut explained: ExplainUpgradeReply,
    last: bool,
) {
    let now = world.testbed.now();
    falsify(world, &mut explained);
    if let Some(refused) = explained.reasons.iter().find(|reason| reason.kind == REFUSED) {
        let text = format!("what {} has to write is refused: {}", current.id, refused.blocked_on);
        world.testbed.state().facts.breach(now, 11, text);
    }
    explained.reasons.iter().for_each(|reason| judge_waiting(world, &current.id, &reason.into()));
    let silent = explained.reasons.is_empty() && explained.trouble.is_none();
    let (phase, moved_at) = match world.testbed.state().facts.phases.get(&current.id) {
        Some((phase, at)) => (Some(*phase), *at),
        None => (None, now),
    };
    let moves = world.testbed.state().facts.moves.since(&current.id, now.saturating_sub(LOOK));
    let waits = silent && !moves && now > moved_at + 60_000;
    current.unexplained = if waits { current.unexplained + 1 } else { 0 };
    if current.unexplained == 12 {
        world.testbed.state().facts.breach(now, 0, format!("{} waits without a reason", current.id));
    }
    let trouble = explained.trouble.as_deref().unwrap_or_default();
    reconciled(world, trouble).await;
    put_back(world, trouble).await;
    for reason in &explained.reasons {
        put_back(world, &reason.blocked_on).await;
        let service = world.scenario.upgrades[current.plan].service;
        world.correct_config(service, &reason.blocked_on);
        filled_by_hand(world, service, &reason.blocked_on).await;
        undo_ended_by_hand(world, service, &reason.blocked_on).await;
    }
    if explained.reasons.iter().any(|reason| reason.kind == "migrate-floor") {
        world.wanted.insert(current.plan, Wanted::By(current.id.clone()));
    }
    if explained.reasons.iter().any(|reason| reason.kind == "needed") {
        world.withdraw = Some(world.scenario.upgrades[current.plan].from);
    }
    roll_back_for_others(world, current).await;
    if last {
        let reasons = explained.reasons.iter().map(|r| r.blocked_on.as_str());
        let reasons: Vec<&str> = explained.trouble.as_deref().into_iter().chain(reasons).collect();
        let text = format!("{} does not end: {phase:?}, {}", current.id, reasons.join("; "));
        world.testbed.state().facts.breach(now, 0, text);
    }
    let other = explained.reasons.iter().find(|reason| is_of_another_database(&reason.blocked_on));
    if let Some(reason) = other {
        restored(world, current, &reason.blocked_on).await;
    }
    // Where no rollback is advised, the release is corrected where it runs, before its instances are retried.
    if explained.reasons.iter().any(|reason| reason.kind == "empty-wave" && reason.next_step.is_none()) {
        let UpgradePlan { service, from, .. } = world.scenario.upgrades[current.plan];
        world.testbed.correct(&tag(&world.scenario.services[service].name, from + 1));
    }
    for reason in &explained.reasons {
        let Some(next_step) = &reason.next_step else { continue };
        // What ends by itself is waited for while things go wrong.
        let waited = next_step.strip_prefix("wait until ").and_then(|text| text.split_once(", or "));
        if waited.is_some() && now < current.since + MISFORTUNE {
            continue;
        }
        let next_step = waited.map_or(next_step.as_str(), |(_, otherwise)| otherwise);
        let command = as_seen(world, current, next_step);
        if advised(world, current, &reason.kind, &command).await {
            break;
        }
        // What is not gone is not decommissioned: a version that a plan can include is started there.
        if matches!(command, Command::Decommission(_)) && now >= current.since + MISFORTUNE {
            world.install_inside(&reason.blocked_on);
        }
    }
}

/// Where a service that shares the schema will not come to the new version, people go back. Where they cannot any more, they
/// have the people of that service try again.
async fn roll_back_for_others(world: &mut World, current: &Current) {
    let UpgradePlan { service, from, .. } = world.scenario.upgrades[current.plan];
    let others = world.scenario.sharing(service);
    if others.iter().any(|other| world.given_up.contains(other)) {
        let command = Command::RollBack(current.id.clone());
        let done = within(Operator::new(&world.coordinators).act(&command)).await;
        world.testbed.log(format!("a service that shares the schema stays behind: {done:?}"));
        let Err(not_done) = done else { return };
        judge_refusal(world, &current.id, &not_done);
        if not_done.bar == Some(RollbackBar::Computes) {
            world.withdraw = Some(from);
        }
        if not_done.is_final() {
            world.given_up.retain(|one| !others.contains(one));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_proto::wire::v1::Reason;

    /// No coordinator leads, so that each request is refused.
    #[tokio::test(start_paused = true)]
    async fn reasons_after_a_refused_reconciliation_are_followed() {
        let directory = tempfile::tempdir().unwrap();
        let mut world = World::bare(directory.path()).await;
        let mut current = Current::new(0, "u0".to_owned(), 0, None, true);
        let reason = |kind: &str, next_step: &str| Reason {
            kind: kind.to_owned(),
            next_step: Some(next_step.to_owned()),
            ..Reason::default()
        };
        let reasons = vec![
            reason("disregarded", "tidegate fleet reconcile --include pantry/n00"),
            reason("paused", "tidegate upgrade resume u0"),
        ];
        let explained = ExplainUpgradeReply { reasons, ..ExplainUpgradeReply::default() };
        follow_reasons(&mut world, &mut current, explained, false).await;
        assert_eq!(current.resumptions, 1);
    }
}
