//! An instance at the wrong version after the roll is kept out of rotation by the window, and moved like the rest.

mod looks;
mod stopped;

use crate::reconcile::window;
use crate::sim::{World, node, release, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::{self, Asker};
use tidegate_proto::commit::Commit;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Fault, Health, Report, Rotation, Step};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase, RollbackStep};
use tidegate_proto::record::window::Window;
use tidegate_proto::{InstanceId, Key};

/// Its report says that nothing runs there: no version and no release.
pub(crate) fn nothing_runs(world: &mut World, n: usize, step: Step, health: Health) -> &mut Report {
    let report = &mut world.agents.get_mut(&node(n)).unwrap().report;
    (report.version, report.release, report.release_digest) = (None, None, None);
    (report.step, report.rotation, report.health) = (step, Rotation::Unknown, health);
    report
}

/// In roll, one that still serves the former version is switched off and decommissioned: which.
fn one_is_decommissioned_in_roll(world: &mut World) -> usize {
    world.until_roll();
    let last = (0..3).rev().find(|n| world.agents[&node(*n)].report.step == Step::Serving).unwrap();
    world.fall_silent(last);
    let gone = ask::Gone { stopped_how: Some("power is off".into()), ..Default::default() };
    let asker = Asker { who: "op".into(), why: "it is gone".into(), accepts: Default::default() };
    let id = InstanceId::new(service(), node(last));
    let commit = ask::decommission(world.store.fleet(), &world.moment(), &id, gone, &asker).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    last
}

/// Runs until `there`, then one node goes away and comes back with a version that is not admitted any more.
fn returns_with(world: &mut World, version: i64, there: impl Fn(&Phase) -> bool) {
    for _ in 0..1000 {
        if there(&world.phase()) {
            world.fall_silent(1);
            world.return_with(&node(1), version);
            assert_eq!(world.agents[&node(1)].report.step.word(), "refused");
            return;
        }
        world.turn();
        world.agents_step();
    }
    panic!("it stayed in {:?}", world.phase());
}

#[test]
fn an_old_one_that_returns_in_remove_is_moved() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    returns_with(&mut world, 1, |phase| *phase == Phase::Remove);
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.versions(), [2; 3]);
    assert!(world.agents[&node(1)].staged == [release(2)].into(), "its old code is gone too");
}

#[test]
fn an_old_one_that_returns_in_contract_is_moved() {
    let mut world = World::at_version_1(3);
    let schema = json!({"schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"}});
    world.start_with_schema(spec(schema), MigrateOrder::BeforeRoll);
    returns_with(&mut world, 1, |phase| matches!(phase, Phase::Contract { .. }));
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.versions(), [2; 3]);
}

#[test]
fn instance_joining_after_last_wave_unstarted_is_moved() {
    let schema = json!({
        "schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"},
        "max_unavailable": 1, "min_in_service": 2,
    });
    for phase in ["remove", "contract"] {
        let mut world = World::at_version_1(3);
        world.start_with_schema(spec(schema.clone()), MigrateOrder::BeforeRoll);
        world.until(phase, |world| world.phase().name().word() == phase);
        // Their supervisors were refused the old release, which they have; their agents know of none. The first one has
        // not reported yet that it is out, and is drained before it is replaced.
        for (n, rotation) in [(4, Rotation::Unknown), (5, Rotation::Out), (6, Rotation::Out)] {
            world.join(n, 1);
            let report = &mut world.agents.get_mut(&node(n)).unwrap().report;
            (report.version, report.release, report.release_digest) = (None, None, None);
            (report.step, report.rotation, report.health) = (Step::Starting, rotation, Health::Unhealthy);
            world.agents.get_mut(&node(n)).unwrap().ill_at = Some(1);
            world.publish(&node(n));
            if n == 4 {
                let is_drained = |world: &World| {
                    let (service, node) = (world.store.fleet().service(&service()).unwrap(), node(4));
                    service.get(&node).unwrap().directive.as_ref().is_some_and(|d| d.disposition.takes_out())
                };
                world.until("it is drained", is_drained);
            }
        }
        let last = world.run();
        assert_eq!(world.phase(), Phase::Completed, "{phase}: {:?}", last.waiting);
        assert_eq!(world.versions(), [2; 6]);
    }
}

