//! What may be out at once, and how many failures are allowed.

use crate::hiccups::disposition;
use crate::sim::{World, binding, node, release, service, spec, upgrade_id};
use crate::stragglers::nothing_runs;
use serde_json::json;
use std::collections::BTreeSet;
use tidegate_planner::ask::{self, Asker};
use tidegate_planner::gate::{BudgetGate, RollGate, VersionGate, Waits};
use tidegate_planner::{Plan, Reason, Sample};
use tidegate_proto::Key;
use tidegate_proto::commit::Commit;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Health, Rotation, Step};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase, SchemaBinding};

fn reasons(plan: &Plan) -> &[Reason] {
    plan.waiting.get(&upgrade_id()).map_or(&[], Vec::as_slice)
}

fn is_in(world: &World, n: usize) -> bool {
    world.agents[&node(n)].report.rotation == Rotation::In
}

fn set_health(world: &mut World, n: usize, health: Health) {
    world.set_unready(&node(n), health == Health::Unhealthy);
}

#[test]
fn instances_of_unavailable_domain_are_moved_together() {
    // Zones a, b, c, a, b, c: who could go together are not next to each other.
    let mut world = World::at_version_1(6);
    world.start(spec(json!({"strategy": "immediate", "max_unavailable": 2, "failure_domain": "zone", "min_in_service": 1}))).unwrap();
    world.run();
    assert_eq!((world.phase(), world.min_seen_in_service), (Phase::Completed, 4));
}

/// A fleet in its roll, joined by one whose agent has no label.
fn joined_without_a_label(health: Health) -> World {
    let mut world = World::at_version_1(4);
    let change = json!({"max_unavailable": 3, "failure_domain": "zone", "min_in_service": 1});
    world.start(spec(change)).unwrap();
    world.until_roll();
    world.join(9, 1);
    world.agents.get_mut(&node(9)).unwrap().zone = String::new();
    world.admit(&node(9));
    set_health(&mut world, 9, health);
    world
}

#[test]
fn unlabelled_instance_out_counts_for_every_domain() {
    let mut world = joined_without_a_label(Health::Unhealthy);
    let last = world.run();
    assert_eq!(world.versions(), [1; 5], "no other instance was taken out");
    let named = Reason::Budget(BudgetGate::Unlabelled { nodes: Sample { first: vec![node(9)], count: 1 } });
    assert!(reasons(&last).contains(&named), "{:?}", last.waiting);
    set_health(&mut world, 9, Health::Healthy);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn instance_without_the_label_goes_alone() {
    let mut world = joined_without_a_label(Health::Healthy);
    for _ in 0..10_000 {
        let (changed, _) = world.turn();
        let moved = world.agents_step();
        let out = (0..4).filter(|n| !is_in(&world, *n)).count();
        assert!(is_in(&world, 9) || out == 0, "{out} are out together with it");
        if !changed && !moved {
            break;
        }
    }
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn instance_already_out_is_replaced_first_without_budget() {
    let mut world = World::at_version_1(4);
    let report = &mut world.agents.get_mut(&node(2)).unwrap().report;
    (report.health, report.rotation, report.step) = (Health::Unhealthy, Rotation::Out, Step::Stopped);
    world.publish(&node(2));
    world.start(spec(json!({"strategy": "immediate", "max_unavailable": 1, "min_in_service": 3}))).unwrap();
    world.until_roll();
    for _ in 0..50 {
        if world.versions().contains(&2) {
            break;
        }
        assert!([0, 1, 3].iter().all(|n| is_in(&world, *n)), "the budget is used up by the broken one");
        world.turn();
        world.agents_step();
    }
    assert_eq!(world.agents[&node(2)].release.version.get(), 2, "it costs nothing, and it goes first");
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
}

/// Six at once; these are broken at the new version; how it ends.
fn with_broken(broken: &[usize], failures: serde_json::Value) -> (World, Plan) {
    let mut world = World::at_version_1(6);
    for n in broken {
        world.agents.get_mut(&node(*n)).unwrap().broken_at = Some(2);
    }
    world
        .start(spec(
            json!({"strategy": "immediate", "max_unavailable": 3, "min_in_service": 1, "failures": failures}),
        ))
        .unwrap();
    let last = world.run();
    (world, last)
}

#[test]
fn failures_are_counted_in_each_wave_and_in_all() {
    let ends = |broken: &[usize], failures| with_broken(broken, failures).0.phase().name().word();
    assert_eq!(ends(&[0, 1], json!({"tolerate": 3, "per_wave": 1})), "rolled-back", "two in one wave");
    assert_eq!(ends(&[0, 1], json!({"tolerate": 3, "per_wave": 2})), "remove", "within both: it goes on");
    assert_eq!(ends(&[0, 1], json!({"tolerate": 1, "per_wave": 2})), "rolled-back", "two in all");
    assert_eq!(ends(&[0], json!({"tolerate": "17%", "per_wave": 1})), "remove", "17 % of six is one");
    assert_eq!(ends(&[0], json!({"tolerate": "16%", "per_wave": 1})), "rolled-back", "16 % of six is none");
}

#[test]
fn wave_without_a_verified_instance_has_not_passed() {
    let mut world = World::at_version_1(3);
    world.agents.values_mut().for_each(|agent| agent.broken_at = Some(2));
    world.start(spec(json!({"min_in_service": 1, "failures": {"tolerate": 3, "per_wave": 3}}))).unwrap();
    let last = world.run();
    assert_eq!(world.phase(), Phase::Roll { wave: 0 });
    assert_eq!(world.versions().iter().filter(|version| **version == 2).count(), 1, "one was touched");
    let empty = Reason::Roll(RollGate::EmptyWave { wave: 0, rollback_path: true });
    assert!(reasons(&last).contains(&empty), "{:?}", last.waiting);
}

/// One that was taken out falls silent, and the progress deadline passes.
fn silent_for_too_long(ignore: &[&str]) -> (World, Plan) {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"failures": {"ignore": ignore}}))).unwrap();
    one_falls_silent(&mut world);
    world.stalled_ms = 10 * 60 * 1000;
    let (_, plan) = world.turn();
    (world, plan)
}

