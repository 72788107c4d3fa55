//! Rollbacks beside a reconciliation, and on a store that agents contradict.

use super::contracted::{reconciled, with_schema};
use super::disregarded::next_steps;
use super::{apply, asker, disregard, elect, include, publish, testify, version, window};
use crate::sim::{World, node, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::reconcile::Choices;
use tidegate_planner::gate::StoreGate;
use tidegate_planner::{Action, Reason, SchemaFacts, SchemaJob, ask, plan};
use tidegate_proto::record::reconciliation::Reconciliation;
use tidegate_proto::record::report::Witness;
use tidegate_proto::record::upgrade::{MigrateOrder, Phase, RollbackStep};
use tidegate_proto::record::window::Window;
use tidegate_proto::{Key, Revision};

/// An agent that reports late may have obeyed the floor of a roll that the restored store does not know.
#[test]
fn floor_raised_in_a_rollback_is_withdrawn_again() {
    for stands_at in [RollbackStep::Restage, RollbackStep::Move, RollbackStep::Lower] {
        let mut world = World::at_version_1(3);
        elect(&mut world, 1);
        world.start(spec(json!({"min_in_service": 2}))).unwrap();
        world.until("all are new", |world| world.versions().iter().all(|v| *v == 2));
        let commit = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker()).unwrap();
        assert!(world.store.commit(&commit));
        world.events += 1;
        let is_there = |phase: Phase| matches!(phase, Phase::RollingBack { step, .. } if step == stands_at);
        world.until("it is there", |world| is_there(world.phase()));
        let by = "reconciliation".parse().unwrap();
        world.store.put(
            Key::Window(service()),
            Window { floor: version(2), ceiling: version(2), set_by: by, contracted: None },
        );
        let last = world.run();
        assert_eq!(world.phase().name().word(), "rolled-back", "{stands_at:?}: {:?}", last.waiting);
        assert_eq!(world.versions(), [1, 1, 1]);
    }
}

/// A rollback that a person asks for moves instances on a contradicted store, and leaves the schema alone.
#[test]
fn contradicted_store_still_lets_instances_be_rolled_back() {
    let mut world = World::at_version_1(4);
    elect(&mut world, 1);
    world.start(spec(json!({"min_in_service": 2}))).unwrap();
    world.until("two are new", |world| world.versions().iter().filter(|v| **v == 2).count() >= 2);
    let stranger = ("elsewhere".parse().unwrap(), Revision(5));
    world.facts = Some(SchemaFacts { obeyed: Some(stranger), clean: false, ..SchemaFacts::default() });
    let (changed, _) = world.turn();
    assert!(!changed, "nothing acts by itself");
    let commit = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker()).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.min_seen_in_service = usize::MAX;
    world.run();
    assert_eq!(world.versions(), [1, 1, 1, 1]);
    assert!(world.min_seen_in_service >= 2);
    let waiting = &plan(world.store.fleet(), &world.moment()).waiting[&upgrade_id()];
    assert!(
        waiting.iter().any(|r| matches!(r, Reason::Store(StoreGate::Restored { .. }))),
        "what follows waits: {waiting:?}"
    );
    assert!(!matches!(world.phase(), Phase::RolledBack { .. }));
}

#[test]
fn contradicted_store_refuses_a_rollback_below_an_obeyed_floor() {
    let mut world = World::at_version_1(3);
    elect(&mut world, 1);
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    world.until_roll();
    for n in [node(0), node(1)] {
        let report = &mut world.agents.get_mut(&n).unwrap().report;
        report.witness = Witness {
            term: Some("later".parse().unwrap()),
            floor: Some(version(2)),
            reconciled: Revision::ABSENT,
        };
        world.publish(&n);
    }
    let refused = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker()).unwrap_err();
    assert!(refused.message.contains("obeyed a floor of 2"), "{refused}");
}

/// The store is restored to remove, and the former one had rolled the upgrade back.
fn rolled_back_after_the_backup() -> World {
    let mut world = World::at_version_1(3);
    elect(&mut world, 1);
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    world.until("it removes", |world| world.phase() == Phase::Remove);
    loses_its_rollback(&mut world);
    world
}

