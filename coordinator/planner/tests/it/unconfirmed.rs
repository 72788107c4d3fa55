//! Instances whose health URLs answer 200 and whose rotation no balancer confirms: requests may reach them.

use crate::sim::{World, node, release, service, spec, upgrade_id};
use crate::stale_view::compares_budget;
use serde_json::json;
use tidegate_planner::ViewAge;
use tidegate_planner::ask::{self, Asker};
use tidegate_planner::gate::store::stale::{OLDEST_VIEW_MS, before_taking};
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Health, Rotation, Step};
use tidegate_proto::record::upgrade::{Phase, RollbackStep};
use tidegate_proto::{Key, Revision, Value, Write};

/// In the roll, and nothing is ordered out yet. One must stay, and one may be out.
fn rolling(nodes: usize) -> World {
    let mut world = World::at_version_1(nodes);
    world.start(spec(json!({"strategy": "immediate", "max_unavailable": 1, "min_in_service": 1}))).unwrap();
    world.until_roll();
    world
}

fn reports(world: &mut World, n: usize, step: Step, rotation: Rotation, health: Health) {
    let agent = world.agents.get_mut(&node(n)).unwrap();
    agent.idle = None;
    (agent.report.step, agent.report.rotation, agent.report.health) = (step, rotation, health);
    world.publish(&node(n));
}

fn is_drained(world: &World, n: usize) -> bool {
    let instance = world.store.fleet().service(&service()).unwrap().get(&node(n)).unwrap();
    instance.directive.as_ref().is_some_and(|directive| directive.disposition == Disposition::Drain)
}

/// Its node was started a moment ago. The other one may be in rotation again at once, and answers nothing now.
#[test]
fn returning_one_is_not_drained_beside_one_that_fails() {
    for health in [Health::Healthy, Health::Unhealthy] {
        let mut world = rolling(2);
        reports(&mut world, 0, Step::Serving, Rotation::Returning, health);
        reports(&mut world, 1, Step::Serving, Rotation::Unknown, Health::Unhealthy);
        for _ in 0..5 {
            world.turn();
            assert!(!is_drained(&world, 0), "{health:?}: no other one answers 200");
        }
        assert!(is_drained(&world, 1), "{health:?}: it answers nothing, so it goes first");
    }
}

/// It was replaced, and is shown to see whether it is ready: it is still out by its order.
#[test]
fn one_being_verified_is_not_yet_back_in_rotation() {
    let mut world = rolling(2);
    let is_verified = |world: &World, n: usize| world.agents[&node(n)].report.step == Step::Verifying;
    world.until("one is verified", |world| is_verified(world, 0) || is_verified(world, 1));
    let first = usize::from(!is_verified(&world, 0));
    reports(&mut world, first, Step::Verifying, Rotation::Unknown, Health::Unhealthy);
    let answers = [
        (Rotation::Unknown, Health::Unhealthy),
        (Rotation::Returning, Health::Unhealthy),
        (Rotation::Returning, Health::Healthy),
    ];
    for (rotation, health) in answers {
        let mut world = world.clone();
        reports(&mut world, 1 - first, Step::Serving, rotation, health);
        for _ in 0..5 {
            world.turn();
            assert!(!is_drained(&world, 1 - first), "{rotation:?}, {health:?}: two would be out by order");
        }
    }
}

