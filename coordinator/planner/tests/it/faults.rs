//! Instances of waves that have passed are watched until the upgrade ends.

use crate::sim::{World, node, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::Reason;
use tidegate_planner::ask::{self, Asker, Refusal};
use tidegate_planner::gate::RollGate;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::record::report::{Fault, Health, Rotation, Step};
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::{Key, NodeId, ServiceVersion, Value, Write};

/// Three waves of two; the first has passed; the nodes of the first.
fn in_the_second_wave(change: serde_json::Value) -> (World, Vec<NodeId>) {
    let mut world = World::at_version_1(6);
    let mut all = json!({"strategy": {"canary": {"steps": [2, 2, 2]}}, "min_in_service": 3});
    all.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    world.start(spec(all)).unwrap();
    world.until("the first wave has passed", |world| matches!(world.phase(), Phase::Roll { wave: 1 }));
    let first: Vec<_> = world.agents.iter().filter(|(_, a)| a.release.version == two()).collect();
    let first: Vec<NodeId> = first.into_iter().map(|(node, _)| node.clone()).collect();
    assert_eq!(first.len(), 2);
    (world, first)
}

fn two() -> ServiceVersion {
    ServiceVersion::new(2).unwrap()
}

/// An instance is not healthy any more; its agent says so of it.
pub(crate) fn fails(world: &mut World, n: &NodeId, lasting: bool, recent: bool) {
    let agent = world.agents.get_mut(n).unwrap();
    agent.ill_at = Some(i64::from(agent.release.version.get()));
    let report = &mut agent.report;
    report.health = Health::Unhealthy;
    let reason = "its readiness URL does not answer 200".to_owned();
    report.fault = Some(Box::new(Fault { reason, lasting, recent }));
    world.publish(n);
}

/// It is healthy again.
pub(crate) fn recovers(world: &mut World, n: &NodeId) {
    let agent = world.agents.get_mut(n).unwrap();
    agent.ill_at = None;
    let report = &mut agent.report;
    (report.health, report.rotation) = (Health::Healthy, Rotation::In);
    report.fault = None;
    world.publish(n);
}

fn old_ones(world: &World) -> Vec<NodeId> {
    let old =
        world.agents.iter().filter(|(_, a)| a.release.version != two() && a.report.rotation == Rotation::In);
    old.map(|(node, _)| node.clone()).collect()
}

#[test]
fn failure_after_verification_is_rolled_back() {
    let (mut world, first) = in_the_second_wave(json!({}));
    fails(&mut world, &first[0], true, true);
    world.turn();
    let (failed, failure, _) = world.failures().remove(0);
    assert_eq!((failed, failure.wave), (first[0].clone(), 0), "in the wave in which it was verified");
    assert!(failure.reason.contains("does not answer 200"), "{failure:?}");
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
    assert_eq!(world.versions(), [1; 6]);
}

#[test]
fn failure_after_verification_pauses_where_the_spec_says_so() {
    let (mut world, first) = in_the_second_wave(json!({"failures": {"then": "pause"}}));
    fails(&mut world, &first[1], true, false);
    world.run();
    let pause = world.upgrade().unwrap().paused.clone().unwrap();
    assert!(
        pause.why.contains(first[1].as_str()) && pause.why.contains("failed afterwards"),
        "{}",
        pause.why
    );
}

#[test]
fn failure_after_verification_within_the_budget_goes_on() {
    let (mut world, first) =
        in_the_second_wave(json!({"max_unavailable": 2, "failures": {"tolerate": 1, "per_wave": 1}}));
    fails(&mut world, &first[0], true, true);
    world.run();
    assert_eq!(world.versions(), [2; 6]);
    assert!(matches!(world.phase(), Phase::Remove), "{:?}", world.phase());
    let (mut world, first) = in_the_second_wave(json!({"failures": {"tolerate": 2, "per_wave": 1}}));
    fails(&mut world, &first[0], true, true);
    fails(&mut world, &first[1], true, true);
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "two in one wave: {:?}", world.phase());
}

#[test]
fn failure_while_the_old_code_is_removed_is_counted() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    world.until("the old code is removed", |world| matches!(world.phase(), Phase::Remove));
    // What is dead reports no version.
    world.agents.get_mut(&node(1)).unwrap().report.version = None;
    fails(&mut world, &node(1), true, true);
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
    assert_eq!(world.versions(), [1; 3]);
}

