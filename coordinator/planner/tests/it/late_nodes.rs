//! Nodes that are silent, late, too old or too new close gates; they are never assumed gone.

use crate::sim::{World, node, release, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::{self, Asker};
use tidegate_planner::fleet::Known;
use tidegate_planner::gate::{SchemaGate, VersionGate};
use tidegate_planner::{Reason, Sample};
use tidegate_proto::record::report::{Health, Rotation, Step};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase};
use tidegate_proto::record::waves::PAGE_MEMBERS;
use tidegate_proto::record::window::Window;
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::{Commit, InstanceId, Key, NodeId, Value};

fn asker(why: &str) -> Asker {
    Asker { who: "op".into(), why: why.into(), accepts: Default::default() }
}

#[test]
fn silent_instance_blocks_until_decommissioned() {
    let mut world = World::at_version_1(4);
    world.start(spec(json!({"min_in_service": 1, "max_unavailable": 2}))).unwrap();
    world.until_roll();
    world.fall_silent(3);
    let last = world.run();
    assert!(matches!(world.phase(), Phase::Roll { .. }));
    let reasons = &last.waiting[&upgrade_id()];
    assert!(
        reasons.iter().any(
            |r| matches!(r, Reason::Version(VersionGate::Silent { nodes, .. }) if nodes.first == [node(3)])
        ),
        "{reasons:?}"
    );

    let id = InstanceId::new(service(), node(3));
    let refused = ask::decommission(
        world.store.fleet(),
        &world.moment(),
        &id,
        Default::default(),
        &asker("burnt down"),
    )
    .unwrap_err();
    assert!(refused.message.contains("--stopped-how"), "{refused}");
    let commit = ask::decommission(
        world.store.fleet(),
        &world.moment(),
        &id,
        ask::Gone { stopped_how: Some("power is off".into()), ..Default::default() },
        &asker("burnt down"),
    )
    .unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

/// Its program may still use what the undo at the end of the rollback removes.
/// An upgrade with a schema, and the instance that serves the new version.
fn with_one_at_the_new_version() -> (World, usize) {
    let mut world = World::at_version_1(3);
    let schema = json!({"database": {"from_env": "PANTRY"}, "migrations": "pantry"});
    let change = json!({"min_in_service": 1, "schema": schema});
    world.start_with_schema(spec(change), MigrateOrder::BeforeRoll);
    let serves_new = |world: &World, n: usize| {
        let pantry = world.store.fleet().service(&service()).unwrap();
        pantry.get(&node(n)).unwrap().serves(&release(2))
    };
    world.until("one serves the new version", |world| (0..3).any(|n| serves_new(world, n)));
    let moved = (0..3).find(|n| serves_new(&world, *n)).unwrap();
    (world, moved)
}

#[test]
fn one_left_above_a_rollback_is_decommissioned_with_how() {
    let (mut world, moved) = with_one_at_the_new_version();
    world.roll_back();
    world.fall_silent(moved);
    let id = InstanceId::new(service(), node(moved));
    let ask_it = |how| ask::decommission(world.store.fleet(), &world.moment(), &id, how, &asker("burnt"));
    let refused = ask_it(ask::Gone::default()).unwrap_err();
    assert!(refused.message.contains("upgrade u1 goes back to 1, and undoes what expand made"), "{refused}");
    let told = ask::Gone { stopped_how: Some("power is off".into()), ..Default::default() };
    assert!(ask_it(told).is_ok(), "a person says that it was stopped");
}

/// It was decommissioned before the rollback, when no statement was demanded of an instance at the new version.
#[test]
fn undo_waits_for_how_decommissioned_one_was_stopped() {
    let (mut world, moved) = with_one_at_the_new_version();
    world.fall_silent(moved);
    let (id, gone) = (InstanceId::new(service(), node(moved)), ask::Gone::default());
    let commit = ask::decommission(world.store.fleet(), &world.moment(), &id, gone, &asker("burnt")).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.roll_back();
    let last = world.run();
    assert!(matches!(world.phase(), Phase::RollingBack { .. }), "{:?}", world.phase());
    assert!(world.database.expanded, "it may run the new version");
    let nodes = Sample { first: vec![node(moved)], count: 1 };
    let unfenced = Reason::Schema(SchemaGate::Unfenced { service: service(), nodes });
    assert!(last.waiting[&upgrade_id()].contains(&unfenced), "{:?}", last.waiting);
    world.decommission(moved);
    let last = world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", last.waiting);
    assert!(!world.database.expanded);
}

#[test]
fn decommissioning_one_that_reports_is_refused() {
    let world = World::at_version_1(2);
    let id = InstanceId::new(service(), node(1));
    let refused = ask::decommission(
        world.store.fleet(),
        &world.moment(),
        &id,
        ask::Gone { stopped_how: Some("x".into()), ..Default::default() },
        &asker("x"),
    )
    .unwrap_err();
    assert!(refused.message.contains("reports: it is not gone"), "{refused}");
}

#[test]
fn a_later_admission_voids_the_tombstone() {
    let mut world = World::at_version_1(2);
    world.fall_silent(1);
    let id = InstanceId::new(service(), node(1));
    let commit =
        ask::decommission(world.store.fleet(), &world.moment(), &id, Default::default(), &asker("gone"))
            .unwrap();
    assert!(world.store.commit(&commit));
    assert_eq!(world.store.fleet().service(&service()).unwrap().len(), 1);
    world.agents.get_mut(&node(1)).unwrap().alive = true;
    assert!(world.admit(&node(1)));
    let fleet = world.store.fleet();
    assert_eq!(fleet.service(&service()).unwrap().len(), 2);
    assert_eq!(fleet.service(&service()).unwrap().spread().silent, 1);
}

/// A word that a person gave once does not cover a later silence.
#[test]
fn decommissioned_one_that_reported_again_is_silent_later() {
    let mut world = World::at_version_1(2);
    world.fall_silent(1);
    let id = InstanceId::new(service(), node(1));
    let commit =
        ask::decommission(world.store.fleet(), &world.moment(), &id, Default::default(), &asker("gone"))
            .unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.agents.get_mut(&node(1)).unwrap().alive = true;
    world.publish(&node(1));
    world.run();
    world.fall_silent(1);
    let fleet = world.store.fleet().service(&service()).unwrap();
    assert_eq!((fleet.len(), fleet.spread().silent), (2, 1));
}

/// It was drained, decommissioned, and is refused under its new lease: it names its former admission.
#[test]
fn refused_instance_returning_drained_blocks_unserved() {
    let mut world = World::at_version_1(2);
    world.fall_silent(1);
    let id = InstanceId::new(service(), node(1));
    let commit =
        ask::decommission(world.store.fleet(), &world.moment(), &id, Default::default(), &asker("gone"))
            .unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    let floor = Window {
        floor: crate::sim::release(2).version,
        ceiling: crate::sim::release(2).version,
        set_by: "compute-releases".parse().unwrap(),
        contracted: None,
    };
    assert!(world.store.commit(&Commit::new().put(Key::Window(service()), floor)));
    let agent = world.agents.get_mut(&node(1)).unwrap();
    agent.alive = true;
    (agent.report.step, agent.report.rotation) = (Step::Drained { forced: false }, Rotation::Out);
    world.publish(&node(1));
    world.run();
    let is_there = |world: &World| {
        let instance = world.store.fleet().service(&service()).unwrap().get(&node(1)).unwrap().clone();
        (instance.decommission.is_some(), instance.is_in_service(), instance.known())
    };
    assert_eq!(is_there(&world), (false, false, Known::At(crate::sim::release(1).version)));
    assert_eq!(
        world.store.fleet().service(&service()).unwrap().below(crate::sim::release(2).version).count,
        2
    );
    world.fall_silent(1);
    assert_eq!(is_there(&world), (false, false, Known::Silent));
}

#[test]
fn instance_joining_below_during_roll_joins_last_wave() {
    let mut world = World::at_version_1(4);
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    world.until_roll();
    world.join(9, 1);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.versions(), [2; 5]);
    let upgrade = world.store.fleet().upgrade(&crate::sim::upgrade_id()).unwrap();
    assert_eq!(upgrade.done, 5, "the one that joined is counted at the end");
}

