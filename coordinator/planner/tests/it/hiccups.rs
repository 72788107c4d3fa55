//! Readiness that fails for a while, of one instance or of all: the health URLs go on to answer 200, so that balancers
//! go on to send requests. No order may make a lasting loss of it.

use crate::outside::put_back;
use crate::sim::{World, node, release, service, spec, upgrade_id};
use proptest::prelude::*;
use serde_json::json;
use tidegate_planner::ask::{self, Asker};
use tidegate_planner::{Action, Reason, plan};
use tidegate_proto::commit::Commit;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Rotation, Step};
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::{Key, NodeId, Value, Write};

fn rolling(nodes: usize, change: serde_json::Value) -> World {
    let mut world = World::at_version_1(nodes);
    world.start(spec(change)).unwrap();
    world.until_roll();
    world
}

fn nodes(world: &World) -> Vec<NodeId> {
    world.agents.keys().cloned().collect()
}

fn all_unready(world: &mut World, unready: bool) {
    nodes(world).iter().for_each(|n| world.set_unready(n, unready));
}

/// How many health URLs answer 200.
fn in_rotation(world: &World) -> usize {
    world.agents.values().filter(|agent| agent.report.rotation == Rotation::In).count()
}

pub(crate) fn disposition(world: &World, n: usize) -> Option<Disposition> {
    match world.store.keys.get(&Key::Directive(service(), node(n))) {
        Some((Value::Directive(record), _, _)) => Some(record.body.disposition.clone()),
        _ => None,
    }
}

/// What the next turn would commit.
pub(crate) fn commits(world: &World) -> Vec<Commit> {
    let actions = plan(world.store.fleet(), &world.moment()).actions.into_iter();
    let commit = |action| match action {
        Action::Commit(planned) => Some(planned.commit),
        _ => None,
    };
    actions.filter_map(commit).collect()
}

fn four_of_which_three_must_stay() -> World {
    rolling(4, json!({"strategy": "immediate", "max_unavailable": 2, "min_in_service": 3}))
}

#[test]
fn hiccup_of_all_takes_out_no_more_than_capacity_allows() {
    let mut world = four_of_which_three_must_stay();
    all_unready(&mut world, true);
    for _ in 0..20 {
        world.turn();
        world.agents_step();
        assert!(in_rotation(&world) >= 3, "{} health URLs answer 200", in_rotation(&world));
    }
    all_unready(&mut world, false);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn unhealthy_in_rotation_is_drained_before_it_is_replaced() {
    let mut world = four_of_which_three_must_stay();
    world.set_unready(&node(2), true);
    let mut seen = Vec::new();
    for _ in 0..20 {
        world.turn();
        let now = disposition(&world, 2);
        if now.is_some() && seen.last() != Some(&now) {
            seen.push(now);
        }
        world.agents_step();
    }
    let words: Vec<&str> = seen.iter().flatten().map(Disposition::word).collect();
    assert_eq!(words, ["drain", "replace"]);
}

/// It recovers between the turn and the commit: then it is one of those that must stay.
#[test]
fn drain_of_an_unhealthy_one_is_beaten_by_its_next_report() {
    let mut world = four_of_which_three_must_stay();
    world.set_unready(&node(2), true);
    let is_drained = |write: &Write| {
        matches!(write, Write::Put(Key::Directive(_, n), Value::Directive(d))
            if *n == node(2) && d.body.disposition == Disposition::Drain)
    };
    let drains = |world: &World| {
        let all = commits(world).into_iter();
        all.filter(|commit| commit.writes.iter().any(is_drained)).collect::<Vec<_>>()
    };
    world.until("its drain is planned", |world| !drains(world).is_empty());
    let planned = drains(&world);
    world.set_unready(&node(2), false);
    assert!(planned.iter().all(|commit| !world.store.commit(commit)), "it was drained, and serves");
}

/// Its version endpoint lied for a while: by its next report it is one of those that must stay.
#[test]
fn drain_of_one_outside_is_beaten_by_its_next_report() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"min_in_service": 2}))).unwrap();
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    put_back(&mut world, 0, 1);
    let planned = commits(&world);
    assert!(!planned.is_empty(), "its drain is planned");
    let agent = world.agents.get_mut(&node(0)).unwrap();
    (agent.release, agent.report.step) = (release(2), Step::Serving);
    (agent.report.version, agent.report.release) = (Some(release(2).version), Some(release(2).tag));
    world.publish(&node(0));
    assert!(planned.iter().all(|commit| !world.store.commit(commit)), "it was drained, and serves");
}

/// They failed, and run what the rollback leads to: nothing is drained for that.
#[test]
fn recovered_instances_at_the_former_version_are_let_serve() {
    let mut world = four_of_which_three_must_stay();
    world.until("one is new", |world| world.versions().contains(&2));
    world.roll_back();
    let failed = Step::Failed { at: "verifying".to_owned(), reason: "not healthy within 30 s".to_owned() };
    let former: Vec<NodeId> =
        nodes(&world).into_iter().filter(|n| world.agents[n].release == release(1)).collect();
    let stands: Vec<&NodeId> =
        former.iter().filter(|n| world.agents[*n].report.step == Step::Serving).collect();
    for n in stands.iter().copied() {
        world.agents.get_mut(n).unwrap().report.step = failed.clone();
        world.publish(n);
    }
    let stands: Vec<NodeId> = stands.into_iter().cloned().collect();
    for _ in 0..20 {
        world.turn();
        for n in &stands {
            assert_eq!(world.agents[n].report.rotation, Rotation::In, "{n} was taken out");
        }
        world.agents_step();
    }
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
}

