//! What operators cause is no failure, undrainable instances block no other, and an operator's word can be completed.

use crate::sim::{World, node, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::Reason;
use tidegate_planner::ask::{self, Asker};
use tidegate_planner::gate::{RollGate, Waits};
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Rotation, Step};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase};
use tidegate_proto::{InstanceId, Key, Value};

fn asker() -> Asker {
    Asker { who: "op".into(), why: "seen".into(), accepts: Default::default() }
}

fn carry_out(world: &mut World, commit: tidegate_proto::Commit) {
    assert!(world.store.commit(&commit));
    world.events += 1;
}

#[test]
fn waiting_for_a_cordoned_node_is_no_stall() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"min_in_service": 1, "max_unavailable": 2, "approvals": ["roll"]}))).unwrap();
    world.run();
    let cordon = ask::cordon(world.store.fleet(), &world.moment(), &node(2), &asker()).unwrap();
    carry_out(&mut world, cordon);
    let word = tidegate_proto::spec::ApprovalPoint::Roll;
    let approve = ask::approve(world.store.fleet(), &world.moment(), &upgrade_id(), word, &asker()).unwrap();
    carry_out(&mut world, approve);
    world.run();
    world.stalled_ms = 15 * 60 * 1000;
    world.turn();
    assert!(matches!(world.phase(), Phase::Roll { .. }), "{:?}", world.phase());
    assert_eq!(world.upgrade().unwrap().stalled_ms, 0, "the count begins again");
    world.stalled_ms = 0;
    let uncordon = ask::uncordon(world.store.fleet(), &world.moment(), &node(2), &asker()).unwrap();
    carry_out(&mut world, uncordon);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn undrainable_instance_does_not_block_rollback() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    world.until("an instance is taken out", |world| world.store.keys.contains_key(&Key::Budget(service())));
    let n = world.store.fleet().service(&service()).unwrap().ordered().each.next().unwrap().node.clone();
    let at = world.store.keys[&Key::Directive(service(), n.clone())].1;
    let report = &mut world.agents.get_mut(&n).unwrap().report;
    report.step = Step::Failed { at: "draining".into(), reason: "a balancer still sends requests".into() };
    report.rotation = Rotation::In;
    report.generation = tidegate_proto::Revision(at);
    world.publish(&n);
    let last = world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}: {:?}", world.phase(), last.waiting);
    assert_eq!(world.really_in_service(), 3);
}

fn retry(world: &mut World, n: usize) {
    let commit = ask::retry(world.store.fleet(), &world.moment(), &upgrade_id(), &node(n), &asker()).unwrap();
    carry_out(world, commit);
}

#[test]
fn failed_rollback_drain_returns_instance_to_rotation_once() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"approvals": ["remove"]}))).unwrap();
    world.run();
    world.agents.get_mut(&node(1)).unwrap().undrainable = true;
    let back = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker()).unwrap();
    carry_out(&mut world, back);
    let at_rest = world.run();
    assert_eq!((world.versions(), world.really_in_service()), (vec![1, 2, 1], 3));
    let reasons = &at_rest.waiting[&upgrade_id()];
    let failed = |r: &Reason| matches!(r, Reason::Roll(RollGate::Failed { node: n, why }) if *n == node(1) && why.contains("still sends requests"));
    assert!(reasons.iter().any(failed), "{reasons:?}");
    assert!(
        !reasons.iter().any(|r| matches!(r, Reason::Roll(RollGate::NotServing { .. }))),
        "it serves: {reasons:?}"
    );
    world.agents.get_mut(&node(1)).unwrap().undrainable = false;
    retry(&mut world, 1);
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
}