/// It was switched off and decommissioned before its wave. Its agent may not start the version that was admitted last.
#[test]
fn decommissioned_instance_returning_in_remove_is_moved() {
    let schema = json!({
        "schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"},
        "max_unavailable": 1, "min_in_service": 1,
    });
    for phase in ["remove", "contract"] {
        let mut world = World::at_version_1(3);
        world.start_with_schema(spec(schema.clone()), MigrateOrder::BeforeRoll);
        let last = one_is_decommissioned_in_roll(&mut world);
        world.until(phase, |world| world.phase().name().word() == phase);
        let agent = world.agents.get_mut(&node(last)).unwrap();
        assert_eq!(agent.release, release(1));
        (agent.alive, agent.unready) = (true, true);
        let report = &mut agent.report;
        (report.version, report.release, report.release_digest) = (None, None, None);
        (report.step, report.rotation, report.health) = (Step::Verifying, Rotation::Unknown, Health::Unknown);
        world.publish(&node(last));
        // It is ordered to serve, accepts that, and starts nothing.
        world.run();
        assert_eq!(world.phase().name().word(), phase);
        let agent = world.agents.get_mut(&node(last)).unwrap();
        agent.unready = false;
        agent.report.step = Step::Failed { at: "verifying".into(), reason: "nothing listens".into() };
        agent.report.health = Health::Unhealthy;
        world.publish(&node(last));
        let last = world.run();
        assert_eq!(world.phase(), Phase::Completed, "{phase}: {:?}", last.waiting);
        assert_eq!(world.versions(), [2; 3]);
    }
}

/// It was switched off before its wave, and comes back while the rows are migrated: its directive is the one that it had, so
/// that it is not verified again, and reports a fault instead of a failure.
#[test]
fn old_one_that_starts_nothing_after_the_roll_is_moved() {
    let change = json!({
        "schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"},
        "max_unavailable": 1, "min_in_service": 1,
    });
    let mut world = World::at_version_1(3);
    world.start_with_schema(spec(change), MigrateOrder::AfterRoll);
    let last = one_is_decommissioned_in_roll(&mut world);
    world.until("migrate", |world| world.phase().name().word() == "migrate");
    let faulty = |world: &mut World, lasting: bool| {
        let agent = world.agents.get_mut(&node(last)).unwrap();
        assert_eq!(agent.release, release(1));
        (agent.alive, agent.ill_at) = (true, Some(1));
        let report = nothing_runs(world, last, Step::Serving, Health::Unhealthy);
        let reason = "nothing listens where it should answer".to_owned();
        report.fault = Some(Box::new(Fault { reason, lasting, recent: true }));
        world.publish(&node(last));
    };
    faulty(&mut world, false);
    world.run();
    assert_eq!(world.phase().name().word(), "migrate", "it may be a hiccup");
    faulty(&mut world, true);
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.versions(), [2; 3]);
}

/// It was away while the store was lost: this store knows no admission of it, and its agent may not start what ran there.
#[test]
fn old_one_without_admission_returning_in_remove_is_moved() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"max_unavailable": 1, "min_in_service": 1}))).unwrap();
    world.until("remove", |world| world.phase() == Phase::Remove);
    world.join(4, 1);
    assert!(!world.store.keys.contains_key(&Key::Inventory(service(), node(4))));
    let unhealthy = |world: &mut World, step: Step, health: Health| {
        nothing_runs(world, 4, step, health);
        world.publish(&node(4));
    };
    // It is ordered to serve, accepts that, and starts nothing.
    world.agents.get_mut(&node(4)).unwrap().unready = true;
    unhealthy(&mut world, Step::Verifying, Health::Unknown);
    world.run();
    assert_eq!(world.phase(), Phase::Remove);
    let agent = world.agents.get_mut(&node(4)).unwrap();
    (agent.unready, agent.ill_at) = (false, Some(1));
    let failed = Step::Failed { at: "verifying".into(), reason: "nothing listens".into() };
    unhealthy(&mut world, failed, Health::Unhealthy);
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.versions(), [2; 4]);
}

