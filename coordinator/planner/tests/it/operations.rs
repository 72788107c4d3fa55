//! What operators ask, at the right and at the wrong time.

use crate::sim::{World, node, spec, upgrade_id};
use crate::stragglers::nothing_runs;
use serde_json::json;
use tidegate_planner::Reason;
use tidegate_planner::ask::{self, Asker};
use tidegate_planner::gate::{PersonGate, RollGate, Waits};
use tidegate_proto::commit::Precondition;
use tidegate_proto::record::report::{Health, Rotation, Step};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase};
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::{Key, NodeId, Revision};

fn asker(why: &str) -> Asker {
    Asker { who: "op".into(), why: why.into(), accepts: Default::default() }
}

#[test]
fn a_second_upgrade_of_the_same_service_is_refused() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    let refused = world.start(spec(json!({}))).unwrap_err();
    assert!(refused.message.contains("upgrade u1 of pantry-api is active"), "{refused}");
}

#[test]
fn upgrade_that_preflight_would_stop_is_not_started() {
    let cases = [
        (json!({"min_in_service": 3}), "leaves none to take out"),
        (json!({"from": 2, "to": 3}), "below `from` (2)"),
        (json!({"failure_domain": "rack"}), "no such label"),
        (json!({"service": "nobody"}), "nobody has no instance"),
        (json!({"release": {"tag": "unheard-of", "sha256": "0".repeat(64)}}), "no artifact for unheard-of"),
        (json!({"to": 1}), "to: 1 is not above"),
    ];
    for (change, expected) in cases {
        let mut world = World::at_version_1(3);
        let revision = world.store.revision;
        let refused = world.start(spec(change.clone())).unwrap_err();
        assert!(refused.message.contains(expected), "{change}: {refused}");
        assert_eq!(world.store.revision, revision, "nothing changed");
    }
}

#[test]
fn an_approval_is_waited_for_and_taken_only_then() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"approvals": ["roll"]}))).unwrap();
    let early =
        ask::approve(world.store.fleet(), &world.moment(), &upgrade_id(), ApprovalPoint::Roll, &asker(""))
            .unwrap_err();
    assert!(early.message.contains("it waits for no approval now"), "{early}");
    let last = world.run();
    assert_eq!(
        last.waiting[&upgrade_id()],
        [Reason::Person(PersonGate::Approval { point: ApprovalPoint::Roll })]
    );
    assert_eq!(world.versions(), [1; 3]);
    let wrong =
        ask::approve(world.store.fleet(), &world.moment(), &upgrade_id(), ApprovalPoint::Remove, &asker(""))
            .unwrap_err();
    assert!(wrong.message.contains("it waits for approval of roll"), "{wrong}");
    let commit =
        ask::approve(world.store.fleet(), &world.moment(), &upgrade_id(), ApprovalPoint::Roll, &asker("go"))
            .unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn a_pause_beats_a_turn_already_planned() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    let planned = tidegate_planner::plan(world.store.fleet(), &world.moment());
    let pause =
        ask::pause(world.store.fleet(), &world.moment(), &upgrade_id(), &asker("wait a moment")).unwrap();
    assert!(world.store.commit(&pause));
    world.events += 1;
    for action in planned.actions {
        if let tidegate_planner::Action::Commit(planned) = action {
            assert!(!world.store.commit(&planned.commit), "{} was carried out after the pause", planned.what);
        }
    }
    world.run();
    assert_eq!(world.phase(), Phase::Preflight);
    let resume = ask::resume(world.store.fleet(), &world.moment(), &upgrade_id(), &asker("")).unwrap();
    assert!(world.store.commit(&resume));
    world.events += 1;
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

/// Turns until the plan holds the move to the second wave, and with it the first drain there.
fn second_wave(world: &mut World) -> (tidegate_planner::PlannedCommit, NodeId) {
    for _ in 0..1000 {
        let planned = tidegate_planner::plan(world.store.fleet(), &world.moment());
        for action in planned.actions {
            let tidegate_planner::Action::Commit(planned) = action else { continue };
            if let Some(node) = planned.what.strip_prefix("roll -> roll wave 2, drain ") {
                let node = node.parse().unwrap();
                return (planned, node);
            }
        }
        world.turn();
        world.agents_step();
    }
    panic!("the second wave never began: {:?}", world.phase());
}