#[test]
fn skipped_or_returned_instance_is_listed_after_roll() {
    let mut world = World::at_version_1(4);
    let failures = json!({"tolerate": 1, "per_wave": 1});
    world.start(spec(json!({"strategy": "immediate", "failures": failures}))).unwrap();
    world.until_roll();
    world.agents.get_mut(&node(1)).unwrap().undrainable = true;
    let skip = ask::skip(world.store.fleet(), &world.moment(), &upgrade_id(), &node(2), &asker()).unwrap();
    carry_out(&mut world, skip);
    let at_rest = world.run();
    assert_eq!(world.versions(), [2, 1, 1, 2]);
    let reported: Vec<_> = at_rest.waiting[&upgrade_id()]
        .iter()
        .filter_map(|r| r.explained(Waits::Upgrade(&upgrade_id())).next_step)
        .collect();
    assert_eq!(reported, ["tidegate upgrade retry u1 n1", "tidegate upgrade retry u1 n2"]);
    world.agents.get_mut(&node(1)).unwrap().undrainable = false;
    retry(&mut world, 1);
    retry(&mut world, 2);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn decommission_records_how_stopped_and_is_unique() {
    let mut world = World::at_version_1(2);
    world.fall_silent(1);
    let id = InstanceId::new(service(), node(1));
    let ask_it = |world: &World, how: Option<&str>| {
        ask::decommission(
            world.store.fleet(),
            &world.moment(),
            &id,
            ask::Gone { stopped_how: how.map(str::to_owned), ..Default::default() },
            &asker(),
        )
    };
    let first = ask_it(&world, None).unwrap();
    carry_out(&mut world, first);
    assert!(ask_it(&world, None).unwrap_err().message.contains("only --stopped-how can be added"));
    let completed = ask_it(&world, Some("power is off")).unwrap();
    carry_out(&mut world, completed);
    let Value::Decommission(word) = &world.store.keys[&Key::Decommission(service(), node(1))].0 else {
        panic!()
    };
    assert_eq!(word.body.stopped_how.as_deref(), Some("power is off"));
    assert!(ask_it(&world, Some("again")).is_err());
}

#[test]
fn an_upgrade_that_is_given_up_in_preflight_leaves_no_window() {
    let mut world = World::at_version_1(2);
    world.start(spec(json!({"min_in_service": 1, "approvals": ["stage"]}))).unwrap();
    world.run();
    let commit = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker()).unwrap();
    carry_out(&mut world, commit);
    assert!(matches!(world.phase(), Phase::Failed { .. }), "{:?}", world.phase());
    assert!(!world.store.keys.contains_key(&Key::Window(service())));
}

#[test]
fn emptied_last_wave_and_skipped_instance_have_reasons() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"min_in_service": 1, "approvals": ["roll"]}))).unwrap();
    world.run();
    let word = tidegate_proto::spec::ApprovalPoint::Roll;
    let approve = ask::approve(world.store.fleet(), &world.moment(), &upgrade_id(), word, &asker()).unwrap();
    carry_out(&mut world, approve);
    while !matches!(world.phase(), Phase::Roll { .. }) {
        world.turn();
    }
    let fleet = world.store.fleet();
    let by_wave = |wave| {
        fleet.service(&service()).unwrap().instances().find(|i| i.wave == Some(wave)).unwrap().node.clone()
    };
    let (skipped, last) = (by_wave(1), by_wave(2));
    let skip = ask::skip(fleet, &world.moment(), &upgrade_id(), &skipped, &asker()).unwrap();
    carry_out(&mut world, skip);
    world.fall_silent(last.as_str()[1..].parse().unwrap());
    let gone = InstanceId::new(service(), last);
    let commit = ask::decommission(
        world.store.fleet(),
        &world.moment(),
        &gone,
        ask::Gone { stopped_how: Some("off".into()), ..Default::default() },
        &asker(),
    )
    .unwrap();
    carry_out(&mut world, commit);
    let at_rest = world.run();
    let reasons = &at_rest.waiting[&upgrade_id()];
    assert!(!reasons.is_empty() && world.phase() != Phase::Completed, "{:?}: {reasons:?}", world.phase());
}

#[test]
fn next_spec_must_name_services_sharing_schema() {
    let shared = |with: serde_json::Value| {
        let schema = json!({"database": {"from_env": "PANTRY"}, "migrations": "pantry", "shared_with": with, "empty": ["pantry-worker"]
        });
        spec(json!({"min_in_service": 1, "schema": schema}))
    };
    let mut world = World::at_version_1(2);
    world.start_with_schema(shared(json!({"pantry-worker": 2})), MigrateOrder::BeforeRoll);
    let stop = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker()).unwrap();
    carry_out(&mut world, stop);
    world.run();
    let Value::Upgrade(first) = world.store.keys[&Key::Upgrade(upgrade_id())].0.clone() else { panic!() };
    let binding = tidegate_proto::record::upgrade::SchemaBinding {
        id: "s1".parse().unwrap(),
        migrations: tidegate_proto::Digest::of(b"migrations"),
        order: MigrateOrder::BeforeRoll,
        old_reads_migrated: true,
        own: vec!["0002_it".into()],
        left: Vec::new(),
        form_left: false,
        migrate_floors: Default::default(),
    };
    assert!(first.body.phase.is_over());
    let request = ask::StartRequest {
        id: "u2".parse().unwrap(),
        spec: shared(json!({})),
        schema: Some(binding),
        asker: asker(),
    };
    let refused = ask::start(world.store.fleet(), &world.moment(), request).unwrap_err();
    assert!(refused.message.contains("pantry-worker shares this schema"), "{refused}");
}