/// The first that is taken out falls silent; the others go on as far as they may.
fn one_falls_silent(world: &mut World) {
    world.until_roll();
    let ordered = |world: &World| -> BTreeSet<_> {
        world.store.fleet().service(&service()).unwrap().ordered().each.map(|i| i.node.clone()).collect()
    };
    while ordered(world).is_empty() {
        world.turn();
    }
    let n = ordered(world).into_iter().next().unwrap();
    world.fall_silent(n.as_str()[1..].parse().unwrap());
    world.run();
}

#[test]
fn progress_is_stored_after_a_wait_and_ends_the_stall() {
    let mut world = World::at_version_1(4);
    let strategy = json!({"strategy": "immediate", "max_unavailable": 2, "min_in_service": 1});
    world.start(spec(strategy)).unwrap();
    one_falls_silent(&mut world);
    let stored = |world: &World| (world.phase().name(), world.upgrade().unwrap().done);
    let roll = world.phase().name();
    assert_eq!(
        stored(&world),
        (roll, 0),
        "nothing waited, so no commit of its own stores that three are done"
    );
    world.stalled_ms = 10 * 60 * 1000;
    world.turn();
    assert_eq!(stored(&world), (roll, 3), "what was done meanwhile is stored, and no stall is reported");
    world.turn();
    assert!(matches!(world.phase(), Phase::RollingBack { .. }), "{:?}", world.phase());
}

#[test]
fn silent_instance_is_failure_unless_spec_ignores_it() {
    let (world, _) = silent_for_too_long(&[]);
    assert!(matches!(world.phase(), Phase::RollingBack { .. }), "{:?}", world.phase());
    let (world, plan) = silent_for_too_long(&["unreachable"]);
    assert!(matches!(world.phase(), Phase::Roll { .. }), "{:?}", world.phase());
    let reported: Vec<&str> = reasons(&plan).iter().map(Reason::kind).collect();
    assert!(reported.contains(&"silent") && reported.contains(&"stalled"), "{reported:?}");
}