#[test]
fn hiccup_takes_no_other_out_and_is_not_counted() {
    let (mut world, first) = in_the_second_wave(json!({"max_unavailable": 4, "min_in_service": 1}));
    fails(&mut world, &first[0], false, true);
    let last = world.run();
    assert!(matches!(world.phase(), Phase::Roll { wave: 1 }), "{:?}", world.phase());
    let reasons = &last.waiting[&upgrade_id()];
    let named = |r: &Reason| matches!(r, Reason::Roll(RollGate::NotServing { nodes }) if nodes.first.iter().any(|cause| cause.node == first[0]));
    assert!(reasons.iter().any(named), "{reasons:?}");
    assert!(world.failures().is_empty());
    recovers(&mut world, &first[0]);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn fault_that_old_and_new_share_pauses_and_is_not_counted() {
    let (mut world, first) = in_the_second_wave(json!({}));
    let old = old_ones(&world);
    fails(&mut world, &old[0], false, true);
    fails(&mut world, &first[0], true, true);
    world.run();
    let upgrade = world.upgrade().unwrap();
    let why = &upgrade.paused.as_ref().expect("it is paused").why;
    assert!(why.contains("both share") && why.contains(old[0].as_str()), "{why}");
    assert!(world.failures().iter().all(|(_, _, counts)| !counts), "{:?}", world.failures());
    recovers(&mut world, &old[0]);
    recovers(&mut world, &first[0]);
    world.resume();
    world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", world.upgrade().unwrap().paused);
}

#[test]
fn old_instance_that_serves_well_again_shares_nothing() {
    let (mut world, first) = in_the_second_wave(json!({}));
    let old = old_ones(&world);
    fails(&mut world, &old[0], false, true);
    let reported = world.agents[&old[0]].report.fault.clone();
    recovers(&mut world, &old[0]);
    world.agents.get_mut(&old[0]).unwrap().report.fault = reported;
    world.publish(&old[0]);
    fails(&mut world, &first[0], true, true);
    world.turn();
    assert_eq!(world.upgrade().unwrap().paused, None);
    assert!(world.failures().iter().all(|(_, _, counts)| *counts), "{:?}", world.failures());
}

#[test]
fn old_instance_that_failed_long_before_shares_nothing() {
    let (mut world, first) = in_the_second_wave(json!({}));
    let old = old_ones(&world);
    fails(&mut world, &old[0], true, false);
    fails(&mut world, &first[0], true, true);
    world.turn();
    assert!(world.upgrade().unwrap().paused.is_none());
    assert!(world.failures().iter().all(|(_, _, counts)| *counts));
    world.run();
    assert!(
        matches!(world.phase(), Phase::RolledBack { .. } | Phase::RollingBack { .. }),
        "{:?}",
        world.phase()
    );
}

#[test]
fn unverified_version_pauses_when_old_one_fails_too() {
    let mut world = World::at_version_1(4);
    world.start(spec(json!({}))).unwrap();
    world.agents.values_mut().for_each(|a| a.broken_at = Some(2));
    world.until("one was replaced", |world| world.versions().contains(&2));
    for n in old_ones(&world) {
        fails(&mut world, &n, true, false);
    }
    world.run();
    let upgrade = world.upgrade().unwrap();
    assert!(upgrade.paused.as_ref().is_some_and(|p| p.why.contains("both share")), "{:?}", upgrade.paused);
    assert!(matches!(upgrade.phase, Phase::Roll { .. }), "{:?}", upgrade.phase);
}

#[test]
fn ineffective_drain_pauses_before_stop_without_blame() {
    let mut world = World::at_version_1(3);
    world.agents.values_mut().for_each(|agent| agent.heedless = true);
    world.start(spec(json!({"failures": {"tolerate": 0, "then": "rollback"}}))).unwrap();
    world.run();
    let upgrade = world.upgrade().unwrap();
    let why = upgrade.paused.as_ref().map(|pause| pause.why.clone()).unwrap_or_default();
    assert!(matches!(upgrade.phase, Phase::Roll { .. }), "{:?}", upgrade.phase);
    let drained: Vec<_> =
        world.agents.iter().filter(|(_, agent)| matches!(agent.report.step, Step::Failed { .. })).collect();
    assert_eq!(drained.len(), 1, "no other is drained after the first");
    assert!(
        why.contains(&format!("the drain of {} changed nothing", drained[0].0))
            && why.contains("disable_file"),
        "{why}"
    );
    assert_eq!(world.versions(), [1, 1, 1]);
    // Fixed, retried and resumed, it goes on.
    let n = drained[0].0.clone();
    world.agents.values_mut().for_each(|agent| agent.heedless = false);
    let asker = Asker { who: "op".into(), why: "mended".into(), accepts: Default::default() };
    let commit = ask::retry(world.store.fleet(), &world.moment(), &upgrade_id(), &n, &asker).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.resume();
    world.run();
    assert_eq!(world.versions(), [2, 2, 2]);
}

#[test]
fn failure_beside_ineffective_drain_still_counts() {
    let mut world = World::at_version_1(6);
    let all = json!({"strategy": {"rolling": {"batch": 4}}, "min_in_service": 2, "max_unavailable": 4,
        "failures": {"tolerate": 0, "then": "rollback"}});
    // Of any four of the six, one at least is of each kind; they fail at the same time.
    for (n, agent) in world.agents.values_mut().enumerate() {
        (agent.heedless, agent.undrainable) = (n % 2 == 0, n % 2 == 1);
    }
    world.start(spec(all)).unwrap();
    world.run();
    assert!(world.upgrade().unwrap().paused.is_some(), "{:?}", world.phase());
    let heedless: Vec<NodeId> =
        world.agents.iter().filter(|(_, agent)| agent.heedless).map(|(node, _)| node.clone()).collect();
    for (node, failure, counts) in world.failures() {
        assert!(heedless.contains(&node) && !counts, "{node}: {failure:?} was excused with the others");
    }
    // Once it goes on, the failures that blame what runs are weighed.
    world.resume();
    world.run();
    assert!(world.failures().iter().any(|(node, ..)| !heedless.contains(node)), "{:?}", world.failures());
    assert!(
        matches!(world.phase(), Phase::RolledBack { .. } | Phase::RollingBack { .. }),
        "{:?}",
        world.phase()
    );
}

fn asker() -> Asker {
    Asker { who: "op".into(), why: "again".into(), accepts: Default::default() }
}

fn retry(world: &World, n: &NodeId) -> Result<Commit, Refusal> {
    ask::retry(world.store.fleet(), &world.moment(), &upgrade_id(), n, &asker())
}

fn is_of_budget(write: &Write) -> bool {
    matches!(write, Write::Put(Key::Budget(_), _))
}

fn presumes_out(write: &Write) -> bool {
    matches!(write, Write::Put(Key::Directive(..), Value::Directive(directive)) if directive.body.presumes_out)
}

/// Three must stay, and one more than these is in rotation and under no order.
fn with_room_for_one() -> (World, Vec<NodeId>) {
    in_the_second_wave(json!({"min_in_service": 3, "max_unavailable": 4}))
}

/// One of the old version leaves rotation.
fn leaves(world: &mut World) {
    let other = old_ones(world)[0].clone();
    world.agents.get_mut(&other).unwrap().report.rotation = Rotation::Out;
    world.publish(&other);
}

#[test]
fn retry_of_one_that_serves_with_a_fault_is_within_the_budget() {
    let (mut world, first) = with_room_for_one();
    // It is well now, and its agent still says what was wrong with it.
    fails(&mut world, &first[0], true, true);
    let report = &mut world.agents.get_mut(&first[0]).unwrap().report;
    (report.health, report.rotation) = (Health::Healthy, Rotation::In);
    world.publish(&first[0]);
    let commit = retry(&world, &first[0]).unwrap();
    assert!(commit.writes.iter().any(is_of_budget), "another decision about the capacity must not cross it");

    leaves(&mut world);
    let refused = retry(&world, &first[0]).unwrap_err();
    assert!(refused.message.contains("leaves too few"), "{refused}");
}

/// Its health URL answers 200 although it is not ready: balancers send it requests.
#[test]
fn retry_of_an_unready_one_in_rotation_is_within_the_budget() {
    let failed = Step::Failed { at: "verifying".into(), reason: "not ready".into() };
    for step in [Step::Serving, failed] {
        let (mut world, first) = with_room_for_one();
        fails(&mut world, &first[0], true, true);
        world.agents.get_mut(&first[0]).unwrap().report.step = step.clone();
        world.publish(&first[0]);
        let commit = retry(&world, &first[0]).unwrap();
        assert!(commit.writes.iter().any(is_of_budget), "{step:?}");
        let mut well = world.clone();
        recovers(&mut well, &first[0]);
        assert!(!well.store.commit(&commit), "{step:?}: it is one of those that must stay now");

        leaves(&mut world);
        let refused = retry(&world, &first[0]).unwrap_err();
        assert!(refused.message.contains("leaves too few"), "{step:?}: {refused}");
        let (fleet, moment) = (world.store.fleet(), world.moment());
        let declared = ask::retry_stopped(fleet, &moment, &upgrade_id(), &first[0], &asker()).unwrap_err();
        assert!(declared.message.contains("leaves too few"), "{step:?}: {declared}");
    }
}

/// Its order counts it as out already where it runs no version.
#[test]
fn retry_of_a_hidden_instance_costs_no_budget_and_says_so() {
    let hidden = [Rotation::Out, Rotation::Leaving, Rotation::Maintenance];
    let cases = hidden.into_iter().flat_map(|rotation| [(rotation, Some(two())), (rotation, None)]);
    for (rotation, version) in cases {
        let (mut world, first) = with_room_for_one();
        fails(&mut world, &first[0], true, true);
        let report = &mut world.agents.get_mut(&first[0]).unwrap().report;
        report.step = Step::Failed { at: "verifying".into(), reason: "not ready".into() };
        (report.rotation, report.version) = (rotation, version);
        world.publish(&first[0]);
        let with_room = retry(&world, &first[0]).unwrap();
        leaves(&mut world);
        for commit in [with_room, retry(&world, &first[0]).unwrap()] {
            assert!(commit.writes.iter().any(presumes_out), "{rotation:?}, {version:?}: {:?}", commit.writes);
            assert!(!commit.writes.iter().any(is_of_budget), "{rotation:?}, {version:?}");
        }
    }
}

/// It was replaced and has crashed since: its order counts it as out, and a supervisor may start it again at any moment.
#[test]
fn retry_of_a_crashed_one_presumes_it_out_without_capacity() {
    let (mut world, first) = with_room_for_one();
    fails(&mut world, &first[0], true, true);
    let report = &mut world.agents.get_mut(&first[0]).unwrap().report;
    (report.version, report.rotation) = (None, Rotation::Unknown);
    world.publish(&first[0]);
    let commit = retry(&world, &first[0]).unwrap();
    assert!(
        !commit.writes.iter().any(|write| presumes_out(write) || is_of_budget(write)),
        "it counts already"
    );
    let mut well = world.clone();
    well.agents.get_mut(&first[0]).unwrap().report.version = Some(two());
    recovers(&mut well, &first[0]);
    assert!(!well.store.commit(&commit), "it is one of those that must stay now");
    let mut ended = world.clone();
    ended.agents.get_mut(&first[0]).unwrap().report.nothing_runs = true;
    ended.publish(&first[0]);
    let commit = retry(&ended, &first[0]).unwrap();
    assert!(commit.writes.iter().any(presumes_out), "its agent knows whether it runs: {:?}", commit.writes);

    leaves(&mut world);
    let commit = retry(&world, &first[0]).unwrap();
    assert!(commit.writes.iter().any(presumes_out), "{:?}", commit.writes);
    assert!(!commit.writes.iter().any(is_of_budget), "another one counts no less for it");
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.agents.get_mut(&first[0]).unwrap().report.version = Some(two());
    recovers(&mut world, &first[0]);
    world.agent_step(&first[0]);
    let instance = world.store.fleet().service(&service()).unwrap().get(&first[0]).unwrap();
    assert!(instance.has_declined() && instance.is_in_service(), "{:?}", instance.report);
}

/// A person declares it stopped, and a supervisor may start it again at any moment.
#[test]
fn declared_stop_of_what_may_come_back_is_within_the_budget() {
    let declare = |world: &World, n: &NodeId| {
        ask::retry_stopped(world.store.fleet(), &world.moment(), &upgrade_id(), n, &asker())
    };
    let (mut world, first) = with_room_for_one();
    fails(&mut world, &first[0], true, true);
    world.agents.get_mut(&first[0]).unwrap().report.rotation = Rotation::Unknown;
    world.publish(&first[0]);
    let commit = declare(&world, &first[0]).unwrap();
    assert!(commit.writes.iter().any(is_of_budget), "its health URL may answer 200 again");
    leaves(&mut world);
    let refused = declare(&world, &first[0]).unwrap_err();
    assert!(refused.message.contains("leaves too few"), "{refused}");

    // Without a version, it counts as out by its order.
    world.agents.get_mut(&first[0]).unwrap().report.version = None;
    world.publish(&first[0]);
    let commit = declare(&world, &first[0]).unwrap();
    let is_compared = commit.when.iter().any(|held| matches!(held, Precondition::At(Key::Budget(_), _)));
    assert!(is_compared && commit.writes.iter().any(presumes_out), "{commit:?}");
}