fn loses_its_rollback(world: &mut World) {
    let backup = world.store.clone();
    world.roll_back();
    let serve = |world: &World| world.really_in_service() == 3;
    world.until("all are back", |world| world.versions().iter().all(|v| *v == 1) && serve(world));
    testify(world);
    world.store = backup;
    publish(world);
    elect(world, 9);
    assert_eq!((world.phase(), window(world)), (Phase::Remove, Some((2, 2))));
}

#[test]
fn refused_plan_names_the_rollback_that_the_store_lost() {
    let mut world = rolled_back_after_the_backup();
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    let first = "n0: it runs version 1, outside the new window [2, 2]; if upgrade u1 was rolled back in the \
                 former store, roll it back first: `tidegate upgrade rollback u1 --why …`";
    assert!(refused.message.contains(first), "{refused}");
    world.roll_back();
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(window(&world), Some((1, 2)), "it admits what runs");
    let last = world.run();
    assert_eq!(world.phase().name().word(), "rolled-back", "{:?}", last.waiting);
    assert_eq!(world.versions(), [1, 1, 1]);
}

/// The upgrade is older than an earlier reconciliation, so no rollback begins before its database was seen.
#[test]
fn lost_rollback_is_named_once_the_database_was_seen() {
    let mut world = World::at_version_1(3);
    elect(&mut world, 1);
    world.start_with_schema(with_schema(), MigrateOrder::BeforeRoll);
    world.until("it removes", |world| world.phase() == Phase::Remove);
    let earlier = Reconciliation { floors: [(service(), version(1))].into(), ..reconciled() };
    world.store.put(Key::Reconciliation, earlier);
    loses_its_rollback(&mut world);
    world.facts = None;
    let unseen = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker()).unwrap_err();
    assert!(unseen.message.contains("was not seen since"), "{unseen}");
    let (_, held) = world.turn();
    let is_look = |action: &Action| matches!(action, Action::Schema { job: SchemaJob::Look, .. });
    assert!(held.actions.len() == 1 && held.actions.iter().all(is_look), "{:?}", held.actions);
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    assert!(refused.message.contains("`tidegate upgrade rollback u1 --why …`"), "{refused}");
    assert!(plan(world.store.fleet(), &world.moment()).actions.is_empty(), "one look is enough");
    world.roll_back();
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(window(&world), Some((1, 2)), "it admits what runs");
    let last = world.run();
    assert_eq!(world.phase().name().word(), "rolled-back", "{:?}", last.waiting);
    assert_eq!(world.versions(), [1, 1, 1]);
}

#[test]
fn refused_plan_names_no_rollback_below_an_obeyed_floor() {
    let mut world = rolled_back_after_the_backup();
    world.agents.get_mut(&node(0)).unwrap().report.witness.floor = Some(version(2));
    world.publish(&node(0));
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    assert!(refused.message.contains("outside the new window [2, 2]"), "{refused}");
    assert!(!refused.message.contains("upgrade rollback"), "{refused}");
    let barred = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker()).unwrap_err();
    assert!(barred.message.contains("obeyed a floor of 2"), "{barred}");
}

const DECOMMISSION: &str = "tidegate fleet decommission pantry-api/n0 --why … --stopped-how …";

/// A plan that includes them is refused until the rollback has withdrawn the floor.
#[test]
fn disregarded_instances_are_included_after_a_rollback() {
    let mut world = rolled_back_after_the_backup();
    apply(&mut world, &disregard(&[0, 1, 2])).unwrap();
    apply(&mut world, &include(&[0, 1, 2])).unwrap_err();
    assert_eq!(next_steps(&world), [format!("tidegate upgrade rollback u1 --why …, or {DECOMMISSION}")]);
    world.roll_back();
    assert_eq!(next_steps(&world), ["tidegate fleet reconcile --include pantry-api/n0"]);
    apply(&mut world, &include(&[0, 1, 2])).unwrap();
    let last = world.run();
    assert_eq!(world.phase().name().word(), "rolled-back", "{:?}", last.waiting);
    assert_eq!(world.versions(), [1, 1, 1]);
}

#[test]
fn disregarded_instances_name_no_rollback_below_a_floor() {
    let mut world = rolled_back_after_the_backup();
    let report = &mut world.agents.get_mut(&node(2)).unwrap().report;
    (report.version, report.witness.floor) = (Some(version(2)), Some(version(2)));
    world.publish(&node(2));
    apply(&mut world, &disregard(&[0, 1])).unwrap();
    assert_eq!(next_steps(&world), [DECOMMISSION], "the claim of n2 was applied");
}
