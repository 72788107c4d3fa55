//! Instances on which nothing runs, because a start failed or their directive names nothing to start.

use super::{nothing_runs, one_is_decommissioned_in_roll};
use crate::sim::{World, node, release, service, spec};
use serde_json::json;
use tidegate_proto::record::report::{Fault, Health, Rotation, Step};
use tidegate_proto::record::upgrade::{Phase, RollbackStep};
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

/// A person had put the former version in place of the new release. Its machine starts the new one, which the window refuses
/// as the ceiling is lowered; its agent is ordered to serve, and starts nothing.
fn with_a_refused_release_under_the_former_version() -> (World, usize) {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"max_unavailable": 1, "min_in_service": 1}))).unwrap();
    let n = one_is_decommissioned_in_roll(&mut world);
    world.roll_back();
    let is_lowering =
        |world: &World| matches!(world.phase(), Phase::RollingBack { step: RollbackStep::Lower, .. });
    world.until("the ceiling is lowered", is_lowering);
    let agent = world.agents.get_mut(&node(n)).unwrap();
    assert_eq!(agent.release, release(1));
    (agent.alive, agent.unready) = (true, true);
    agent.report.identity.boot = "the next boot".into();
    nothing_runs(&mut world, n, Step::Verifying, Health::Unknown);
    world.publish(&node(n));
    world.run();
    assert!(is_lowering(&world), "it may be on its way up");
    world.agents.get_mut(&node(n)).unwrap().unready = false;
    (world, n)
}

fn fails_verifying(world: &mut World, n: usize) {
    let failed = Step::Failed { at: "verifying".into(), reason: "nothing listens".into() };
    nothing_runs(world, n, failed, Health::Unhealthy).rotation = Rotation::Out;
    world.publish(&node(n));
}

#[test]
fn failed_one_last_admitted_at_the_former_version_is_moved() {
    let (mut world, n) = with_a_refused_release_under_the_former_version();
    fails_verifying(&mut world, n);
    let last = world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}: {:?}", world.phase(), last.waiting);
    assert_eq!((world.agents[&node(n)].report.step.clone(), world.really_in_service()), (Step::Serving, 3));
}

#[test]
fn failed_replacement_with_the_former_release_is_left() {
    let (mut world, n) = with_a_refused_release_under_the_former_version();
    world.agents.get_mut(&node(n)).unwrap().broken_at = Some(1);
    let ordered = |world: &World| world.store.keys[&Key::Directive(service(), node(n))].1;
    let before = ordered(&world);
    fails_verifying(&mut world, n);
    world.run();
    let replaced = ordered(&world);
    assert!(replaced > before, "it is replaced once");
    fails_verifying(&mut world, n);
    world.run();
    assert_eq!(ordered(&world), replaced);
    assert!(matches!(world.phase(), Phase::RollingBack { .. }), "{:?}", world.phase());
}

/// It was in rotation when its machine lost its power, so that it is not verified again, and reports a fault.
fn has_a_lasting_fault(world: &mut World, n: usize, recent: bool) {
    let report = nothing_runs(world, n, Step::Serving, Health::Unhealthy);
    let reason = "nothing listens where it should answer".to_owned();
    report.fault = Some(Box::new(Fault { reason, lasting: true, recent }));
    world.set_unready(&node(n), true);
}

#[test]
fn faulty_one_last_admitted_at_the_former_version_is_moved() {
    let (mut world, n) = with_a_refused_release_under_the_former_version();
    let ordered = |world: &World| world.store.keys[&Key::Directive(service(), node(n))].1;
    let before = ordered(&world);
    has_a_lasting_fault(&mut world, n, true);
    world.run();
    assert_eq!(ordered(&world), before, "it may be on its way up");
    has_a_lasting_fault(&mut world, n, false);
    world.run();
    world.set_unready(&node(n), false);
    let last = world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}: {:?}", world.phase(), last.waiting);
    assert_eq!((world.agents[&node(n)].report.step.clone(), world.really_in_service()), (Step::Serving, 3));
}

/// As many may at once where something that all of them need hiccups.
#[test]
fn faulty_one_of_the_boot_in_which_it_was_admitted_is_left() {
    let (mut world, n) = with_a_refused_release_under_the_former_version();
    world.agents.get_mut(&node(n)).unwrap().report.identity.boot = "boot".into();
    let ordered = |world: &World| world.store.keys[&Key::Directive(service(), node(n))].1;
    let before = ordered(&world);
    has_a_lasting_fault(&mut world, n, false);
    world.run();
    fails_verifying(&mut world, n);
    world.run();
    assert_eq!(ordered(&world), before);
    assert!(matches!(world.phase(), Phase::RollingBack { .. }), "{:?}", world.phase());
}
