//! Stories of upgrades that go well.

use crate::sim::{World, service, spec, upgrade_id};
use serde_json::json;
use tidegate_proto::record::upgrade::{Phase, PhaseName};
use tidegate_proto::{Key, Value};

#[test]
fn six_instances_go_from_1_to_2_by_canary_one_at_a_time() {
    let mut world = World::at_version_1(6);
    world.start(spec(json!({"strategy": {"canary": {}}, "min_in_service": 5}))).unwrap();
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.versions(), [2; 6]);
    assert_eq!(world.min_seen_in_service, 5, "one at a time");
    let upgrade = world.upgrade().unwrap();
    assert_eq!(upgrade.waves.as_ref().unwrap().sizes, [1, 1, 1, 2, 1]);
    let phases: Vec<PhaseName> = upgrade.timetable.iter().map(|t| t.phase).collect();
    assert_eq!(phases, [PhaseName::Preflight, PhaseName::Stage, PhaseName::Roll, PhaseName::Remove]);
}

#[test]
fn completed_upgrade_has_floor_and_no_old_code() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    world.run();
    let Some((Value::Window(window), _, _)) = world.store.keys.get(&Key::Window(service())) else {
        panic!("no window")
    };
    assert_eq!((window.body.floor.get(), window.body.ceiling.get()), (2, 2));
    assert!(world.agents.values().all(|a| a.staged.len() == 1), "only the new release is left");
    assert!(!world.store.keys.contains_key(&Key::Active(service())), "the lock is released");
}

#[test]
fn a_last_wave_of_most_of_the_fleet_goes_through_in_turns() {
    let mut world = World::at_version_1(40);
    world
        .start(spec(json!({"strategy": {"canary": {}}, "max_unavailable": 4, "min_in_service": "90%"})))
        .unwrap();
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(world.min_seen_in_service, 36);
}

#[test]
fn only_one_failure_domain_is_out_at_a_time() {
    let mut world = World::at_version_1(9);
    world.start(spec(json!({"strategy": "immediate", "max_unavailable": 3, "failure_domain": "zone", "min_in_service": 1}))).unwrap();
    for _ in 0..10_000 {
        let (changed, _) = world.turn();
        let moved = world.agents_step();
        let out: std::collections::BTreeSet<_> = world
            .agents
            .values()
            .filter(|a| a.report.rotation != tidegate_proto::record::report::Rotation::In)
            .map(|a| a.zone.clone())
            .collect();
        assert!(out.len() <= 1, "zones {out:?} are out together");
        if !changed && !moved {
            break;
        }
    }
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn a_fleet_of_2000_with_waves_above_128_completes() {
    let mut world = World::at_version_1(2000);
    world
        .start(spec(json!({"strategy": {"canary": {}}, "max_unavailable": "20%", "min_in_service": "50%"})))
        .unwrap();
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.upgrade().unwrap().waves.as_ref().unwrap().sizes, [1, 20, 100, 400, 1479]);
    assert!(world.min_seen_in_service >= 1600);
}

#[test]
fn another_leader_goes_on_where_the_first_stopped() {
    let mut world = World::at_version_1(4);
    world.start(spec(json!({}))).unwrap();
    let mut term = 1;
    for _ in 0..10_000 {
        let (changed, _) = world.turn();
        term += 1;
        world.elect(term);
        let moved = world.agents_step();
        if !changed && !moved {
            break;
        }
    }
    assert_eq!(world.phase(), Phase::Completed);
    let _ = upgrade_id();
}
