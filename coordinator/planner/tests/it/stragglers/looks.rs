//! When the database is looked at for an instance that is to be moved after the last wave.

use crate::sim::{World, node, release, spec};
use serde_json::json;
use tidegate_planner::{Reason, SchemaJob};
use tidegate_proto::record::report::Step;
use tidegate_proto::record::upgrade::MigrateOrder;

/// A person puts the former version back, in rotation.
fn put_back(world: &mut World, n: usize) {
    let agent = world.agents.get_mut(&node(n)).unwrap();
    agent.release = release(1);
    agent.report.version = Some(release(1).version);
    agent.report.step = Step::Refused { reason: "outside the window".into() };
    world.publish(&node(n));
}

/// The job of the phase looks by itself before it begins. On a big table that takes longer than a look holds, and another look
/// would end the job each time.
#[test]
fn straggler_held_by_capacity_does_not_hold_the_fill() {
    let change = json!({
        "schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"},
        "max_unavailable": 1, "min_in_service": 1,
    });
    let mut world = World::at_version_1(3);
    world.start_with_schema(spec(change), MigrateOrder::AfterRoll);
    world.until("migrate", |world| world.phase().name().word() == "migrate");
    world.fall_silent(1);
    put_back(&mut world, 2);
    world.turn();
    assert_eq!(world.jobs.last(), Some(&SchemaJob::Look));
    world.leading_ms += 60_000;
    let (_, held) = world.turn();
    assert_eq!(world.jobs.last(), Some(&SchemaJob::Migrate), "{:?}", held.waiting);
    let is_named = |reason: &Reason| reason.kind() == "capacity";
    assert!(held.waiting.values().flatten().any(is_named), "{:?}", held.waiting);

    world.leading_ms += 60_000;
    world.agents.get_mut(&node(1)).unwrap().alive = true;
    world.publish(&node(1));
    world.turn();
    assert_eq!((world.jobs.last(), world.versions()), (Some(&SchemaJob::Look), vec![2, 2, 1]));
    let last = world.run();
    assert_eq!(world.versions(), [2; 3], "{:?}", last.waiting);
}

/// Its drain lasts for longer than a look holds, and an older copy takes the place of the database meanwhile.
#[test]
fn drained_straggler_is_not_replaced_on_an_old_look() {
    let change = json!({
        "schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"},
        "max_unavailable": 1, "min_in_service": 1, "approvals": ["contract"],
    });
    let mut world = World::at_version_1(3);
    world.start_with_schema(spec(change), MigrateOrder::BeforeRoll);
    world.until("remove", |world| world.phase().name().word() == "remove");
    world.run();
    put_back(&mut world, 2);
    let step = |world: &World| world.agents[&node(2)].report.step.clone();
    world.until("it is drained", |world| matches!(step(world), Step::Drained { .. }));
    let migrated = std::mem::take(&mut world.database);
    world.leading_ms += 60_000;
    let held = world.run();
    assert_eq!(world.versions(), [2, 2, 1], "{:?}", held.waiting);
    let is_lost = |reason: &Reason| reason.kind() == "schema-lost";
    assert!(held.waiting.values().flatten().any(is_lost), "{:?}", held.waiting);
    world.database = migrated;
    let last = world.run();
    assert_eq!(world.versions(), [2; 3], "{:?}", last.waiting);
}