/// No order has taken it out, and only a person can say that it is gone.
#[test]
fn silent_instance_under_no_order_is_named_in_the_roll() {
    for max_unavailable in [1, 2] {
        let mut world = World::at_version_1(3);
        let limits = json!({
            "strategy": "immediate", "max_unavailable": max_unavailable, "min_in_service": 1,
            "failures": {"ignore": ["unreachable"]},
        });
        world.start(spec(limits)).unwrap();
        world.until_roll();
        world.fall_silent(2);
        let nodes = Sample { first: vec![node(2)], count: 1 };
        let silent = Reason::Version(VersionGate::Silent { service: service(), nodes });
        let at_rest = world.run();
        assert!(reasons(&at_rest).contains(&silent), "{:?}", at_rest.waiting);
        world.stalled_ms = 10 * 60 * 1000;
        world.turn();
        let (_, stalled) = world.turn();
        assert!(reasons(&stalled).iter().any(|reason| reason.kind() == "stalled"), "{:?}", stalled.waiting);
        assert!(reasons(&stalled).contains(&silent), "{:?}", stalled.waiting);
        world.stalled_ms = 0;
        world.decommission(2);
        let last = world.run();
        assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    }
}

/// Rows were migrated that the former version cannot read.
#[test]
fn held_roll_that_cannot_go_back_advises_no_rollback() {
    let started = |mut change: serde_json::Value| {
        change["schema"] = json!({"database": {"from_env": "PANTRY"}, "migrations": "pantry"});
        let bound = SchemaBinding { old_reads_migrated: false, ..binding(MigrateOrder::BeforeRoll) };
        let mut world = World::at_version_1(3);
        world.start_bound(spec(change), bound).unwrap();
        world
    };
    let mut broken = started(json!({"min_in_service": 1, "failures": {"tolerate": 3, "per_wave": 3}}));
    broken.agents.values_mut().for_each(|agent| agent.broken_at = Some(2));
    let empty = broken.run();
    let mut silent = started(json!({"failures": {"ignore": ["unreachable"]}}));
    one_falls_silent(&mut silent);
    silent.stalled_ms = 10 * 60 * 1000;
    let (_, stalled) = silent.turn();
    let asker = Asker { who: "op".into(), why: "regret".into(), accepts: Default::default() };
    for (kind, world, plan) in [("empty-wave", broken, &empty), ("stalled", silent, &stalled)] {
        let refused = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker);
        assert!(refused.is_err(), "{kind}: {:?}", world.phase());
        let explained = reasons(plan).iter().map(|reason| reason.explained(Waits::Upgrade(&upgrade_id())));
        let explained: Vec<_> = explained.collect();
        assert!(explained.iter().any(|reason| reason.kind == kind), "{explained:?}");
        let advised: Vec<&str> = explained.iter().filter_map(|reason| reason.next_step.as_deref()).collect();
        assert!(!advised.is_empty() && !advised.iter().any(|step| step.contains("rollback")), "{advised:?}");
    }
}

/// An instance of the last wave that no order takes out, whose agent lost its journal while nothing ran there.
fn with_a_lost_release(strategy: &serde_json::Value) -> (World, usize) {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"strategy": strategy, "max_unavailable": 1, "min_in_service": 1}))).unwrap();
    world.until_roll();
    let fleet = world.store.fleet().service(&service()).unwrap();
    let serves = |n: &usize| {
        let directive = fleet.get(&node(*n)).unwrap().directive.as_ref();
        !directive.is_some_and(|directive| directive.disposition.takes_out())
    };
    let lost = (0..3).filter(serves).max_by_key(|n| fleet.get(&node(*n)).unwrap().wave).unwrap();
    let report = nothing_runs(&mut world, lost, Step::Starting, Health::Unhealthy);
    (report.rotation, report.answers) = (Rotation::Out, Some("probe: nothing runs".into()));
    world.publish(&node(lost));
    (world, lost)
}

#[test]
fn skipped_instance_that_holds_capacity_is_named_with_retry() {
    let (mut world, lost) = with_a_lost_release(&json!("immediate"));
    let asker = Asker { who: "op".into(), why: "its disk".into(), accepts: Default::default() };
    let carry_out = |world: &mut World, commit: Commit| {
        assert!(world.store.commit(&commit));
        world.events += 1;
    };
    let skip = ask::skip(world.store.fleet(), &world.moment(), &upgrade_id(), &node(lost), &asker).unwrap();
    carry_out(&mut world, skip);
    let at_rest = world.run();
    assert!(matches!(world.phase(), Phase::Roll { .. }), "{:?}", at_rest.waiting);
    let nodes = Sample { first: vec![node(lost)], count: 1 };
    assert!(reasons(&at_rest).contains(&Reason::Roll(RollGate::Skipped { nodes })), "{:?}", at_rest.waiting);
    let again = ask::retry(world.store.fleet(), &world.moment(), &upgrade_id(), &node(lost), &asker).unwrap();
    carry_out(&mut world, again);
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.versions(), [2; 3]);
}

