//! The floor of storage that no upgrade bounds follows what compute releases need (rule 8).

use super::fixture::{asker, commits, revision, stream, watched_floor};
use crate::sim::{World, node, release, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::gate::{VersionGate, Waits};
use tidegate_planner::{Reason, ask};
use tidegate_proto::record::reconciliation::Reconciliation;
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::record::window::Window;
use tidegate_proto::{Key, ServiceVersion, Value};

#[test]
fn watched_storage_floor_follows_highest_need() {
    let mut world = World::at_version_1(0);
    world.join(0, 3);
    world.join(1, 3);
    world.release(1, json!({"requires": {"pantry-api": 2}}));
    assert_eq!(watched_floor(&world), Some((2, true)), "the ceiling stays open");
    world.release(2, json!({"requires": {"pantry-api": 3}}));
    assert_eq!(watched_floor(&world), Some((3, true)));
    world.go_back(1).unwrap();
    assert!(world.admits(2) && !world.admits(1), "an older instance is not started");
    assert_eq!(watched_floor(&world), Some((2, true)), "in the commit that changes the needs");
    world.pin("c1", 2).unwrap();
    assert_eq!(watched_floor(&world), Some((3, true)));
    world.unpin("c1").unwrap();
    world.release(3, json!({}));
    assert_eq!(watched_floor(&world), Some((1, true)), "nothing is needed");
    world.create(4, json!({"requires": {"pantry-api": 4}})).unwrap();
    let waiting = world.settle();
    assert!(matches!(waiting[&5][0], Reason::Version(VersionGate::Behind { .. })), "{waiting:?}");
}

#[test]
fn window_that_moves_meanwhile_refuses_a_deploy_planned_before() {
    let mut world = World::at_version_1(0);
    world.join(0, 2);
    world.release(1, json!({"requires": {"pantry-api": 2}}));
    let held = world.store.keys[&Key::Window(service())].0.clone();
    world.create(2, json!({})).unwrap();
    let planned = commits(&world);
    world.store.put(Key::Window(service()), held);
    assert!(planned.iter().all(|commit| !world.store.commit(commit)), "the window is compared");
}

/// It reports under its former admission: none is put.
#[test]
fn decommissioned_instance_that_reports_voids_a_deploy() {
    let mut world = World::at_version_1(1);
    world.join(1, 2);
    world.fall_silent(0);
    world.decommission(0);
    world.create(1, json!({"requires": {"pantry-api": 2}})).unwrap();
    let planned = commits(&world);
    world.agents.get_mut(&node(0)).unwrap().alive = true;
    world.publish(&node(0));
    assert!(planned.iter().all(|commit| !world.store.commit(commit)), "it counts again");
    let waiting = world.settle();
    assert!(matches!(waiting[&1][0], Reason::Version(VersionGate::Behind { .. })), "{waiting:?}");
    assert_eq!(world.deployed(), None);
}

#[test]
fn needs_written_before_floors_followed_them_are_caught_up_with() {
    let mut world = World::at_version_1(0);
    world.join(0, 2);
    world.release(1, json!({"requires": {"pantry-api": 2}}));
    world.store.keys.remove(&Key::Window(service()));
    world.store.rebuild();
    assert_eq!(watched_floor(&world), None);
    world.settle();
    assert_eq!(watched_floor(&world), Some((2, true)));
}

fn version(number: i64) -> ServiceVersion {
    ServiceVersion::new(number).unwrap()
}

/// A fleet at version 2 that was never upgraded here: an upgrade to 3 is rolled back while a release needs version 2.
fn rolled_back_to_2() -> World {
    let mut world = World::at_version_1(0);
    (0..3).for_each(|n| world.join(n, 2));
    let target = json!({"tag": release(3).tag, "sha256": release(3).sha256});
    world.start(spec(json!({"from": 2, "to": 3, "release": target, "min_in_service": 1}))).unwrap();
    world.until_roll();
    world.release(1, json!({"requires": {"pantry-api": 2}}));
    let back =
        ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker("it is bad")).unwrap();
    assert!(world.store.commit(&back));
    world.events += 1;
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
    world
}