#[test]
fn cordon_during_wave_change_beats_wave_and_move() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    let (planned, next) = second_wave(&mut world);
    let compared = Precondition::At(Key::Maintenance(next.clone()), Revision::ABSENT);
    assert!(planned.commit.when.contains(&compared), "{next} is taken out, whatever keeps it out");
    let cordon = ask::cordon(world.store.fleet(), &world.moment(), &next, &asker("disk swap")).unwrap();
    assert!(world.store.commit(&cordon));
    world.events += 1;
    assert!(!world.store.commit(&planned.commit), "{next} is taken out though it is cordoned");
    assert_eq!(world.phase(), Phase::Roll { wave: 0 });
    let last = world.run();
    assert_eq!(world.phase(), Phase::Roll { wave: 1 }, "{:?}", last.waiting);
    let why = format!("{:?}", last.waiting);
    assert!(why.contains("Maintenance") && why.contains(next.as_str()), "{why}");
}

#[test]
fn a_cordoned_node_is_left_alone_and_named() {
    let mut world = World::at_version_1(4);
    world.start(spec(json!({"max_unavailable": 2, "min_in_service": 1, "approvals": ["roll"]}))).unwrap();
    world.run();
    let commit = ask::cordon(world.store.fleet(), &world.moment(), &node(2), &asker("disk swap")).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    let commit =
        ask::approve(world.store.fleet(), &world.moment(), &upgrade_id(), ApprovalPoint::Roll, &asker(""))
            .unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    let last = world.run();
    assert!(
        last.waiting[&upgrade_id()].contains(&Reason::Roll(RollGate::Maintenance {
            nodes: tidegate_planner::Sample { first: vec![node(2)], count: 1 }
        })),
        "{:?}",
        last.waiting
    );
    assert_eq!(world.agents[&node(2)].release.version.get(), 1);
    let commit = ask::uncordon(world.store.fleet(), &world.moment(), &node(2), &asker("")).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn person_rolls_back_and_not_after_the_end() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"approvals": ["remove"]}))).unwrap();
    world.run();
    assert_eq!(world.versions(), [2; 3]);
    let commit =
        ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker("customers complain"))
            .unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
    assert_eq!(world.versions(), [1; 3]);
    let refused =
        ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker("again")).unwrap_err();
    assert!(refused.message.contains("it has ended"), "{refused}");
}