/// Its stage hook has put the former release nowhere, or is at work: no roll begins with an instance that could not go back.
#[test]
fn unstaged_instance_that_holds_capacity_is_named() {
    for fails in [true, false] {
        let (mut world, lost) = with_a_lost_release(&json!("immediate"));
        let at = |key: Key| world.store.keys[&key].1;
        let obeyed = (at(Key::Directive(service(), node(lost))), at(Key::Window(service())));
        let (former, why) = (release(1), "no file has this sha256".to_owned());
        let agent = world.agents.get_mut(&node(lost)).unwrap();
        agent.staged.remove(&former);
        agent.idle = Some(obeyed);
        if fails {
            agent.report.stage_failures.insert(former.tag.clone(), why.clone());
        }
        world.publish(&node(lost));
        let at_rest = world.run();
        assert!(matches!(world.phase(), Phase::Roll { .. }), "{:?}", at_rest.waiting);
        let nodes = Sample { first: vec![node(lost)], count: 1 };
        let reason = match fails {
            true => RollGate::StageFailed { node: node(lost), release: former.tag, why },
            false => RollGate::Staging { release: release(2).tag, nodes },
        };
        assert!(reasons(&at_rest).contains(&Reason::Roll(reason)), "{:?}", at_rest.waiting);
        if fails {
            let asker = Asker { who: "op".into(), why: "mended".into(), accepts: Default::default() };
            let again = ask::retry(world.store.fleet(), &world.moment(), &upgrade_id(), &node(lost), &asker);
            assert!(world.store.commit(&again.unwrap()));
            world.events += 1;
        }
        let agent = world.agents.get_mut(&node(lost)).unwrap();
        agent.report.stage_failures.clear();
        agent.idle = None;
        let last = world.run();
        assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
        assert_eq!(world.versions(), [2; 3]);
    }
}

#[test]
fn instance_of_a_lost_journal_is_moved_before_its_wave() {
    let (mut world, lost) = with_a_lost_release(&json!({"rolling": {"batch": 1}}));
    let wave = world.store.fleet().service(&service()).unwrap().get(&node(lost)).unwrap().wave;
    assert!(wave > Some(0), "its wave is not exposed yet");
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.versions(), [2; 3]);
}

/// Another one is being moved. What was put there is no failure of the new version.
#[test]
fn version_changed_in_rotation_waits_for_the_budget() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"max_unavailable": 1, "min_in_service": 2}))).unwrap();
    let first = |world: &World| {
        let serves = |n: &usize| {
            let agent = &world.agents[&node(*n)];
            agent.release.version.get() == 2 && agent.report.step == Step::Serving
        };
        (0..3).find(serves)
    };
    world.until("the second is out", |world| first(world).is_some() && world.really_in_service() == 2);
    let first = first(&world).unwrap();
    crate::outside::put_back(&mut world, first, 3);
    let last = world.run();
    assert!(world.failures().is_empty(), "{:?}", world.failures());
    assert_eq!((world.phase(), world.versions()), (Phase::Completed, vec![2; 3]), "{:?}", last.waiting);
}

/// Each of these orders compares a report, and the store asserts that a transaction has at most 128 operations a side.
#[test]
fn many_unready_ones_are_stopped_over_several_turns() {
    let mut world = World::at_version_1(60);
    world.start(spec(json!({"strategy": "immediate", "max_unavailable": 60, "min_in_service": 0}))).unwrap();
    world.until_roll();
    world.turn();
    (0..60).for_each(|n| world.set_unready(&node(n), true));
    for _ in 0..5 {
        world.agents_step();
    }
    let drained = world.agents.values().filter(|agent| matches!(agent.report.step, Step::Drained { .. }));
    assert_eq!(drained.count(), 50);
    world.turn();
    let is_stopped = |n: &usize| matches!(disposition(&world, *n), Some(Disposition::Replace { .. }));
    assert_eq!((0..60).filter(is_stopped).count(), 16);
    (0..60).for_each(|n| world.set_unready(&node(n), false));
    world.run();
    assert_eq!((world.phase(), world.versions()), (Phase::Completed, vec![2; 60]));
}