#[test]
fn floor_left_by_a_rollback_is_no_evidence_of_more_than_runs() {
    let mut world = rolled_back_to_2();
    assert_eq!(watched_floor(&world), Some((2, true)));
    world.create(2, json!({"requires": {"pantry-api": 3}})).unwrap();
    world.run_computes(&[("release-2", 1)]).unwrap();
    let waiting = world.settle();
    assert!(matches!(waiting[&2][0], Reason::Version(VersionGate::Behind { .. })), "{waiting:?}");
    assert_eq!(world.deployed(), Some(1), "every instance runs version 2");
}

#[test]
fn floor_left_by_a_rollback_falls_with_the_need() {
    let mut world = rolled_back_to_2();
    world.release(2, json!({}));
    assert_eq!(watched_floor(&world), Some((1, true)));
}

#[test]
fn floor_set_by_an_upgrade_is_raised_only_to_what_runs() {
    let mut world = World::at_version_1(0);
    (0..2).for_each(|n| world.join(n, 2));
    let set_by = "of-a-sharing-service".parse().unwrap();
    world
        .store
        .put(Key::Window(service()), Value::from(Window { floor: version(2), ..Window::open(set_by) }));
    world.create(1, json!({"requires": {"pantry-api": 3}})).unwrap();
    world.run_computes(&[("release-1", 1)]).unwrap();
    world.settle();
    assert_eq!((world.deployed(), watched_floor(&world)), (None, Some((2, true))));
    (0..2).for_each(|n| world.join(n, 3));
    world.settle();
    assert_eq!((world.deployed(), watched_floor(&world)), (Some(1), Some((3, true))));
}

/// The upgrade that set its floor, of a service that shares a schema, is over; another tool has moved it since.
#[test]
fn release_names_what_raises_a_floor_below_all_that_runs() {
    let mut world = World::at_version_1(0);
    (0..2).for_each(|n| world.join(n, 3));
    let window = Window { floor: version(2), ..Window::open("of-a-sharing-service".parse().unwrap()) };
    world.store.put(Key::Window(service()), Value::from(window));
    world.create(1, json!({"requires": {"pantry-api": 3}})).unwrap();
    let waiting = world.settle();
    let [reason] = waiting[&1].as_slice() else { panic!("{waiting:?}") };
    let explained = reason.explained(Waits::Release(&stream(), revision(1)));
    let ceiling = ServiceVersion::MAX;
    let command = format!("tidegate fleet window pantry-api --floor 3 --ceiling {ceiling} --why …");
    assert_eq!(explained.next_step, Some(command));
    let request = ask::WindowRequest { service: service(), floor: version(3), ceiling };
    let commit = ask::set_window(world.store.fleet(), &world.moment(), &request, &asker("advised")).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.settle();
    assert_eq!(world.deployed(), Some(1));
}

#[test]
fn waiting_release_of_a_running_tag_raises_no_need() {
    let mut world = World::at_version_1(0);
    world.join(0, 2);
    world.release(1, json!({"requires": {"pantry-api": 2}}));
    world.create(1, json!({"requires": {"pantry-api": 3}})).unwrap();
    world.run_computes(&[("release-1", 1)]).unwrap();
    world.settle();
    assert_eq!((world.need(), watched_floor(&world)), (Some(2), Some((2, true))));
    world.join(0, 3);
    world.settle();
    assert_eq!((world.deployed(), world.need()), (Some(2), Some(3)), "it went out");
    world.release(2, json!({}));
    assert_eq!(world.need(), Some(3), "computes still run the tag");
}

/// A store that was reconciled before any instance reported: the former one may have known some.
#[test]
fn floor_is_not_raised_before_an_instance_reports() {
    let mut world = World::at_version_1(0);
    let word = json!({"who": "test", "why": "the disk died", "at": 0, "terms": ["elsewhere"]});
    world.store.put(Key::Reconciliation, serde_json::from_value::<Reconciliation>(word).unwrap());
    world.create(1, json!({"requires": {"pantry-api": 3}})).unwrap();
    world.run_computes(&[("release-1", 1)]).unwrap();
    world.settle();
    assert_eq!((world.need(), watched_floor(&world)), (Some(3), None), "no plan could include version 2");
    world.join(0, 3);
    world.settle();
    assert_eq!(watched_floor(&world), Some((3, true)));
}