#[test]
fn waited_time_is_kept_in_phases_without_own_count() {
    let mut world = World::at_version_1(2);
    world.start(spec(json!({"min_in_service": 1, "approvals": ["roll"]}))).unwrap();
    world.run();
    assert_eq!(world.phase(), Phase::Stage);
    let mut moment = world.moment();
    moment.elapsed.get_mut(&upgrade_id()).unwrap().phase_ms += 6_000;
    let plan = tidegate_planner::plan(world.store.fleet(), &moment);
    let [tidegate_planner::Action::Commit(planned)] = plan.actions.as_slice() else {
        panic!("{:?}", plan.actions)
    };
    assert_eq!(planned.what, "checkpoint");
    assert!(world.store.commit(&planned.commit));
    assert_eq!(world.upgrade().unwrap().phase_ms, 6_000);
    assert!(tidegate_planner::plan(world.store.fleet(), &world.moment()).actions.is_empty(), "once");
}

#[test]
fn failed_drain_can_be_declared_stopped_after_return() {
    let mut world = World::at_version_1(3);
    let failures = json!({"tolerate": 1, "per_wave": 1});
    world.start(spec(json!({"min_in_service": 1, "failures": failures}))).unwrap();
    world.until("one drains", |world| world.agents.values().any(|a| a.report.step == Step::Draining));
    let n = world.agents.iter().find(|(_, a)| a.report.step == Step::Draining).unwrap().0.clone();
    let agent = world.agents.get_mut(&n).unwrap();
    (agent.undrainable, agent.unready) = (true, true);
    world.publish(&n);
    let disposition = |world: &World| match &world.store.keys[&Key::Directive(service(), n.clone())].0 {
        tidegate_proto::Value::Directive(record) => record.body.disposition.clone(),
        other => panic!("{other:?}"),
    };
    world.until("it is let back", |world| disposition(world) == Disposition::Serve { returning: true });
    let report = &mut world.agents.get_mut(&n).unwrap().report;
    report.health = tidegate_proto::record::report::Health::Unhealthy;
    world.publish(&n);
    let asker = ask::Asker { why: "it crashed".into(), ..asker() };
    let declared =
        ask::retry_stopped(world.store.fleet(), &world.moment(), &upgrade_id(), &n, &asker).unwrap();
    carry_out(&mut world, declared);
    assert_eq!(disposition(&world), Disposition::Drain);
}

