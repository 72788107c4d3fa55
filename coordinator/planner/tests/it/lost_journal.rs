//! An instance whose agent has lost its journal, and on which nothing runs any more: its agent knows no release to start.

use crate::sim::{World, node, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::Instance;
use tidegate_planner::ask::{self, Asker};
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Health, Rotation, Step};
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::{Key, Value};

/// The last of four.
const LOST: usize = 3;

/// After the loss its agent was admitted again. Its configuration names two releases of that version, so none is known.
fn loses_its_journal(world: &mut World, n: usize) {
    let key = Key::Inventory(service(), node(n));
    let Some((Value::Inventory(record), _, _)) = world.store.keys.get(&key).cloned() else {
        panic!("it was admitted")
    };
    let mut inventory = record.body;
    inventory.release = None;
    let at = world.store.put(key, inventory);
    world.agents.get_mut(&node(n)).unwrap().admitted = at;
}

fn nothing_runs(world: &mut World, n: usize, step: Step, rotation: Rotation) {
    let report = &mut world.agents.get_mut(&node(n)).unwrap().report;
    (report.version, report.release, report.release_digest) = (None, None, None);
    (report.step, report.rotation, report.health) = (step, rotation, Health::Unhealthy);
    world.publish(&node(n));
}

fn instance(world: &World, n: usize) -> &Instance {
    world.store.fleet().service(&service()).unwrap().get(&node(n)).unwrap()
}

fn is_ordered(world: &World, wanted: &Disposition) -> bool {
    let directive = instance(world, LOST).directive.as_ref();
    directive.is_some_and(|directive| directive.disposition == *wanted)
}

/// A roll in which its drain failed, because nothing listened at the counter.
fn with_a_failed_drain(change: serde_json::Value) -> World {
    let mut world = World::at_version_1(4);
    world.start(spec(change)).unwrap();
    world.until_roll();
    loses_its_journal(&mut world, LOST);
    nothing_runs(&mut world, LOST, Step::Starting, Rotation::Unknown);
    world.until("it is drained", |world| is_ordered(world, &Disposition::Drain));
    let failed = Step::Failed { at: "draining".into(), reason: "requests could not be counted".into() };
    nothing_runs(&mut world, LOST, failed, Rotation::Unknown);
    world
}

#[test]
fn stopped_instance_is_moved_in_rollback_after_failure() {
    let mut world =
        with_a_failed_drain(json!({"strategy": "immediate", "max_unavailable": 1, "min_in_service": 2}));
    let asker = Asker { who: "op".into(), why: "regret".into(), accepts: Default::default() };
    let commit = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    let back = Disposition::Serve { returning: true };
    world.until("it is let back", |world| is_ordered(world, &back));
    nothing_runs(&mut world, LOST, Step::Stopped, Rotation::Out);
    let last = world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}: {:?}", world.phase(), last.waiting);
    assert_eq!(world.versions(), [1; 4]);
}

#[test]
fn stopped_instance_is_moved_in_roll_after_failure() {
    let mut world = with_a_failed_drain(json!({
        "strategy": "immediate", "max_unavailable": 1, "min_in_service": 2, "failures": {"then": "pause"},
    }));
    world.until("it is paused", |world| world.upgrade().unwrap().paused.is_some());
    world.resume();
    let back = Disposition::Serve { returning: true };
    world.until("it is let back", |world| is_ordered(world, &back));
    nothing_runs(&mut world, LOST, Step::Stopped, Rotation::Out);
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.versions(), [2; 4]);
}

/// It is all that may be out, so that no earlier wave would begin before it is back.
#[test]
fn stopped_instance_is_moved_before_its_wave() {
    let mut world = World::at_version_1(4);
    world
        .start(spec(json!({
            "strategy": {"canary": {"steps": [1, "rest"]}}, "max_unavailable": 1, "min_in_service": 2,
        })))
        .unwrap();
    world.until_roll();
    let later = (0..4).rev().find(|n| instance(&world, *n).wave != Some(0)).unwrap();
    loses_its_journal(&mut world, later);
    nothing_runs(&mut world, later, Step::Stopped, Rotation::Out);
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.versions(), [2; 4]);
}

/// The canary may fail in its wave as well, as the spec tolerates it.
#[test]
fn failure_before_its_wave_counts_in_its_own_wave() {
    let mut world = World::at_version_1(4);
    world
        .start(spec(json!({
            "strategy": {"canary": {"steps": [1, "rest"]}}, "max_unavailable": 1, "min_in_service": 2,
            "failures": {"then": "pause"},
        })))
        .unwrap();
    world.until_roll();
    let later = (0..4).rev().find(|n| instance(&world, *n).wave != Some(0)).unwrap();
    world.agents.get_mut(&node(later)).unwrap().broken_at = Some(2);
    loses_its_journal(&mut world, later);
    nothing_runs(&mut world, later, Step::Stopped, Rotation::Out);
    world.run();
    let failed: Vec<_> =
        world.failures().into_iter().map(|(node, failure, _)| (node, failure.wave)).collect();
    assert_eq!((world.phase(), failed), (Phase::Roll { wave: 0 }, vec![(node(later), 1)]));
}

#[test]
fn stopped_instance_is_moved_while_old_code_is_removed() {
    let mut world = World::at_version_1(4);
    world.start(spec(json!({"max_unavailable": 1, "min_in_service": 2}))).unwrap();
    let is_directed = |world: &World| {
        let serves = matches!(
            instance(world, LOST).directive.as_ref().map(|directive| &directive.disposition),
            Some(Disposition::Serve { .. })
        );
        world.phase() == Phase::Remove && serves
    };
    world.until("it is ordered to remove the old code", is_directed);
    loses_its_journal(&mut world, LOST);
    nothing_runs(&mut world, LOST, Step::Stopped, Rotation::Out);
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.versions(), [2; 4]);
}

/// Its agent starts what it knows, after growing pauses.
#[test]
fn stopped_instance_of_a_known_release_has_one_to_start() {
    let mut world = World::at_version_1(4);
    nothing_runs(&mut world, LOST, Step::Stopped, Rotation::Out);
    assert!(!instance(&world, LOST).has_nothing_to_start());
    loses_its_journal(&mut world, LOST);
    nothing_runs(&mut world, LOST, Step::Stopped, Rotation::Out);
    assert!(instance(&world, LOST).has_nothing_to_start());
}
