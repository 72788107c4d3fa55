//! Stories of upgrades that go wrong, and end well all the same.

use crate::sim::{World, node, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::Reason;
use tidegate_planner::gate::{RollGate, Waits};
use tidegate_proto::Key;
use tidegate_proto::record::upgrade::Phase;

#[test]
fn unhealthy_from_the_third_on_stops_and_walks_back() {
    let mut world = World::at_version_1(6);
    world.start(spec(json!({"strategy": {"canary": {}}, "min_in_service": 4}))).unwrap();
    let mut upgraded = 0;
    for _ in 0..10_000 {
        let (changed, _) = world.turn();
        let nodes: Vec<_> = world.agents.keys().cloned().collect();
        let mut moved = false;
        for n in nodes {
            let was = world.agents[&n].release.version.get();
            moved |= world.agent_step(&n);
            if was == 1 && world.agents[&n].release.version.get() == 2 {
                upgraded += 1;
                if upgraded >= 3 {
                    world.agents.get_mut(&n).unwrap().broken_at = Some(2);
                }
            }
        }
        if !changed && !moved {
            break;
        }
    }
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
    assert_eq!(upgraded, 3, "no further instance was touched");
    assert_eq!(world.versions(), [1; 6]);
    assert_eq!(world.really_in_service(), 6, "all are back in rotation");
    let fleet = world.store.fleet();
    let window = fleet.service(&service()).unwrap().window().unwrap();
    assert!(window.is_open(), "there was none before, so everything may be admitted: {}", window.record.body);
    assert!(world.agents.values().all(|a| a.staged.len() == 1), "the new code is gone again");
}

#[test]
fn within_the_budget_the_wave_goes_on_but_remove_does_not_begin() {
    let mut world = World::at_version_1(6);
    world.agents.get_mut(&node(2)).unwrap().broken_at = Some(2);
    world.start(spec(json!({"strategy": "immediate", "max_unavailable": 2, "min_in_service": 3, "failures": {"tolerate": 1, "per_wave": 1}}))).unwrap();
    let last = world.run();
    assert_eq!(world.versions(), [2; 6]);
    assert!(matches!(world.phase(), Phase::Remove), "{:?} {:?}", world.phase(), last.waiting);
    let reasons = last.waiting.values().next().unwrap();
    assert!(
        reasons.iter().any(
            |r| matches!(r, Reason::Roll(RollGate::NotServing { nodes }) if nodes.first[0].node == node(2))
        ),
        "completed is claimed only from observation: {reasons:?}"
    );
}

#[test]
fn beyond_the_budget_a_spec_may_ask_for_a_pause() {
    let mut world = World::at_version_1(4);
    world.agents.values_mut().for_each(|a| a.broken_at = Some(2));
    world.start(spec(json!({"failures": {"then": "pause"}}))).unwrap();
    let last = world.run();
    let upgrade = world.upgrade().unwrap();
    assert!(upgrade.paused.is_some(), "{:?}", upgrade.phase);
    assert_eq!(world.versions().iter().filter(|v| **v == 2).count(), 1, "one was touched");
    let failed = world.failures().remove(0).0;
    let reported: Vec<_> = last.waiting[&upgrade_id()]
        .iter()
        .filter_map(|reason| reason.explained(Waits::Upgrade(&upgrade_id())).next_step)
        .collect();
    assert_eq!(
        reported,
        [
            "tidegate upgrade resume u1, or tidegate upgrade rollback u1 --why …".to_owned(),
            format!("tidegate upgrade retry u1 {failed}"),
        ]
    );
}

#[test]
fn a_wave_without_progress_is_given_up() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    loop {
        world.turn();
        if let Some(draining) = world.agents.keys().find(|n| {
            world.store.keys.contains_key(&Key::Budget(service()))
                && world.store.fleet().service(&service()).unwrap().ordered().each.any(|i| i.node == **n)
        }) {
            let n: usize = draining.as_str()[1..].parse().unwrap();
            world.fall_silent(n);
            break;
        }
        world.agents_step();
    }
    world.run();
    assert!(matches!(world.phase(), Phase::Roll { .. }), "it waits: {:?}", world.phase());
    world.stalled_ms = 10 * 60 * 1000;
    world.turn();
    assert!(matches!(world.phase(), Phase::RollingBack { .. }), "{:?}", world.phase());
    world.run();
    assert!(
        matches!(world.phase(), Phase::RollingBack { .. }),
        "rule 10: the silent one is not back, so it is not over: {:?}",
        world.phase()
    );
}