#[test]
fn a_failed_instance_is_retried_under_a_new_generation() {
    let mut world = World::at_version_1(3);
    world.agents.values_mut().for_each(|a| a.broken_at = Some(2));
    world.start(spec(json!({"failures": {"then": "pause"}, "min_in_service": 1}))).unwrap();
    world.run();
    let failed = world.failures().remove(0).0;
    world.agents.values_mut().for_each(|a| a.broken_at = None);
    let commit =
        ask::retry(world.store.fleet(), &world.moment(), &upgrade_id(), &failed, &asker("fixed")).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    let commit = ask::resume(world.store.fleet(), &world.moment(), &upgrade_id(), &asker("")).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn failed_removal_is_named_with_its_cause_and_retried() {
    let mut world = World::at_version_1(2);
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    world.until("remove", |world| world.phase() == Phase::Remove);
    let former = crate::sim::release(1);
    let report = &mut world.agents.get_mut(&node(1)).unwrap().report;
    report.staged = [former.tag.clone(), crate::sim::release(2).tag].into();
    report.stage_failures.insert(former.tag.clone(), "the remove hook did not end".into());
    world.publish(&node(1));
    world.turn();
    assert_eq!(world.phase(), Phase::Remove);
    let plan = tidegate_planner::plan(world.store.fleet(), &world.moment());
    let waiting = &plan.waiting[&upgrade_id()];
    let why = "the remove hook did not end".to_owned();
    let reason = Reason::Roll(RollGate::StageFailed { node: node(1), release: former.tag, why });
    assert!(waiting.contains(&reason), "{waiting:?}");
    let at_work = |reason: &Reason| matches!(reason, Reason::Roll(RollGate::Removing { nodes }) if nodes.to_string().contains("n1"));
    assert!(!waiting.iter().any(at_work), "{waiting:?}");
    assert_eq!(
        reason.explained(Waits::Upgrade(&upgrade_id())).next_step.unwrap(),
        "tidegate upgrade retry u1 n1"
    );
    let commit =
        ask::retry(world.store.fleet(), &world.moment(), &upgrade_id(), &node(1), &asker("mended")).unwrap();
    assert!(world.store.commit(&commit));
}

#[test]
fn retry_stages_instance_after_artifact_is_corrected() {
    let mut world = World::at_version_1(2);
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    while world.phase() != Phase::Stage {
        world.turn();
    }
    world.turn();
    let tag = crate::sim::release(2).tag;
    let agent = world.agents.get_mut(&node(1)).unwrap();
    agent.report.stage_failures.insert(tag.clone(), "the artifact has another sha256".into());
    world.publish(&node(1));
    let plan = tidegate_planner::plan(world.store.fleet(), &world.moment());
    let reason = Reason::Roll(RollGate::StageFailed {
        node: node(1),
        release: tag,
        why: "the artifact has another sha256".into(),
    });
    assert!(plan.waiting[&upgrade_id()].contains(&reason), "{:?}", plan.waiting);
    let staging = plan.waiting[&upgrade_id()].iter().find_map(|reason| match reason {
        Reason::Roll(RollGate::Staging { nodes, .. }) => Some(nodes.to_string()),
        _ => None,
    });
    assert!(
        staging.is_none_or(|nodes| !nodes.contains("n1")),
        "who failed is not at work: {:?}",
        plan.waiting
    );
    assert_eq!(
        reason.explained(Waits::Upgrade(&upgrade_id())).next_step.unwrap(),
        "tidegate upgrade retry u1 n1"
    );
    let key = tidegate_proto::Key::Directive(crate::sim::service(), node(1));
    let before = world.store.keys[&key].1;
    let commit =
        ask::retry(world.store.fleet(), &world.moment(), &upgrade_id(), &node(1), &asker("mended")).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    assert!(world.store.keys[&key].1 > before, "a new generation");
    world.agents.get_mut(&node(1)).unwrap().report.stage_failures.clear();
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

/// What an operator reads of an upgrade that a person pauses now.
fn reasons_when_paused(world: &mut World) -> Vec<Reason> {
    let pause = ask::pause(world.store.fleet(), &world.moment(), &upgrade_id(), &asker("let me look"));
    assert!(world.store.commit(&pause.unwrap()));
    world.events += 1;
    let mut plan = tidegate_planner::plan(world.store.fleet(), &world.moment());
    plan.waiting.remove(&upgrade_id()).unwrap()
}

#[test]
fn paused_upgrade_names_failed_staging() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    while world.phase() != Phase::Stage {
        world.turn();
    }
    world.turn();
    let (tag, why) = (crate::sim::release(2).tag, "the disk is full".to_owned());
    for n in [1, 2] {
        let agent = world.agents.get_mut(&node(n)).unwrap();
        agent.report.stage_failures.insert(tag.clone(), why.clone());
        world.publish(&node(n));
    }
    let skip = ask::skip(world.store.fleet(), &world.moment(), &upgrade_id(), &node(2), &asker("broken"));
    assert!(world.store.commit(&skip.unwrap()));
    world.events += 1;
    let reasons = reasons_when_paused(&mut world);
    let [Reason::Person(PersonGate::Paused { .. }), staging] = &reasons[..] else { panic!("{reasons:?}") };
    assert_eq!(*staging, Reason::Roll(RollGate::StageFailed { node: node(1), release: tag, why }));
    assert_eq!(
        staging.explained(Waits::Upgrade(&upgrade_id())).next_step.unwrap(),
        "tidegate upgrade retry u1 n1"
    );
}

#[test]
fn paused_upgrade_names_failed_removal() {
    let mut world = World::at_version_1(2);
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    world.until("remove", |world| world.phase() == Phase::Remove);
    let (former, why) = (crate::sim::release(1).tag, "the remove hook did not end".to_owned());
    let report = &mut world.agents.get_mut(&node(1)).unwrap().report;
    report.staged = [former.clone(), crate::sim::release(2).tag].into();
    report.stage_failures.insert(former.clone(), why.clone());
    world.publish(&node(1));
    let reasons = reasons_when_paused(&mut world);
    let [Reason::Person(PersonGate::Paused { .. }), removal] = &reasons[..] else { panic!("{reasons:?}") };
    assert_eq!(*removal, Reason::Roll(RollGate::StageFailed { node: node(1), release: former, why }));
}

#[test]
fn pause_names_no_failed_staging_where_retry_is_refused() {
    let schema = json!({"database": {"from_env": "PANTRY"}, "migrations": "pantry"});
    for phase in ["preflight", "expand", "migrate"] {
        let mut world = World::at_version_1(3);
        let change = json!({"schema": schema, "min_in_service": 1});
        world.start_with_schema(spec(change), MigrateOrder::BeforeRoll);
        world.until(phase, |world| world.phase().name().word() == phase);
        let tag = crate::sim::release(2).tag;
        let agent = world.agents.get_mut(&node(1)).unwrap();
        agent.staged.retain(|release| release.tag != tag);
        agent.report.stage_failures.insert(tag, "the disk is full".into());
        world.publish(&node(1));
        let reasons = reasons_when_paused(&mut world);
        assert!(matches!(&reasons[..], [Reason::Person(PersonGate::Paused { .. })]), "{phase}: {reasons:?}");
        let fleet = world.store.fleet();
        let retry = ask::retry(fleet, &world.moment(), &upgrade_id(), &node(1), &asker("mended"));
        assert!(retry.is_err(), "{phase}");
    }
}

/// It joined after the last wave, nothing starts there, and its stage hook had put nothing in place.
#[test]
fn straggler_that_could_not_stage_is_named_and_retried() {
    let schema = json!({
        "schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"},
        "max_unavailable": 1, "min_in_service": 2,
    });
    for phase in ["migrate", "remove", "contract"] {
        let mut world = World::at_version_1(3);
        world.start_with_schema(spec(schema.clone()), MigrateOrder::AfterRoll);
        world.until(phase, |world| world.phase().name().word() == phase);
        world.join(4, 1);
        let (tag, why) = (crate::sim::release(2).tag, "no file has this sha256".to_owned());
        let report = nothing_runs(&mut world, 4, Step::Starting, Health::Unhealthy);
        report.rotation = Rotation::Out;
        report.stage_failures.insert(tag.clone(), why.clone());
        let agent = world.agents.get_mut(&node(4)).unwrap();
        agent.staged.clear();
        agent.ill_at = Some(1);
        world.publish(&node(4));
        world.turn();
        world.turn();
        assert_eq!(world.phase().name().word(), phase);
        let plan = tidegate_planner::plan(world.store.fleet(), &world.moment());
        let waiting = &plan.waiting[&upgrade_id()];
        let reason = Reason::Roll(RollGate::StageFailed { node: node(4), release: tag, why });
        assert!(waiting.contains(&reason), "{phase}: {waiting:?}");
        assert_eq!(
            reason.explained(Waits::Upgrade(&upgrade_id())).next_step.unwrap(),
            "tidegate upgrade retry u1 n4"
        );
        let commit =
            ask::retry(world.store.fleet(), &world.moment(), &upgrade_id(), &node(4), &asker("mended"));
        assert!(world.store.commit(&commit.unwrap()));
        world.events += 1;
        world.agents.get_mut(&node(4)).unwrap().report.stage_failures.clear();
        let last = world.run();
        assert_eq!(world.phase(), Phase::Completed, "{phase}: {:?}", last.waiting);
        assert_eq!(world.versions(), [2; 4]);
    }
}