/// An instance that is taken out because it is unhealthy, before it has stopped.
pub(crate) fn being_taken_out(step: &Step) -> World {
    let mut world = four_of_which_three_must_stay();
    world.set_unready(&node(2), true);
    world.until("it is on its way out", |world| world.agents[&node(2)].report.step == *step);
    world
}

#[test]
fn order_for_a_recovered_instance_is_withdrawn_without_capacity() {
    for step in [Step::Draining, Step::Drained { forced: false }] {
        let mut world = being_taken_out(&step);
        world.set_unready(&node(0), true);
        world.set_unready(&node(2), false);
        for _ in 0..10 {
            world.turn();
            world.agents_step();
            assert_eq!(world.agents[&node(2)].release, release(1), "it is healthy again and was stopped");
        }
        assert!(matches!(disposition(&world, 2), Some(Disposition::Serve { .. })), "{step:?}");
        assert_eq!(world.agents[&node(2)].report.rotation, Rotation::In);
    }
}

#[test]
fn turn_that_withdraws_an_order_names_the_capacity() {
    let mut world = being_taken_out(&Step::Draining);
    world.set_unready(&node(0), true);
    world.set_unready(&node(2), false);
    let plan = tidegate_planner::plan(world.store.fleet(), &world.moment());
    let reasons = plan.waiting.get(&upgrade_id()).map_or(&[][..], Vec::as_slice);
    let kinds: Vec<&str> = reasons.iter().map(Reason::kind).collect();
    assert_eq!(plan.actions.len(), 1, "the order is withdrawn");
    assert!(kinds.contains(&"capacity"), "{kinds:?}");
}