/// It runs the new release, whose health URL flaps, and did not answer 200 in the last look. Nothing runs on the other one.
#[test]
fn one_that_flaps_while_verified_is_not_drained_last() {
    let mut world = rolling(2);
    let is_verified = |world: &World, n: usize| world.agents[&node(n)].report.step == Step::Verifying;
    world.until("one is verified", |world| is_verified(world, 0) || is_verified(world, 1));
    let first = usize::from(!is_verified(&world, 0));
    world.roll_back();
    let is_moving =
        |world: &World| matches!(world.phase(), Phase::RollingBack { step: RollbackStep::Move, .. });
    world.until("instances go back", is_moving);
    reports(&mut world, first, Step::Verifying, Rotation::Unknown, Health::Unhealthy);
    reports(&mut world, 1 - first, Step::Serving, Rotation::Unknown, Health::Unhealthy);
    for _ in 0..5 {
        let (_, plan) = world.turn();
        assert!(!is_drained(&world, first), "no other one answers 200");
        assert!(!plan.waiting.is_empty(), "it says what it waits for");
    }
    reports(&mut world, 1 - first, Step::Serving, Rotation::In, Health::Healthy);
    world.turn();
    assert!(is_drained(&world, first), "the other one answers 200");
}

/// It was verified, its health URL flaps, and it did not answer 200 in its last looks. Nothing runs on another one.
#[test]
fn one_that_flaps_is_drained_after_one_that_answers_nothing() {
    let mut world = rolling(3);
    let verified = |world: &World| (0..3).find(|n| world.agents[&node(*n)].report.step == Step::Verifying);
    world.until("one is verified", |world| verified(world).is_some());
    let first = verified(&world).unwrap();
    world.roll_back();
    let is_moving =
        |world: &World| matches!(world.phase(), Phase::RollingBack { step: RollbackStep::Move, .. });
    world.until("instances go back", is_moving);
    let dead = (first + 1) % 3;
    world.agents.get_mut(&node(dead)).unwrap().report.version = None;
    reports(&mut world, dead, Step::Serving, Rotation::Unknown, Health::Unhealthy);
    reports(&mut world, first, Step::Serving, Rotation::Unknown, Health::Unhealthy);
    for _ in 0..5 {
        world.turn();
        assert!(!is_drained(&world, first), "it may serve");
    }
    assert!(is_drained(&world, dead), "it answers nothing, so it goes first");
}

/// Its directive was restored while it was unhealthy, or a person retried it. Its agent obeys it as a new order, and has not put
/// the disable-file yet.
#[test]
fn one_about_to_be_started_again_counts_as_out() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"strategy": "immediate", "max_unavailable": 1, "min_in_service": 2}))).unwrap();
    let serves_new = |world: &World, n: usize| {
        let pantry = world.store.fleet().service(&service()).unwrap();
        pantry.get(&node(n)).unwrap().serves(&release(2))
    };
    world.until("one serves the new version", |world| (0..3).any(|n| serves_new(world, n)));
    let moved = (0..3).find(|n| serves_new(&world, *n)).unwrap();
    let key = Key::Directive(service(), node(moved));
    let restored = world.store.keys[&key].0.clone();
    let generation = world.store.put(key, restored);
    world.agents.get_mut(&node(moved)).unwrap().report.generation = Revision(generation);
    let other = (moved + 1) % 3;
    world.set_unready(&node(other), true);
    for health in [Health::Unhealthy, Health::Healthy] {
        let mut world = world.clone();
        reports(&mut world, moved, Step::Draining, Rotation::In, health);
        world.turn();
        assert!(!is_drained(&world, other), "{health:?}: two would be out");
    }
}