/// Its agent has lost its journal, and what ran there has ended: nothing says what is to be started.
#[test]
fn instance_of_a_lost_journal_unstarted_is_moved() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"max_unavailable": 1, "min_in_service": 1}))).unwrap();
    // Its directive is the one of remove: nothing follows that one any more.
    let is_directed = |world: &World| {
        let instance = world.store.fleet().service(&service()).unwrap().get(&node(1)).unwrap();
        let directive = instance.directive.as_ref();
        let serves = directive.is_some_and(|d| matches!(d.disposition, Disposition::Serve { .. }));
        world.phase() == Phase::Remove && serves
    };
    world.until("it is ordered to remove the old code", is_directed);
    let unstarted = |world: &mut World, answers: Option<&str>| {
        let report = nothing_runs(world, 1, Step::Starting, Health::Unhealthy);
        report.answers = answers.map(Into::into);
        world.publish(&node(1));
    };
    unstarted(&mut world, None);
    world.run();
    assert_eq!(world.phase(), Phase::Remove, "it may be on its way up");
    unstarted(&mut world, Some("probe: nothing runs"));
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.agents[&node(1)].report.version, Some(release(2).version));
}

/// Labels come with an admission: the one that joined has none, and is drained as the only one that is out.
#[test]
fn unlabelled_drained_instance_unstarted_is_moved() {
    let mut world = World::at_version_1(3);
    world
        .start(spec(json!({"strategy": "immediate", "failure_domain": "zone", "min_in_service": 2})))
        .unwrap();
    world.until_roll();
    world.join(4, 1);
    let report = &mut world.agents.get_mut(&node(4)).unwrap().report;
    (report.version, report.release, report.release_digest) = (None, None, None);
    (report.step, report.rotation, report.health) = (Step::Starting, Rotation::Unknown, Health::Unhealthy);
    world.agents.get_mut(&node(4)).unwrap().ill_at = Some(1);
    world.publish(&node(4));
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
}

#[test]
fn late_version_of_new_instance_is_moved_after_rollback() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    world.until("roll", |world| matches!(world.phase(), Phase::Roll { .. }));
    let asker = Asker { who: "op".into(), why: "regret".into(), accepts: Default::default() };
    let commit = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    let is_lowering =
        |world: &World| matches!(world.phase(), Phase::RollingBack { step: RollbackStep::Lower, .. });
    world.until("the ceiling is lowered", is_lowering);
    // It was admitted as version 1, and says only now that it is version 2.
    world.return_with(&node(1), 2);
    world.agents.get_mut(&node(1)).unwrap().report.version = Some(release(2).version);
    world.publish(&node(1));
    let last = world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}: {:?}", world.phase(), last.waiting);
    assert_eq!(world.versions(), [1; 3]);
}

#[test]
fn a_new_one_that_returns_after_the_way_back_is_moved() {
    for (schema, step) in [(false, RollbackStep::Lower), (true, RollbackStep::Undo)] {
        let mut world = World::at_version_1(3);
        let mut change = json!({"approvals": ["remove"]});
        if schema {
            change["schema"] = json!({"database": {"from_env": "PANTRY"}, "migrations": "pantry"});
            world.start_with_schema(spec(change), MigrateOrder::BeforeRoll);
        } else {
            world.start(spec(change)).unwrap();
        }
        world.run();
        let asker = Asker { who: "op".into(), why: "regret".into(), accepts: Default::default() };
        let commit = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker).unwrap();
        assert!(world.store.commit(&commit));
        world.events += 1;
        let there = |phase: &Phase| matches!(phase, Phase::RollingBack { step: at, .. } if *at == step);
        returns_with(&mut world, 2, there);
        let last = world.run();
        assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}: {:?}", world.phase(), last.waiting);
        assert_eq!(world.versions(), [1; 3]);
    }
}

