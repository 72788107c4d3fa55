//! What a dry run promises, and what happens then.

use super::judge::Facts;
use super::line::Place;
use super::operator::{Answer, Operator};
use super::world::World;
use tidegate_coordinator::context::Context;
use tidegate_coordinator::operation::{self, OperationError};
use tidegate_proto::wire::v1::{StartUpgradeReply, StartUpgradeRequest};

/// The revision of the store, where this coordinator has seen all of it.
pub(super) async fn seen(place: &Place, context: &Context) -> Option<i64> {
    let mut client = place.store().client().await.ok()?;
    let answer = client.get("revision", None).await.ok()?;
    let revision = answer.header()?.revision();
    (context.mirror.view().fleet.revision().0 == revision).then_some(revision)
}

/// Whether the answers to a dry run and to its request, since `begun`, can be compared. An answer that was given without
/// the store says nothing about the request, where a fault disturbed coordinators then or shortly before.
pub(super) fn are_comparable<T>(facts: &Facts, begun: u64, both: [&Result<T, OperationError>; 2]) -> bool {
    use OperationError::{OutcomeUnknown, Store, Unavailable};
    let without_store = |answer: &Result<T, OperationError>| {
        matches!(answer, Err(Unavailable(_) | Store { .. } | OutcomeUnknown(_)))
    };
    !(facts.is_disturbed_since(begun) && both.into_iter().any(without_store))
}

/// After a dry run two people start the same upgrade at once: one of them does where the dry run said so, with the same
/// findings and waves.
pub(super) async fn start_twice(world: &World, id: &str, spec: &serde_json::Value) -> Answer {
    let (context, leadership) = Operator::new(&world.coordinators).leader()?;
    let asked = |who: &str, dry_run| StartUpgradeRequest {
        spec: spec.to_string(),
        id: id.to_owned(),
        who: who.to_owned(),
        dry_run,
    };
    let begun = world.testbed.now();
    let before = seen(&world.place, context).await;
    let promised = operation::start_upgrade(context, &leadership, asked("one", true)).await;
    let between = seen(&world.place, context).await;
    let (one, other) = tokio::join!(
        operation::start_upgrade(context, &leadership, asked("one", false)),
        operation::start_upgrade(context, &leadership, asked("other", false))
    );
    let now = world.testbed.now();
    let breach = |rule, text: String| world.testbed.state().facts.breach(now, rule, text);
    if one.is_ok() && other.is_ok() {
        breach(9, format!("{id} was started by two people"));
    }
    let unclear = [&one, &other].iter().any(|done| matches!(done, Err(OperationError::OutcomeUnknown(_))));
    let done = one.or(other);
    let first = match &done {
        Ok(done) => between.is_some_and(|between| done.revision == between + 1),
        Err(_) => seen(&world.place, context).await == between,
    };
    let comparable = are_comparable(&world.testbed.state().facts, begun, [&promised, &done]);
    if comparable && before.is_some() && before == between && first && !unclear {
        match (&promised, &done) {
            (Ok(promised), Ok(done)) if !blocks(promised) => {
                if (&promised.findings, &promised.waves) != (&done.findings, &done.waves) {
                    breach(0, format!("the dry run of {id} promised {promised:?}, and it was {done:?}"));
                }
            }
            (_, Ok(_)) => breach(0, format!("{id} was started, its dry run said {promised:?}")),
            (Ok(promised), Err(why)) if !blocks(promised) => {
                breach(0, format!("{id} was refused ({why}), its dry run found nothing that blocks"));
            }
            (_, Err(_)) => {}
        }
    }
    done.map(|done| done.id).map_err(|error| error.to_string())
}

pub(super) fn blocks(reply: &StartUpgradeReply) -> bool {
    // What an upgrade waits for in preflight refuses no start.
    let waits = |what: &str| what.starts_with("the upgrade waits in preflight: ");
    reply.findings.iter().any(|finding| finding.blocking && !waits(&finding.what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_without_the_store_is_not_compared_after_a_fault() {
        let facts = Facts { disturbed_until: 20_000, ..Facts::default() };
        let why = || "no answer to the commit".to_owned();
        for error in [OperationError::Unavailable(why()), OperationError::OutcomeUnknown(why())] {
            let lost: Result<(), OperationError> = Err(error);
            assert!(!are_comparable(&facts, 19_999, [&Ok(()), &lost]), "{lost:?}");
            assert!(!are_comparable(&facts, 19_999, [&lost, &Ok(())]), "the dry run: {lost:?}");
            assert!(are_comparable(&facts, 20_000, [&Ok(()), &lost]), "no fault explains {lost:?}");
        }
        let refused = Err(OperationError::Refused("the floor 3 is above the ceiling 2".to_owned()));
        assert!(are_comparable(&facts, 19_999, [&Ok(()), &refused]), "the planner has refused it");
    }
}
