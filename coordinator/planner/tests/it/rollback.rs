//! Stories of upgrades that go wrong, and end well all the same.

use crate::sim::{Agent, World, node, release, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::{self, Asker};
use tidegate_planner::gate::{RollGate, Waits};
use tidegate_planner::{Action, Reason, Sample};
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Health, Rotation, Step};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase, RollbackStep};
use tidegate_proto::{Commit, Key, NodeId, Release, Value};

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

/// The first instance that serves with the new release.
fn first_new(world: &World) -> Option<NodeId> {
    let is_new = |agent: &Agent| agent.release == release(2) && agent.report.step == Step::Serving;
    world.agents.iter().find(|(_, agent)| is_new(agent)).map(|(n, _)| n.clone())
}

fn until_one_is_new(world: &mut World) -> NodeId {
    world.until("one is new", |world| first_new(world).is_some());
    first_new(world).unwrap()
}

/// What was started there answers the former version: its agent admits that, and goes on to name what it has started.
fn answers_version_1(world: &mut World, n: &NodeId, step: Step, rotation: Rotation) {
    let agent = world.agents.get_mut(n).unwrap();
    agent.release = Release { version: release(1).version, ..release(2) };
    agent.report.version = Some(release(1).version);
    (agent.report.step, agent.report.rotation, agent.report.health) = (step, rotation, Health::Healthy);
    agent.idle = None;
    assert!(world.admit(n));
    world.publish(n);
}

fn is_ordered_to_run(world: &World, n: &NodeId, version: i64) -> bool {
    match world.store.keys.get(&Key::Directive(service(), n.clone())) {
        Some((Value::Directive(record), _, _)) => {
            record.body.disposition == Disposition::Replace { release: release(version) }
        }
        _ => false,
    }
}

/// It came into rotation before its agent read that it is replaced, so that the order was declined.
#[test]
fn release_that_answers_former_version_is_moved_back() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    let n = until_one_is_new(&mut world);
    let why = "it should carry version 2, it answers 1".to_owned();
    let failed = Step::Failed { at: "verifying".to_owned(), reason: why };
    answers_version_1(&mut world, &n, failed, Rotation::Out);
    let asker = Asker { who: "op".into(), why: "why".into(), accepts: Default::default() };
    let commit = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    for _ in 0..20 {
        world.turn();
        if is_ordered_to_run(&world, &n, 1) {
            break;
        }
        world.agents_step();
    }
    assert!(is_ordered_to_run(&world, &n, 1), "{:?}", world.phase());
    answers_version_1(&mut world, &n, Step::Serving, Rotation::In);
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
    assert!(world.agents.values().all(|agent| agent.release == release(1)), "{n} runs the new release");
}

/// Capacity lacks an instance while it is replaced. It was never verified: it is not put into rotation instead.
#[test]
fn release_that_answers_former_version_is_not_recalled() {
    let mut world = World::at_version_1(2);
    world.start(spec(json!({}))).unwrap();
    let n = until_one_is_new(&mut world);
    answers_version_1(&mut world, &n, Step::Draining, Rotation::Out);
    assert!(is_ordered_to_run(&world, &n, 2), "as it was when it was replaced");
    let other = (0..2).find(|other| node(*other) != n).unwrap();
    world.fall_silent(other);
    world.turn();
    assert!(is_ordered_to_run(&world, &n, 2), "the order was withdrawn");
}

/// Only the time of its phase changes while it waits.
#[test]
fn waiting_rollback_stores_its_time_once_a_minute() {
    for step in [RollbackStep::Lower, RollbackStep::Undo] {
        let mut world = World::at_version_1(3);
        let schema = json!({"schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"}});
        world.start_with_schema(spec(schema), MigrateOrder::BeforeRoll);
        world.until_roll();
        world.roll_back();
        let is_there =
            |world: &World| matches!(world.phase(), Phase::RollingBack { step: now, .. } if now == step);
        world.until("the step has begun", is_there);
        match step {
            RollbackStep::Undo => world.database.away = true,
            _ => world.fall_silent(0),
        }
        world.run();
        assert!(is_there(&world), "{:?}", world.phase());
        let checkpoint = |world: &World, passed_ms: u64| {
            let mut moment = world.moment();
            moment.elapsed.get_mut(&upgrade_id()).unwrap().phase_ms += passed_ms;
            let actions = tidegate_planner::plan(world.store.fleet(), &moment).actions;
            actions.into_iter().find_map(|action| match action {
                Action::Commit(planned) if planned.what == "checkpoint" => Some(planned.commit),
                _ => None,
            })
        };
        let after_an_hour = checkpoint(&world, 3_600_000).unwrap();
        assert!(world.store.commit(&after_an_hour));
        assert_eq!(checkpoint(&world, 6_000), None, "{step:?}: nothing else has changed");
        assert!(checkpoint(&world, 60_000).is_some(), "{step:?}: the next leader goes on from there");
    }
}