#[test]
fn replacement_is_withdrawn_until_it_has_stopped() {
    let mut world = being_taken_out(&Step::Drained { forced: false });
    world.turn();
    assert!(matches!(disposition(&world, 2), Some(Disposition::Replace { .. })));
    world.set_unready(&node(2), false);
    world.set_unready(&node(0), true);
    world.turn();
    assert!(
        matches!(disposition(&world, 2), Some(Disposition::Serve { .. })),
        "{:?}",
        disposition(&world, 2)
    );
    all_unready(&mut world, false);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn drained_and_still_unhealthy_is_not_stopped_without_capacity() {
    let mut world = being_taken_out(&Step::Draining);
    world.fall_silent(0);
    let at_rest = world.run();
    assert_eq!(world.agents[&node(2)].release, release(1));
    let kinds: Vec<&str> = at_rest.waiting[&upgrade_id()].iter().map(Reason::kind).collect();
    assert!(kinds.contains(&"held"), "{kinds:?}");
}

#[test]
fn a_wholly_unhealthy_fleet_is_upgraded_one_by_one() {
    let mut world = World::at_version_1(4);
    world.all_ill_at(1);
    world.start(spec(json!({"strategy": "immediate", "max_unavailable": 2, "min_in_service": 3}))).unwrap();
    for _ in 0..200 {
        world.turn();
        world.agents_step();
        assert!(in_rotation(&world) >= 3);
    }
    assert_eq!(world.phase(), Phase::Completed);
}

/// All at version 2, which is then not ready anywhere.
fn ill_after_the_roll() -> World {
    let mut world = World::at_version_1(4);
    let change =
        json!({"strategy": "immediate", "max_unavailable": 1, "min_in_service": 3, "approvals": ["remove"]});
    world.start(spec(change)).unwrap();
    world.run();
    assert_eq!(world.versions(), [2; 4]);
    world.all_ill_at(2);
    world
}

#[test]
fn rollback_of_an_unhealthy_new_version_goes_on() {
    let mut world = ill_after_the_roll();
    world.roll_back();
    for _ in 0..200 {
        world.turn();
        world.agents_step();
        assert!(in_rotation(&world) >= 3);
    }
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
}

#[test]
fn overdue_rollback_takes_unhealthy_instances_out_singly() {
    let mut world = ill_after_the_roll();
    world.fall_silent(3);
    world.roll_back();
    let at_rest = world.run();
    assert_eq!(world.versions(), [2; 4], "one is silent, so three in rotation are as many as must stay");
    let reasons = &at_rest.waiting[&upgrade_id()];
    assert!(reasons.iter().any(|r| r.kind() == "unavailable" || r.kind() == "capacity"), "{reasons:?}");
    for _ in 0..200 {
        world.stalled_ms = 10 * 60 * 1000;
        world.turn();
        world.agents_step();
        assert!(in_rotation(&world) >= 2, "one at a time");
    }
    assert_eq!(world.versions(), [1, 1, 1, 2]);
    assert_eq!(world.really_in_service(), 3);
}

/// HAProxy is restarted while an upgrade that has moved no instance is rolled back.
#[test]
fn rollback_leaves_instances_that_a_balancer_does_not_confirm() {
    let mut world = World::at_version_1(4);
    let change = json!({"max_unavailable": 2, "min_in_service": 2, "approvals": ["roll"]});
    world.start(spec(change)).unwrap();
    world.run();
    world.roll_back();
    let unconfirmed = |world: &mut World, rotation: Rotation| {
        for n in nodes(world) {
            world.agents.get_mut(&n).unwrap().report.rotation = rotation;
            world.publish(&n);
        }
    };
    for _ in 0..20 {
        unconfirmed(&mut world, Rotation::Returning);
        world.turn();
        for n in 0..4 {
            let ordered = disposition(&world, n);
            assert!(matches!(ordered, None | Some(Disposition::Serve { .. })), "n{n}: {ordered:?}");
        }
        world.agents_step();
    }
    assert!(matches!(world.phase(), Phase::RollingBack { .. }), "{:?}", world.phase());
    unconfirmed(&mut world, Rotation::In);
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
}

#[derive(Debug, Clone)]
enum Happening {
    Turn,
    Agent(usize),
    Hiccup(usize),
    Recover(usize),
    HiccupOfAll,
    RecoverAll,
    Flap,
    Elect,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        10 => Just(Happening::Turn),
        14 => (0..5_usize).prop_map(Happening::Agent),
        2 => (0..5_usize).prop_map(Happening::Hiccup),
        2 => (0..5_usize).prop_map(Happening::Recover),
        1 => Just(Happening::HiccupOfAll),
        1 => Just(Happening::RecoverAll),
        1 => Just(Happening::Flap),
        1 => Just(Happening::Elect),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Hiccups alone leave every health URL at 200: what does not answer 200 was taken out by an order.
    #[test]
    fn hiccups_and_orders_never_go_below_min_in_service(
        happenings in prop::collection::vec(happening(), 20..250),
        max in 1..4_u32, min in 2..4_u32, zones in any::<bool>(), back_at in 0..400_usize,
    ) {
        let mut change = json!({"strategy": {"canary": {}}, "max_unavailable": max, "min_in_service": min});
        if zones {
            change["failure_domain"] = json!("zone");
        }
        let mut world = World::at_version_1(5);
        world.start(spec(change)).unwrap();
        let mut term = 1;
        for (at, happening) in happenings.into_iter().enumerate() {
            match happening {
                Happening::Turn => drop(world.turn()),
                Happening::Agent(n) => drop(world.agent_step(&node(n))),
                Happening::Hiccup(n) => world.set_unready(&node(n), true),
                Happening::Recover(n) => world.set_unready(&node(n), false),
                Happening::HiccupOfAll => all_unready(&mut world, true),
                Happening::RecoverAll => all_unready(&mut world, false),
                Happening::Flap => {
                    all_unready(&mut world, true);
                    world.turn();
                    world.agents_step();
                    all_unready(&mut world, false);
                }
                Happening::Elect => { term += 1; world.elect(term); }
            }
            if at == back_at && !world.phase().is_over() {
                let asker = Asker { who: "op".into(), why: "why".into(), accepts: Default::default() };
                if let Ok(back) = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker) {
                    prop_assert!(world.store.commit(&back));
                    world.events += 1;
                }
            }
            let out: Vec<_> = world.agents.values().filter(|a| a.report.rotation != Rotation::In).collect();
            prop_assert!(5 - out.len() >= min as usize, "{} of 5 answer 200", 5 - out.len());
            prop_assert!(out.len() <= max as usize, "{} are out", out.len());
            let out_zones: std::collections::BTreeSet<_> = out.iter().map(|a| &a.zone).collect();
            prop_assert!(!zones || out_zones.len() <= 1, "zones {:?} are out", out_zones);
            prop_assert!(world.store.fleet().service(&service()).unwrap().index_is_true());
        }
        all_unready(&mut world, false);
        let last = world.run();
        prop_assert!(world.phase().is_over(), "{:?}: {:?}", world.phase(), last.waiting);
    }
}

#[test]
fn failing_probes_keep_a_rollback_within_capacity() {
    rolled_back_beside_failing_probes(json!({"approvals": ["remove"], "min_in_service": 3}));
    let zones = json!({"approvals": ["remove"], "min_in_service": 3, "failure_domain": "zone"});
    rolled_back_beside_failing_probes(zones);
}

fn rolled_back_beside_failing_probes(spec: serde_json::Value) {
    let mut world = rolling(4, spec);
    world.run();
    assert_eq!(world.versions(), [2; 4]);
    for n in nodes(&world) {
        world.agents.get_mut(&n).unwrap().report.version = None;
        world.publish(&n);
    }
    world.roll_back();
    for _ in 0..400 {
        world.turn();
        world.agents_step();
        assert!(in_rotation(&world) >= 3, "{} answer 200", in_rotation(&world));
    }
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
}
