//! What a contracted schema requires of a service that shares it holds for that service's own upgrades.

use crate::sim::{World, node, release, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::{self, Asker, Refusal};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase};
use tidegate_proto::record::window::Window;
use tidegate_proto::{Commit, Key, Revision, ServiceVersion, Value};

/// Every instance runs version 2 and the floor is in effect: it is in remove.
fn in_remove() -> World {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    while world.phase() != Phase::Remove {
        world.turn();
        world.agents_step();
    }
    world
}

fn roll_back(world: &World) -> Result<Commit, Refusal> {
    let asker = Asker { who: "op".into(), why: "regret".into(), accepts: Default::default() };
    ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker)
}

fn window(world: &World) -> (u32, u32) {
    let Value::Window(window) = &world.store.keys[&Key::Window(service())].0 else { panic!("no window") };
    (window.body.floor.get(), window.body.ceiling.get())
}

#[test]
fn rollback_below_contracted_version_is_refused() {
    let mut world = in_remove();
    assert!(roll_back(&world).is_ok());
    world.contract_elsewhere(2);
    let refused = roll_back(&world).unwrap_err();
    assert!(refused.message.contains("shares schema shared (upgrade elsewhere)"), "{refused}");
    assert!(refused.message.contains("requires version 2 or above"), "{refused}");
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn a_rollback_and_a_contract_of_another_upgrade_do_not_cross() {
    let mut world = in_remove();
    let asked = roll_back(&world).unwrap();
    world.contract_elsewhere(2);
    assert!(!world.store.commit(&asked), "the contract came first");
    assert_eq!(window(&world), (2, 2));
}

#[test]
fn unreadable_schema_record_blocks_rollback_below_floor() {
    let world = in_remove();
    let mut fleet = world.store.fleet().clone();
    let key = Key::Schema("shared".parse().unwrap());
    fleet.put(key.clone(), Value::decode(&key, b"garbage").map(|_| unreachable!()), Revision(9_999));
    let asker = Asker { who: "op".into(), why: "regret".into(), accepts: Default::default() };
    let refused = ask::roll_back(&fleet, &world.moment(), &upgrade_id(), &asker).unwrap_err();
    assert!(refused.message.contains("the record schemas/shared"), "{refused}");
}

#[test]
fn unreadable_window_blocks_rollback_except_in_preflight() {
    let roll_back = |world: &World| {
        let mut fleet = world.store.fleet().clone();
        let key = Key::Window(service());
        fleet.put(key.clone(), Value::decode(&key, b"garbage").map(|_| unreachable!()), Revision(9_999));
        let asker = Asker { who: "op".into(), why: "regret".into(), accepts: Default::default() };
        ask::roll_back(&fleet, &world.moment(), &upgrade_id(), &asker)
    };
    let refused = roll_back(&in_remove()).unwrap_err();
    assert!(refused.message.contains("the record windows/"), "{refused}");
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    assert_eq!(world.phase(), Phase::Preflight);
    assert!(roll_back(&world).is_ok(), "an upgrade in preflight has no window");
}

/// The store was restored to preflight after the roll, and reconciling raised the floor to what its agents had obeyed.
#[test]
fn preflight_ends_below_a_contracted_version() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    (0..3).for_each(|n| world.join(n, 2));
    let set_by = "reconciliation".parse().unwrap();
    let (floor, ceiling) = (release(2).version, ServiceVersion::MAX);
    world.store.put(Key::Window(service()), Window { floor, ceiling, set_by, contracted: None });
    world.contract_elsewhere(2);
    let last = world.run();
    assert_eq!(world.phase(), Phase::Preflight);
    let reasons = &last.waiting[&upgrade_id()];
    assert!(reasons.iter().any(|r| r.to_string().contains("`from` (1) may not run")), "{reasons:?}");
    let commit = roll_back(&world).unwrap();
    assert!(world.store.commit(&commit));
    assert!(matches!(world.phase(), Phase::Failed { .. }), "{:?}", world.phase());
    assert_eq!(world.versions(), [2; 3], "no instance is moved");
    assert_eq!(window(&world), (2, ServiceVersion::MAX.get()), "nothing admits version 1");
}

#[test]
fn nothing_is_started_from_below_it() {
    let mut world = World::at_version_1(3);
    world.contract_elsewhere(2);
    let refused = world.start(spec(json!({}))).unwrap_err();
    assert!(refused.message.contains("`from` (1) may not run"), "{refused}");
}

#[test]
fn a_rollback_above_it_does_not_open_the_window_below_it() {
    let mut world = World::at_version_1(0);
    for n in 0..3 {
        world.join(n, 2);
        world.agents.get_mut(&node(n)).unwrap().broken_at = Some(3);
    }
    let target = json!({"tag": release(3).tag, "sha256": release(3).sha256});
    world.start(spec(json!({"from": 2, "to": 3, "release": target, "min_in_service": 1}))).unwrap();
    while world.phase() != Phase::Stage {
        world.turn();
    }
    world.contract_elsewhere(2);
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
    assert_eq!(window(&world), (2, 2), "what was no window before would admit version 1");
}

#[test]
fn entering_contract_writes_down_what_it_requires() {
    let mut world = World::at_version_1(3);
    let schema = json!({"schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"}});
    world.start_with_schema(spec(schema), MigrateOrder::BeforeRoll);
    world.until("it contracts", |world| {
        let contracts = matches!(world.phase(), Phase::Contract { .. });
        let (Value::Schema(before), ..) = &world.store.keys[&Key::Schema("s1".parse().unwrap())] else {
            panic!()
        };
        assert!(contracts || before.body.contracted.is_empty(), "nothing is contracted yet");
        contracts
    });
    let (Value::Schema(record), at, _) = &world.store.keys[&Key::Schema("s1".parse().unwrap())] else {
        panic!()
    };
    assert_eq!(record.body.contracted, [(service(), release(2).version)].into());
    assert_eq!(*at, world.store.keys[&Key::Upgrade(upgrade_id())].1, "in the transaction that enters it");
}
