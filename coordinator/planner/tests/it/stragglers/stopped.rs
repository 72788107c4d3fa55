//! Instances on which nothing runs, because a start failed or their directive names nothing to start.

use super::{nothing_runs, one_is_decommissioned_in_roll};
use crate::sim::{World, node, release, service, spec};
use serde_json::json;
use tidegate_proto::record::report::{Health, Rotation, Step};
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::{Key, Value};

/// It was away until its wave was over. What ran there has ended, and its directive names only the new release, so that its
/// agent starts nothing.
#[test]
fn stopped_old_one_that_returns_in_remove_is_moved() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"max_unavailable": 1, "min_in_service": 1}))).unwrap();
    let last = one_is_decommissioned_in_roll(&mut world);
    world.until("remove", |world| world.phase() == Phase::Remove);
    let agent = world.agents.get_mut(&node(last)).unwrap();
    assert_eq!(agent.release, release(1));
    agent.alive = true;
    nothing_runs(&mut world, last, Step::Stopped, Health::Unhealthy).rotation = Rotation::Out;
    world.publish(&node(last));
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.versions(), [2; 3]);
}

/// Its start hook was begun and has failed, so that its agent knows the new release as the one that was started last.
#[test]
fn failed_start_is_replaced_in_a_rollback() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"max_unavailable": 1, "min_in_service": 1}))).unwrap();
    let started = |world: &World| (0..3).find(|n| world.agents[&node(*n)].release == release(2));
    world.until("one is started", |world| started(world).is_some());
    let failed = started(&world).unwrap();
    let step = Step::Failed { at: "starting".into(), reason: "the start hook failed".into() };
    nothing_runs(&mut world, failed, step, Health::Unhealthy).rotation = Rotation::Out;
    world.publish(&node(failed));
    world.roll_back();
    let last = world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}: {:?}", world.phase(), last.waiting);
    assert_eq!(world.versions(), [1; 3]);
}

/// As `tidegate-agent admit` does before a unit starts; its agent has not taken that admission in.
fn is_admitted_beside_its_agent(world: &mut World, n: usize, version: i64) {
    let key = Key::Inventory(service(), node(n));
    let Some((Value::Inventory(record), _, _)) = world.store.keys.get(&key).cloned() else {
        panic!("it was admitted")
    };
    let mut inventory = record.body;
    (inventory.version, inventory.release) = (release(version).version, Some(release(version).tag));
    world.store.put(key, inventory);
}

/// It was away until its wave was over, and what was admitted since does not answer. Its agent knows the old release alone,
/// which the window refuses.
#[test]
fn failed_one_admitted_beside_its_agent_is_moved() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"max_unavailable": 1, "min_in_service": 1}))).unwrap();
    let last = one_is_decommissioned_in_roll(&mut world);
    world.until("remove", |world| world.phase() == Phase::Remove);
    is_admitted_beside_its_agent(&mut world, last, 2);
    let agent = world.agents.get_mut(&node(last)).unwrap();
    assert_eq!(agent.release, release(1));
    (agent.alive, agent.unready) = (true, true);
    nothing_runs(&mut world, last, Step::Verifying, Health::Unknown);
    world.publish(&node(last));
    world.run();
    assert_eq!(world.phase(), Phase::Remove, "it may be on its way up");
    let agent = world.agents.get_mut(&node(last)).unwrap();
    (agent.unready, agent.ill_at) = (false, Some(1));
    let failed = Step::Failed { at: "verifying".into(), reason: "nothing listens".into() };
    nothing_runs(&mut world, last, failed, Health::Unhealthy);
    world.publish(&node(last));
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.versions(), [2; 3]);
}