#[test]
fn old_instance_that_returns_after_the_end_is_refused() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    world.agents.get_mut(&node(0)).unwrap().release = crate::sim::release(1);
    assert!(!world.admit(&node(0)), "floor 2 refuses version 1");
    world.agents.get_mut(&node(0)).unwrap().release = crate::sim::release(3);
    assert!(!world.admit(&node(0)), "ceiling 2 refuses version 3");
}

/// Two pages become one, and the last wave none: what the second page said does not hold any more.
#[test]
fn instance_drawn_again_is_in_no_former_page() {
    let mut world = World::at_version_1(PAGE_MEMBERS + 1);
    let steps = json!([1, 1, PAGE_MEMBERS - 2, "rest"]);
    let asked =
        json!({"strategy": {"canary": {"steps": steps}}, "min_in_service": 1, "max_unavailable": "90%"});
    world.start(spec(asked)).unwrap();
    world.until_roll();
    assert_eq!(world.store.fleet().wave_pages(&upgrade_id()).count(), 2);
    let second = (0..=PAGE_MEMBERS)
        .find(|n| world.store.fleet().service(&service()).unwrap().get(&node(*n)).unwrap().wave == Some(1));
    let second = second.expect("an instance is in the second wave");
    world.fall_silent(second);
    let id = InstanceId::new(service(), node(second));
    let fleet = world.store.fleet();
    let commit = ask::decommission(
        fleet,
        &world.moment(),
        &id,
        ask::Gone { stopped_how: Some("off".into()), ..Default::default() },
        &asker("gone"),
    )
    .unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.upgrade().unwrap().waves.as_ref().unwrap().sizes, [1, 1, PAGE_MEMBERS as u32 - 2]);
    assert_eq!(world.store.fleet().wave_pages(&upgrade_id()).count(), 1);
}