#[test]
fn declaring_stopped_needs_reason_and_no_contrary_report() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"min_in_service": 1, "failures": {"then": "pause"}}))).unwrap();
    world.until("one drains", |world| world.agents.values().any(|a| a.report.step == Step::Draining));
    let n = world.agents.iter().find(|(_, a)| a.report.step == Step::Draining).unwrap().0.clone();
    let declare = |world: &World, why: &str| {
        let asker = ask::Asker { why: why.into(), ..asker() };
        ask::retry_stopped(world.store.fleet(), &world.moment(), &upgrade_id(), &n, &asker)
    };
    let refused = |world: &World, why: &str| declare(world, why).unwrap_err().to_string();
    assert!(refused(&world, "").contains("--why"));
    assert!(refused(&world, "it crashed").contains("answers as healthy"));
    let report = &mut world.agents.get_mut(&n).unwrap().report;
    report.health = tidegate_proto::record::report::Health::Unhealthy;
    report.step = Step::Failed { at: "draining".into(), reason: "could not be counted".into() };
    world.publish(&n);
    world.turn();
    assert!(world.failures().iter().any(|(failed, ..)| *failed == n));
    let commit = declare(&world, "it crashed").unwrap();
    carry_out(&mut world, commit);
    assert!(world.failures().is_empty());
    let directive = |world: &World| match &world.store.keys[&Key::Directive(service(), n.clone())].0 {
        tidegate_proto::Value::Directive(record) => record.body.clone(),
        other => panic!("{other:?}"),
    };
    assert!(directive(&world).declared_stopped);
    // A later retry says it no more.
    let at = world.store.keys[&Key::Directive(service(), n.clone())].1;
    world.agents.get_mut(&n).unwrap().report.generation = tidegate_proto::Revision(at);
    world.publish(&n);
    let asker = asker();
    let again = ask::retry(world.store.fleet(), &world.moment(), &upgrade_id(), &n, &asker).unwrap();
    carry_out(&mut world, again);
    assert!(!directive(&world).declared_stopped);
    // Nothing takes the others out, so that nothing waits for them.
    let other = world.agents.keys().find(|other| **other != n).unwrap().clone();
    world.agents.get_mut(&other).unwrap().report.health = tidegate_proto::record::report::Health::Unhealthy;
    world.publish(&other);
    let asker = ask::Asker { why: "it crashed".into(), ..asker };
    let refusal = ask::retry_stopped(world.store.fleet(), &world.moment(), &upgrade_id(), &other, &asker);
    assert!(refusal.unwrap_err().to_string().contains("takes it out of rotation"));
}

#[test]
fn instance_failing_in_contract_is_listed_with_retry() {
    let mut world = World::at_version_1(3);
    let schema = json!({"schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"}});
    world.start_with_schema(spec(schema), MigrateOrder::BeforeRoll);
    let n = node(1);
    world.until("contract", |world| matches!(world.phase(), Phase::Contract { .. }));
    let report = &mut world.agents.get_mut(&n).unwrap().report;
    report.health = tidegate_proto::record::report::Health::Unhealthy;
    report.step = Step::Failed { at: "verifying".into(), reason: "not healthy".into() };
    world.publish(&n);
    let waiting = world.run().waiting;
    let commands: Vec<_> = waiting[&upgrade_id()]
        .iter()
        .filter_map(|reason| reason.explained(Waits::Upgrade(&upgrade_id())).next_step)
        .collect();
    assert_eq!(commands, [format!("tidegate upgrade retry {} {n}", upgrade_id())], "{waiting:?}");
    let retried = ask::retry(world.store.fleet(), &world.moment(), &upgrade_id(), &n, &asker()).unwrap();
    let directive = |world: &World| world.store.keys[&Key::Directive(service(), n.clone())].1;
    let before = directive(&world);
    carry_out(&mut world, retried);
    assert!(directive(&world) > before, "its agent gets a new directive");
    // It is verified again, and this time it is healthy.
    let report = &mut world.agents.get_mut(&n).unwrap().report;
    (report.health, report.step) = (tidegate_proto::record::report::Health::Healthy, Step::Serving);
    world.publish(&n);
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
}

#[test]
fn directive_that_is_given_again_is_of_the_leader_who_gives_it() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"min_in_service": 1, "failures": {"then": "pause"}}))).unwrap();
    world.until("one drains", |world| world.agents.values().any(|a| a.report.step == Step::Draining));
    let n = world.agents.iter().find(|(_, a)| a.report.step == Step::Draining).unwrap().0.clone();
    let report = &mut world.agents.get_mut(&n).unwrap().report;
    report.health = tidegate_proto::record::report::Health::Unhealthy;
    report.step = Step::Failed { at: "draining".into(), reason: "could not be counted".into() };
    world.publish(&n);
    world.elect(2);
    let (fleet, moment) = (world.store.fleet(), world.moment());
    let given = [
        ask::retry(fleet, &moment, &upgrade_id(), &n, &asker()).unwrap(),
        ask::retry_stopped(fleet, &moment, &upgrade_id(), &n, &asker()).unwrap(),
    ];
    for commit in given {
        let mut world = world.clone();
        carry_out(&mut world, commit);
        match &world.store.keys[&Key::Directive(service(), n.clone())].0 {
            Value::Directive(directive) => assert_eq!(directive.body.term, world.term.term),
            other => panic!("{other:?}"),
        }
    }
}
