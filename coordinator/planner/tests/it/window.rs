//! A window that a person sets.

use crate::sim::{World, node, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::{Asker, Refusal, WindowRequest, set_window};
use tidegate_planner::gate::preflight;
use tidegate_proto::record::window::Window;
use tidegate_proto::{Key, Revision, ServiceVersion, TermId};

fn version(n: i64) -> ServiceVersion {
    ServiceVersion::new(n).unwrap()
}

fn asked(world: &World, floor: i64, ceiling: i64) -> Result<tidegate_proto::Commit, Refusal> {
    let asker = Asker { who: "op".into(), why: "after reconcile".into(), accepts: Default::default() };
    let request = WindowRequest { service: service(), floor: version(floor), ceiling: version(ceiling) };
    set_window(world.store.fleet(), &world.moment(), &request, &asker)
}

fn set(world: &mut World, floor: i64, ceiling: i64) {
    let commit = asked(world, floor, ceiling).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
}

fn why_not(world: &World, floor: i64, ceiling: i64) -> String {
    asked(world, floor, ceiling).unwrap_err().message
}

/// A window as a reconciliation leaves it.
fn after_reconcile() -> World {
    let mut world = World::at_version_1(3);
    let body = Window {
        floor: version(1),
        ceiling: version(2),
        set_by: "reconciliation".parse().unwrap(),
        contracted: None,
    };
    world.store.put(Key::Window(service()), body);
    world
}

#[test]
fn window_left_by_reconciliation_is_closed_for_next_upgrade() {
    let mut world = after_reconcile();
    let blocks = |world: &World| {
        let found = preflight::findings(world.store.fleet(), &spec(json!({"min_in_service": 1})), None);
        found.into_iter().filter(|found| found.blocks).map(|found| found.what).collect::<Vec<_>>()
    };
    assert!(blocks(&world).is_empty(), "the upgrade that was cut off may go on: {:?}", blocks(&world));
    let next = json!({"from": 2, "to": 3, "release": {"tag": "pantry-3.0.0", "sha256": "0".repeat(64)}});
    let found = preflight::findings(world.store.fleet(), &spec(next), None);
    let found: Vec<String> = found.into_iter().map(|found| found.what).collect();
    assert!(found.iter().any(|what| what.contains("tidegate fleet window pantry-api")), "{found:?}");
    set(&mut world, 1, 1);
    assert!(blocks(&world).is_empty(), "{:?}", blocks(&world));
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    world.run();
    assert_eq!(world.phase().name().word(), "completed");
}

#[test]
fn instance_outside_refuses_also_where_it_is_silent() {
    let mut world = after_reconcile();
    assert!(why_not(&world, 2, 2).contains("pantry-api/n0 runs version 1"), "{}", why_not(&world, 2, 2));
    world.fall_silent(0);
    assert!(why_not(&world, 2, 2).contains("it is silent"), "{}", why_not(&world, 2, 2));
    world.agents.get_mut(&node(1)).unwrap().report.probed = Some(version(3));
    world.agents.get_mut(&node(1)).unwrap().report.version = None;
    world.publish(&node(1));
    assert!(why_not(&world, 1, 1).contains("pantry-api/n1 runs version 3"), "{}", why_not(&world, 1, 1));
}

#[test]
fn active_or_paused_upgrade_refuses() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    assert!(why_not(&world, 1, 2).contains("upgrade u1 of it is active or paused"));
}

#[test]
fn contracted_schema_and_needed_floor_refuse_to_lower() {
    let mut world = after_reconcile();
    world.contract_elsewhere(1);
    set(&mut world, 1, 1);
    world.contract_elsewhere(2);
    assert!(why_not(&world, 1, 2).contains("whose contracted form requires version 2"));
}

#[test]
fn contradicted_store_and_unsupported_claim_refuse() {
    let mut world = after_reconcile();
    let stranger: TermId = "elsewhere".parse().unwrap();
    world.agents.get_mut(&node(0)).unwrap().report.witness.term = Some(stranger.clone());
    world.publish(&node(0));
    assert!(why_not(&world, 1, 1).contains("tidegate fleet reconcile"), "{}", why_not(&world, 1, 1));
    world.agents.get_mut(&node(1)).unwrap().report.witness.term = Some(stranger);
    world.publish(&node(1));
    assert!(why_not(&world, 1, 1).contains("no step is taken until"), "{}", why_not(&world, 1, 1));
}

#[test]
fn admission_or_upgrade_in_between_makes_it_fail() {
    let mut world = after_reconcile();
    let commit = asked(&world, 1, 1).unwrap();
    world.admit(&node(2));
    assert!(!world.store.clone().commit(&commit), "an instance was admitted meanwhile");
    let mut world = after_reconcile();
    set(&mut world, 1, 1);
    let commit = asked(&world, 1, 3).unwrap();
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    assert!(!world.store.commit(&commit), "upgrade {} began meanwhile", upgrade_id());
    assert_ne!(world.store.fleet().service(&service()).unwrap().window_at(), Revision::ABSENT);
}

/// It reports under its former admission: none is put.
#[test]
fn decommissioned_one_that_reports_in_between_makes_it_fail() {
    let mut world = after_reconcile();
    world.fall_silent(2);
    world.decommission(2);
    let commit = asked(&world, 1, 1).unwrap();
    world.agents.get_mut(&node(2)).unwrap().alive = true;
    world.publish(&node(2));
    assert!(!world.store.commit(&commit), "it counts again");
}

#[test]
fn reason_is_demanded_and_floor_is_not_above_ceiling() {
    let world = after_reconcile();
    assert!(why_not(&world, 3, 2).contains("the floor 3 is above the ceiling 2"));
    let asker = Asker { who: "op".into(), why: " ".into(), accepts: Default::default() };
    let request = WindowRequest { service: service(), floor: version(1), ceiling: version(1) };
    assert!(set_window(world.store.fleet(), &world.moment(), &request, &asker).is_err());
}

#[test]
fn unreadable_record_of_an_instance_is_named() {
    let mut world = after_reconcile();
    let key = Key::Directive(service(), node(2));
    world.store.spoil(&key);
    let why = why_not(&world, 1, 1);
    assert!(
        why.contains(&format!("n2 runs an unknown version, because the record {key} is not UTF-8")),
        "{why}"
    );
}