/// The second instance has fallen silent under its order of the roll, which names the new release alone since the old code is
/// removed. Then the upgrade is rolled back.
fn rolled_back_over_a_silent_one(has_schema: bool, is_gone: bool) -> World {
    let mut world = World::at_version_1(3);
    if has_schema {
        let schema = json!({"schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"}});
        world.start_with_schema(spec(schema), MigrateOrder::BeforeRoll);
    } else {
        world.start(spec(json!({}))).unwrap();
    }
    world.until("the old code is removed", |world| world.phase() == Phase::Remove);
    world.fall_silent(1);
    world.turn();
    assert!(is_ordered_to_run(&world, &node(1), 2));
    if is_gone {
        world.decommission(1);
    }
    world.roll_back();
    world
}

/// Its admission comes back in a step of the rollback, before its report does.
#[test]
fn no_rollback_step_gives_an_order_of_the_roll_once_more() {
    for step in [RollbackStep::Restage, RollbackStep::Move, RollbackStep::Lower, RollbackStep::Undo] {
        let mut world = rolled_back_over_a_silent_one(step == RollbackStep::Undo, true);
        let is_there =
            |world: &World| matches!(world.phase(), Phase::RollingBack { step: now, .. } if now == step);
        world.until("the step has begun", is_there);
        world.agents.get_mut(&node(1)).unwrap().release = release(1);
        assert!(world.admit(&node(1)));
        world.turn();
        assert!(is_ordered_to_run(&world, &node(1), 1), "{step:?}");
        world.return_with(&node(1), 1);
        let last = world.run();
        assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{step:?}: {:?}", last.waiting);
        assert_eq!(world.versions(), [1; 3], "{step:?}");
    }
}

fn asker() -> Asker {
    Asker { who: "op".into(), why: "corrected".into(), accepts: Default::default() }
}

fn carry_out(world: &mut World, commit: &Commit) {
    assert!(world.store.commit(commit));
    world.events += 1;
}

/// It is down there, and the former release is not on its node.
#[test]
fn rollback_leaves_an_instance_on_a_cordoned_node() {
    let mut world = rolled_back_over_a_silent_one(false, false);
    let cordon = ask::cordon(world.store.fleet(), &world.moment(), &node(1), &asker()).unwrap();
    carry_out(&mut world, &cordon);
    let agent = world.agents.get_mut(&node(1)).unwrap();
    agent.staged = [release(2)].into();
    agent.report.version = None;
    agent.report.step = Step::Failed { at: "verifying".into(), reason: "it has crashed".into() };
    (agent.report.rotation, agent.report.health) = (Rotation::Out, Health::Unhealthy);
    world.publish(&node(1));
    let last = world.run();
    assert!(is_ordered_to_run(&world, &node(1), 2), "{:?}", last.waiting);
    let nodes = Sample { first: vec![node(1)], count: 1 };
    let in_maintenance = Reason::Roll(RollGate::Maintenance { nodes });
    assert!(last.waiting[&upgrade_id()].contains(&in_maintenance), "{:?}", last.waiting);
    let uncordon = ask::uncordon(world.store.fleet(), &world.moment(), &node(1), &asker()).unwrap();
    carry_out(&mut world, &uncordon);
    world.agents.get_mut(&node(1)).unwrap().alive = true;
    let last = world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", last.waiting);
    assert_eq!(world.versions(), [1; 3]);
}

/// A person retries it before the rollback has moved it.
#[test]
fn retry_in_a_rollback_orders_the_former_release() {
    let mut world = World::at_version_1(3);
    world.agents.values_mut().for_each(|agent| agent.broken_at = Some(2));
    world.start(spec(json!({"failures": {"then": "pause"}}))).unwrap();
    world.run();
    let failed = world.failures().remove(0).0;
    assert!(is_ordered_to_run(&world, &failed, 2), "it has failed under its order of the roll");
    world.roll_back();
    let commit = ask::retry(world.store.fleet(), &world.moment(), &upgrade_id(), &failed, &asker()).unwrap();
    carry_out(&mut world, &commit);
    assert!(is_ordered_to_run(&world, &failed, 1), "{:?}", world.phase());
    let last = world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", last.waiting);
    assert_eq!(world.versions(), [1; 3]);
}

/// It serves the new release while it is silent, and its agent reads the order of the rollback once it is back.
#[test]
fn instance_serving_unseen_is_not_taken_out_by_a_rollback() {
    let mut world = rolled_back_over_a_silent_one(false, false);
    world.turn();
    assert!(is_ordered_to_run(&world, &node(1), 1));
    world.agents.get_mut(&node(1)).unwrap().alive = true;
    world.publish(&node(1));
    world.agent_step(&node(1));
    let report = &world.agents[&node(1)].report;
    assert!(report.declined && report.rotation == Rotation::In, "{report:?}");
    world.min_seen_in_service = usize::MAX;
    let last = world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", last.waiting);
    assert_eq!((world.versions(), world.min_seen_in_service), (vec![1; 3], 2), "one at a time");
}
