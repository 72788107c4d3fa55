//! Floors that a reconciliation leaves: what agents obeyed of a former store is not lowered but by a rollback.

use super::contracted::reconciled;
use super::{apply, asker, blank_in_mid_roll, elect, publish, testify, version, window};
use crate::sim::{World, node, service, spec, upgrade_id};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_planner::SchemaFacts;
use tidegate_planner::ask;
use tidegate_planner::ask::reconcile::{Choices, Fate, Proposal, propose};
use tidegate_proto::record::reconciliation::Reconciliation;
use tidegate_proto::record::report::Witness;
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::record::window::Window;
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::{Key, Revision, ServiceVersion};

fn approve_roll(world: &mut World) {
    let (fleet, moment) = (world.store.fleet(), world.moment());
    let word = ask::approve(fleet, &moment, &upgrade_id(), ApprovalPoint::Roll, &asker()).unwrap();
    assert!(world.store.commit(&word));
    world.events += 1;
}

/// The store is restored to before the roll, and agents obeyed the floor that the last wave raised.
#[test]
fn roll_keeps_the_floor_that_a_reconciliation_left() {
    let mut world = World::at_version_1(3);
    elect(&mut world, 1);
    world.start(spec(json!({"min_in_service": 1, "approvals": ["roll"]}))).unwrap();
    world.run();
    assert_eq!(world.phase(), Phase::Stage);
    let backup = world.store.clone();
    approve_roll(&mut world);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    testify(&mut world);
    world.store = backup;
    publish(&mut world);
    elect(&mut world, 9);
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!((world.phase(), window(&world)), (Phase::Stage, Some((2, 2))));
    world.run();
    approve_roll(&mut world);
    world.until("it rolls", |world| matches!(world.phase(), Phase::Roll { .. }));
    assert_eq!(window(&world), Some((2, 2)), "nothing admits version 1 again");
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
}

/// An earlier plan applied a floor of 2, and a rollback lowered it to 1 since.
#[test]
fn floor_that_a_rollback_lowered_is_not_raised_again() {
    let mut world = World::at_version_1(3);
    elect(&mut world, 1);
    world.store.put(Key::Reconciliation, reconciled());
    let lowered = Window { floor: version(1), ceiling: version(1), set_by: upgrade_id(), contracted: None };
    world.store.put(Key::Window(service()), lowered);
    for n in [node(0), node(1)] {
        let report = &mut world.agents.get_mut(&n).unwrap().report;
        report.witness = Witness {
            term: Some("later".parse().unwrap()),
            floor: Some(version(1)),
            reconciled: Revision::ABSENT,
        };
        world.publish(&n);
    }
    let proposal = propose(world.store.fleet(), &world.moment(), &Choices::default()).unwrap();
    assert!(proposal.witnesses.iter().all(|witness| witness.fate == Fate::Applied), "{proposal:?}");
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(window(&world), Some((1, 1)));
    let word = world.store.fleet().reconciliation().unwrap();
    assert_eq!(word.floors[&service()], version(2), "what was covered stays covered");
}

/// What is heard of a database that refused a start: the lowest version that may run on what it has contracted.
fn refused_by_a_database(requires: Option<ServiceVersion>) -> SchemaFacts {
    let obeyed = Some(("elsewhere".parse().unwrap(), Revision(900)));
    SchemaFacts { obeyed, refused_start: Some(service()), requires, ..SchemaFacts::default() }
}

/// What is planned where this was heard of the database of a start that was refused.
fn planned(world: &World, heard: SchemaFacts) -> Proposal {
    let mut moment = world.moment();
    moment.schemas.insert("u2".parse().unwrap(), heard);
    propose(world.store.fleet(), &moment, &Choices::default()).unwrap()
}

/// No agent remembers the floor under which the former store has contracted, as where the others were installed again. The
/// database of a start that was refused shows it.
#[test]
fn floor_is_not_below_what_a_database_has_contracted() {
    let world = blank_in_mid_roll();
    let plan = |requires| planned(&world, refused_by_a_database(requires));
    let change = |plan: &Proposal| (plan.windows[0].then, plan.windows[0].by_database);
    assert_eq!(change(&plan(None)), (Some((version(1), version(2))), false));
    assert!(!change(&plan(Some(version(1)))).1, "agents claim as much");
    let raised = plan(Some(version(2)));
    assert_eq!(change(&raised), (Some((version(2), version(2))), true));
    let refusals: Vec<_> = raised.refusals().collect();
    assert!(refusals.len() == 1 && refusals[0].contains("runs version 1"), "{refusals:?}");
    // The start was that of another service, which shares the schema.
    for (sharing, floor) in [("elsewhere", 1), ("pantry-api", 2)] {
        let heard = SchemaFacts {
            refused_start: Some("scheduler".parse().unwrap()),
            requires_of_sharing: [(sharing.parse().unwrap(), version(2))].into(),
            ..refused_by_a_database(Some(version(2)))
        };
        let plan = planned(&world, heard);
        let window = plan.windows.iter().find(|window| window.service == service()).unwrap();
        assert_eq!(window.then, Some((version(floor), version(2))), "{sharing}");
    }
}

/// Every agent has lost its journal, so that the database alone shows what the former store has contracted.
#[test]
fn contracted_floor_is_set_where_no_agent_claims() {
    let mut world = blank_in_mid_roll();
    for agent in world.agents.values_mut() {
        (agent.report.witness, agent.report.window) = (Witness::default(), Revision::ABSENT);
    }
    publish(&mut world);
    world.facts = Some(refused_by_a_database(Some(version(2))));
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    assert!(refused.message.contains("it runs version 1, outside the new window [2, 2]"), "{refused}");
    for agent in world.agents.values_mut() {
        agent.report.probed = Some(version(2));
    }
    publish(&mut world);
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(window(&world), Some((2, 2)), "version 1 is not admitted again");
}

/// The store was reconciled with the database alone, before an instance that was away came back.
#[test]
fn acknowledged_database_still_bounds_a_later_floor() {
    let mut world = blank_in_mid_roll();
    let word = Reconciliation {
        terms: BTreeSet::from(["elsewhere".parse().unwrap()]),
        revision: Revision(900),
        floors: BTreeMap::new(),
        ..reconciled()
    };
    world.store.put(Key::Reconciliation, word);
    let later = planned(&world, refused_by_a_database(Some(version(2))));
    assert!(later.databases.is_empty() && !later.witnesses.is_empty(), "{later:?}");
    assert_eq!(later.windows[0].then, Some((version(2), version(2))));
}