/// One instance, all of the budget, in the first wave; and one in a later one.
fn with_one_in_a_later_wave() -> (World, NodeId) {
    let mut world = World::at_version_1(2);
    world.start(spec(json!({"min_in_service": 0, "max_unavailable": 1}))).unwrap();
    world.until_roll();
    let drawn = |n: &NodeId| {
        let fleet = world.store.fleet();
        fleet.service(&service()).unwrap().get(n).unwrap().wave
    };
    let later = [0, 1].map(node).into_iter().find(|n| drawn(n) == Some(1)).unwrap();
    (world, later)
}

/// The one in the later wave came with version 2 and failed there.
fn with_a_failed_newcomer() -> World {
    let (mut world, later) = with_one_in_a_later_wave();
    world.return_with(&later, 2);
    let agent = world.agents.get_mut(&later).unwrap();
    agent.report.step = Step::Failed { at: "verifying".into(), reason: "not healthy within 30 s".into() };
    (agent.report.rotation, agent.report.health) = (Rotation::Out, Health::Unhealthy);
    world.publish(&later);
    world
}

/// Its agent started what was admitted last while it could not reach the store, whose window does not admit that any more.
#[test]
fn one_serving_outside_the_window_is_replaced_before_its_wave() {
    let (mut world, later) = with_one_in_a_later_wave();
    let key = Key::Window(service());
    let Some((Value::Window(stored), ..)) = world.store.keys.get(&key).cloned() else { panic!() };
    world.store.put(key.clone(), Window { ceiling: release(3).version, ..stored.body.clone() });
    world.return_with(&later, 3);
    world.store.put(key, stored.body);
    let agent = world.agents.get_mut(&later).unwrap();
    agent.report.step = Step::Refused { reason: "outside the window".into() };
    agent.idle = None;
    world.publish(&later);
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.versions(), [2, 2]);
}

#[test]
fn failed_instance_at_new_version_is_replaced_before_wave() {
    let mut world = with_a_failed_newcomer();
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.versions(), [2, 2]);
}

/// That newcomer.
fn later(world: &World) -> NodeId {
    [0, 1].map(node).into_iter().find(|n| world.agents[n].report.rotation == Rotation::Out).unwrap()
}

/// The release that its agent would start is below the window: it came back from before the last upgrade.
#[test]
fn refused_instance_that_is_out_is_replaced_before_its_wave() {
    let mut world = with_a_failed_newcomer();
    let later = later(&world);
    let report = &mut world.agents.get_mut(&later).unwrap().report;
    (report.version, report.release, report.release_digest) = (None, None, None);
    report.step = Step::Refused { reason: "outside the window".into() };
    world.publish(&later);
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.versions(), [2, 2]);
}

#[test]
fn instance_that_never_served_is_replaced_before_its_wave() {
    let mut world = with_a_failed_newcomer();
    let later = later(&world);
    assert!(world.store.commit(&Commit::new().delete(Key::Inventory(service(), later.clone()))));
    let report = &mut world.agents.get_mut(&later).unwrap().report;
    (report.version, report.release, report.release_digest) = (None, None, None);
    (report.step, report.health, report.rotation) = (Step::Starting, Health::Unknown, Rotation::Unknown);
    world.publish(&later);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.versions(), [2, 2]);
}

/// It counts from its first report on, under its former admission: no transaction raises the floor over it.
#[test]
fn decommissioned_one_that_reports_voids_the_raised_floor() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"min_in_service": 1, "approvals": ["remove"]}))).unwrap();
    world.until_roll();
    world.fall_silent(2);
    world.decommission(2);
    world.run();
    let (fleet, moment) = (world.store.fleet(), world.moment());
    let word = ask::approve(fleet, &moment, &upgrade_id(), ApprovalPoint::Remove, &asker("ok")).unwrap();
    assert!(world.store.commit(&word));
    world.events += 1;
    let planned = tidegate_planner::plan(world.store.fleet(), &world.moment());
    world.agents.get_mut(&node(2)).unwrap().alive = true;
    world.publish(&node(2));
    world.refuses_late(planned, "roll ->");
    world.run();
    assert_eq!((world.phase(), world.versions()), (Phase::Completed, vec![2; 3]), "it is moved first");
}