/// A balancer cannot be asked: an order for one of them would be withdrawn at once.
#[test]
fn healthy_ones_without_confirmation_are_not_drained() {
    let mut world = rolling(3);
    let report_all = |world: &mut World, rotation: Rotation| {
        (0..3).for_each(|n| reports(world, n, Step::Serving, rotation, Health::Healthy));
    };
    report_all(&mut world, Rotation::Returning);
    for _ in 0..5 {
        let (_, plan) = world.turn();
        assert!((0..3).all(|n| !is_drained(&world, n)), "{:?}", plan.waiting);
    }
    report_all(&mut world, Rotation::In);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

/// Their health URLs did not answer 200 in the last look, and may do so again before an order is carried out.
#[test]
fn healthy_ones_after_one_failed_look_are_not_drained() {
    let mut world = rolling(3);
    for n in 0..2 {
        reports(&mut world, n, Step::Serving, Rotation::Unknown, Health::Healthy);
    }
    for _ in 0..5 {
        let (_, plan) = world.turn();
        assert!((0..3).all(|n| !is_drained(&world, n)), "{:?}", plan.waiting);
    }
    let mut beside = world.clone();
    reports(&mut beside, 1, Step::Serving, Rotation::Unknown, Health::Unhealthy);
    beside.turn();
    assert!(is_drained(&beside, 1) && !is_drained(&beside, 0), "the one that is not healthy goes first");
    for n in 0..2 {
        reports(&mut world, n, Step::Serving, Rotation::In, Health::Healthy);
    }
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

/// Its agent was started again, and met one bad answer. Another one has been unhealthy for long.
#[test]
fn one_that_serves_is_not_drained_before_it_is_judged() {
    for rotation in [Rotation::Unknown, Rotation::In] {
        let mut world = rolling(3);
        reports(&mut world, 0, Step::Serving, rotation, Health::Unknown);
        reports(&mut world, 1, Step::Serving, rotation, Health::Unhealthy);
        for _ in 0..5 {
            world.turn();
            assert!(!is_drained(&world, 0), "{rotation:?}: it may be healthy");
        }
        assert!(is_drained(&world, 1), "{rotation:?}: the one that is known to be unhealthy goes first");
    }
}

/// Its drain failed, it was let back, and a person declares it stopped although its health URL answers 200.
#[test]
fn returning_one_declared_stopped_needs_the_budget() {
    let mut world = World::at_version_1(2);
    let failures = json!({"tolerate": 1, "per_wave": 1});
    let change = json!({"max_unavailable": 1, "min_in_service": 1, "failures": failures});
    world.start(spec(change)).unwrap();
    let is_draining = |world: &World, n: usize| world.agents[&node(n)].report.step == Step::Draining;
    world.until("one drains", |world| is_draining(world, 0) || is_draining(world, 1));
    let n = usize::from(!is_draining(&world, 0));
    world.agents.get_mut(&node(n)).unwrap().undrainable = true;
    let is_let_back = |world: &World| {
        let instance = world.store.fleet().service(&service()).unwrap().get(&node(n)).unwrap();
        let directive = instance.directive.as_ref();
        directive.is_some_and(|directive| directive.disposition == Disposition::Serve { returning: true })
    };
    world.until("it is let back", is_let_back);
    let declared = |world: &World| {
        let asker = Asker { who: "op".into(), why: "it crashed".into(), accepts: Default::default() };
        ask::retry_stopped(world.store.fleet(), &world.moment(), &upgrade_id(), &node(n), &asker)
    };
    reports(&mut world, n, Step::Verifying, Rotation::Returning, Health::Unhealthy);
    assert!(declared(&world).is_ok(), "the other one serves");
    reports(&mut world, 1 - n, Step::Serving, Rotation::Unknown, Health::Unhealthy);
    let refused = declared(&world).unwrap_err();
    assert!(refused.message.contains("leaves too few"), "{refused}");
}

/// Its drain has failed, and it is in rotation again and not ready. Nothing answers on another one.
#[test]
fn retried_drain_of_one_in_rotation_presumes_it_out() {
    let presumes_out = |write: &Write| matches!(write, Write::Put(Key::Directive(..), Value::Directive(directive)) if directive.body.presumes_out);
    for is_dead in [false, true] {
        let mut world = World::at_version_1(3);
        let change = json!({"strategy": "immediate", "max_unavailable": 1, "min_in_service": 2});
        world.start(spec(change)).unwrap();
        world.until("one is to be drained", |world| (0..3).any(|n| is_drained(world, n)));
        let n = (0..3).find(|n| is_drained(&world, *n)).unwrap();
        let obeyed = Revision(world.store.keys[&Key::Directive(service(), node(n))].1);
        world.agents.get_mut(&node(n)).unwrap().report.generation = obeyed;
        let failed = Step::Failed { at: "draining".into(), reason: "requests are in flight".into() };
        reports(&mut world, n, failed, Rotation::In, Health::Unhealthy);
        if is_dead {
            reports(&mut world, (n + 1) % 3, Step::Serving, Rotation::Unknown, Health::Unhealthy);
        }
        let asker = Asker { who: "op".into(), why: "again".into(), accepts: Default::default() };
        let retried = ask::retry(world.store.fleet(), &world.moment(), &upgrade_id(), &node(n), &asker);
        let retried = retried.unwrap();
        assert_eq!(retried.writes.iter().any(presumes_out), is_dead);
        // That the others serve is a matter of the view.
        world.view = ViewAge { age_ms: OLDEST_VIEW_MS + 1, shown_after_ms: 0 };
        let confirmed = before_taking(&world.moment(), &retried).is_some();
        assert_eq!(confirmed, !is_dead, "an order that presumes the instance out needs no recent view");
        assert!(compares_budget(&retried));
    }
}

/// The health URL of the new version fails on every node, while what is asked for readiness answers well. The rollback is
/// overdue, and the first instance is drained.
fn drained_in_an_overdue_rollback(mut change: serde_json::Value) -> (World, usize) {
    let mut world = World::at_version_1(4);
    let limits =
        json!({"strategy": "immediate", "max_unavailable": 1, "min_in_service": 3, "approvals": ["remove"]});
    change.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
    world.start(spec(change)).unwrap();
    world.run();
    world.roll_back();
    let is_moving =
        |world: &World| matches!(world.phase(), Phase::RollingBack { step: RollbackStep::Move, .. });
    world.until("instances go back", is_moving);
    (0..4).for_each(|n| reports(&mut world, n, Step::Serving, Rotation::Unknown, Health::Healthy));
    let drained = |world: &World| (0..4).filter(|n| is_drained(world, *n)).collect::<Vec<_>>();
    for _ in 0..5 {
        world.turn();
        assert_eq!(drained(&world), [0; 0], "capacity holds them");
    }
    world.stalled_ms = 10 * 60 * 1000;
    world.turn();
    let [first] = drained(&world)[..] else { panic!("one at a time: {:?}", drained(&world)) };
    let obeyed = Revision(world.store.keys[&Key::Directive(service(), node(first))].1);
    world.agents.get_mut(&node(first)).unwrap().report.generation = obeyed;
    reports(&mut world, first, Step::Drained { forced: false }, Rotation::Out, Health::Healthy);
    (world, first)
}

fn order_of(world: &World, n: usize) -> Disposition {
    let Value::Directive(now) = &world.store.keys[&Key::Directive(service(), node(n))].0 else {
        panic!("it is no directive")
    };
    now.body.disposition.clone()
}

#[test]
fn overdue_rollback_moves_ready_ones_that_answer_no_200() {
    for change in [json!({}), json!({"failure_domain": "zone"})] {
        let (mut world, first) = drained_in_an_overdue_rollback(change);
        world.turn();
        assert_eq!(order_of(&world, first), Disposition::Replace { release: release(1) });
    }
}

/// An instance of another zone leaves rotation by itself while the first one is drained.
#[test]
fn overdue_rollback_stops_no_healthy_one_in_a_second_domain() {
    let (mut world, first) = drained_in_an_overdue_rollback(json!({"failure_domain": "zone"}));
    let zone = |n: usize| world.agents[&node(n)].zone.clone();
    let other = (0..4).find(|n| zone(*n) != zone(first)).unwrap();
    reports(&mut world, other, Step::Serving, Rotation::Out, Health::Unhealthy);
    world.turn();
    assert_eq!(order_of(&world, first), Disposition::Serve { returning: true });
}