/// A store that was reconciled: its window also admits what an instance claimed to run.
fn is_widened(world: &mut World) {
    let reconciliation = "reconciliation".parse().unwrap();
    let (floor, ceiling) = (release(2).version, release(7).version);
    let window = Window { floor, ceiling, set_by: reconciliation, contracted: None };
    world.store.put(Key::Window(service()), window);
}

#[test]
fn window_widened_by_reconciliation_narrows_before_end() {
    let with_schema = json!({"schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"}});
    for (change, phase) in [(json!({}), "remove"), (with_schema.clone(), "remove"), (with_schema, "contract")]
    {
        let mut world = World::at_version_1(3);
        match change["schema"].is_null() {
            true => world.start(spec(change)).unwrap(),
            false => world.start_with_schema(spec(change), MigrateOrder::BeforeRoll),
        }
        world.until(phase, |world| world.phase().name().word() == phase);
        is_widened(&mut world);
        let last = world.run();
        assert_eq!(world.phase(), Phase::Completed, "{phase}: {:?}", last.waiting);
        assert_eq!(window(&world), Some((2, 2)), "{phase}");
    }
}

#[test]
fn another_build_of_the_version_that_is_wanted_is_no_old_code() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    world.until("remove", |world| world.phase() == Phase::Remove);
    world.join(4, 2);
    let agent = world.agents.get_mut(&node(4)).unwrap();
    agent.release.tag = "pantry-2-mended".parse().unwrap();
    agent.report.release = Some(agent.release.tag.clone());
    agent.staged = [agent.release.clone()].into();
    world.admit(&node(4));
    world.publish(&node(4));
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
}

fn nothing_runs_on_4(world: &mut World, step: Step, rotation: Rotation) {
    let report = &mut world.agents.get_mut(&node(4)).unwrap().report;
    (report.version, report.release, report.release_digest) = (None, None, None);
    (report.step, report.rotation, report.health) = (step, rotation, Health::Unhealthy);
    world.publish(&node(4));
}

fn is_4_ordered(world: &World, wanted: Disposition) -> bool {
    let instance = world.store.fleet().service(&service()).unwrap().get(&node(4)).unwrap();
    instance.directive.as_ref().is_some_and(|directive| directive.disposition == wanted)
}

/// A roll in which one has joined with nothing to start and was drained, which failed.
fn with_an_unstarted_newcomer_that_failed(change: serde_json::Value) -> World {
    let mut world = World::at_version_1(3);
    world.start(spec(change)).unwrap();
    world.until_roll();
    world.join(4, 1);
    assert!(world.store.commit(&Commit::new().delete(Key::Inventory(service(), node(4)))));
    nothing_runs_on_4(&mut world, Step::Starting, Rotation::Unknown);
    world.until("it is drained", |world| is_4_ordered(world, Disposition::Drain));
    let failed = Step::Failed { at: "draining".into(), reason: "requests could not be counted".into() };
    nothing_runs_on_4(&mut world, failed, Rotation::Unknown);
    world
}

/// It was let back when people went back.
#[test]
fn unstarted_instance_is_moved_in_rollback_after_failure() {
    let mut world =
        with_an_unstarted_newcomer_that_failed(json!({"max_unavailable": 1, "min_in_service": 2}));
    let asker = Asker { who: "op".into(), why: "regret".into(), accepts: Default::default() };
    let commit = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.until("it is let back", |world| is_4_ordered(world, Disposition::Serve { returning: true }));
    nothing_runs_on_4(&mut world, Step::Stopped, Rotation::Out);
    let last = world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}: {:?}", world.phase(), last.waiting);
}

/// It was let back once a person let the upgrade go on. It is all that may be out, so the others wait for it.
#[test]
fn unstarted_instance_is_moved_in_roll_after_failure() {
    let mut world = with_an_unstarted_newcomer_that_failed(json!({
        "max_unavailable": 1, "min_in_service": 2, "failures": {"then": "pause"},
    }));
    world.until("it is paused", |world| world.upgrade().unwrap().paused.is_some());
    world.resume();
    world.until("it is let back", |world| is_4_ordered(world, Disposition::Serve { returning: true }));
    nothing_runs_on_4(&mut world, Step::Stopped, Rotation::Out);
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.versions(), [2; 4]);
}
