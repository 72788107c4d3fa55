//! Versions that come into rotation without an upgrade: what is there already is drained within capacity.

use crate::sim::{World, node, release, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::{self, Asker};
use tidegate_proto::record::directive::{Directive, Disposition};
use tidegate_proto::record::report::{Health, Rotation, Step};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase};
use tidegate_proto::record::window::Window;
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::{Key, Revision, ServiceVersion, Value};

pub(crate) fn in_rotation(world: &World) -> usize {
    world.agents.values().filter(|agent| agent.report.rotation == Rotation::In).count()
}

/// A person starts another version beside the agent, which never sees the service leave rotation.
pub(crate) fn put_back(world: &mut World, n: usize, version: i64) {
    let refused = !world.admits(version);
    let agent = world.agents.get_mut(&node(n)).unwrap();
    agent.release = release(version);
    (agent.report.version, agent.report.release, agent.idle) = (Some(release(version).version), None, None);
    if refused {
        agent.report.step = Step::Refused { reason: "outside the window".into() };
    }
    world.publish(&node(n));
}

fn completed() -> World {
    completed_by(1)
}

/// Of two instances and so many more, so many may be out.
fn completed_by(unavailable: usize) -> World {
    let mut world = World::at_version_1(2 + unavailable);
    world.start(spec(json!({"min_in_service": 2, "max_unavailable": unavailable}))).unwrap();
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    world
}

#[test]
fn versions_put_back_after_the_end_are_drained_within_capacity() {
    let mut world = completed();
    (0..3).for_each(|n| put_back(&mut world, n, 1));
    let at_rest = world.run();
    assert_eq!(in_rotation(&world), 2, "one is drained, and two must stay");
    let reasons = &at_rest.waiting[&upgrade_id()];
    let said = reasons[0].to_string();
    assert!(said.contains("outside the window [2, 2]") && said.contains("n0"), "{said}");
    let is_recorded = world.store.keys.iter().any(|(key, (value, ..))| {
        matches!((key, value), (Key::Event(tidegate_proto::key::Subject::Fleet, _), Value::Event(event))
            if event.body.to.starts_with("drain pantry-api/"))
    });
    assert!(is_recorded, "there is an event about it");
}

#[test]
fn admitted_instance_returns_before_next_is_drained() {
    let mut world = completed();
    (0..3).for_each(|n| put_back(&mut world, n, 1));
    for _ in 0..3 {
        world.run();
        assert!(in_rotation(&world) >= 2);
        let out = world.agents.iter().find(|(_, a)| matches!(a.report.step, Step::Drained { .. })).unwrap();
        let n: usize = out.0.as_str()[1..].parse().unwrap();
        let agent = world.agents.get_mut(&node(n)).unwrap();
        agent.release = release(2);
        (agent.report.version, agent.report.release) = (Some(release(2).version), Some(release(2).tag));
        agent.idle = None;
        world.admit(&node(n));
        world.publish(&node(n));
        world.run();
    }
    let last = world.run();
    assert_eq!((in_rotation(&world), world.versions()), (3, vec![2; 3]));
    assert!(last.waiting.is_empty(), "{:?}", last.waiting);
}

#[test]
fn version_put_back_while_rows_are_migrated_is_moved() {
    let mut world = World::at_version_1(3);
    let schema = json!({"schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"},
        "approvals": ["remove"], "min_in_service": 2});
    world.start_with_schema(spec(schema), MigrateOrder::AfterRoll);
    world.run();
    assert_eq!(world.phase(), Phase::Migrate);
    (0..2).for_each(|n| put_back(&mut world, n, 1));
    for _ in 0..60 {
        world.turn();
        world.agents_step();
        assert!(in_rotation(&world) >= 2);
    }
    assert_eq!((world.phase(), world.versions()), (Phase::Migrate, vec![2; 3]));
}

#[test]
fn unreadable_record_holds_no_other() {
    // It counts as out itself, because the restored record may take it out.
    for (unavailable, rotation) in [(2, Rotation::Out), (1, Rotation::In)] {
        let mut world = completed_by(unavailable);
        world.store.spoil(&Key::Directive(service(), node(0)));
        (0..2).for_each(|n| put_back(&mut world, n, 1));
        let at_rest = world.run();
        assert_eq!(world.agents[&node(1)].report.rotation, rotation, "{unavailable}: {:?}", at_rest.waiting);
    }
}

#[test]
fn unreadable_upgrade_that_set_the_window_drains_none() {
    let mut world = completed();
    let key = Key::Upgrade(upgrade_id());
    world.store.spoil(&key);
    put_back(&mut world, 0, 1);
    let at_rest = world.run();
    assert_eq!(in_rotation(&world), 3, "its spec says how many must stay");
    let said = at_rest.waiting[&upgrade_id()][0].to_string();
    assert!(said.contains(&format!("the record {key} is not UTF-8")), "{said}");
    world.store.rebuild();
    world.run();
    assert_eq!(in_rotation(&world), 2);
}

/// The window is a person's, so that no upgrade has set it.
fn window_of_a_person(world: &mut World) {
    let body = Window {
        floor: release(2).version,
        ceiling: release(2).version,
        set_by: "operator".parse().unwrap(),
        contracted: Some(ServiceVersion::ABSENT),
    };
    world.store.put(Key::Window(service()), body);
    world.agents_step();
}

#[test]
fn last_upgrade_capacity_applies_under_manual_window() {
    let mut world = completed();
    window_of_a_person(&mut world);
    (0..2).for_each(|n| put_back(&mut world, n, 1));
    world.fall_silent(2);
    world.run();
    assert_eq!(in_rotation(&world), 3, "two must stay, and of the third nothing is known");
}

#[test]
fn healthy_version_is_not_drained_beside_one_that_is_unready() {
    let mut world = completed();
    world.set_unready(&node(2), true);
    put_back(&mut world, 0, 1);
    world.run();
    assert_eq!(in_rotation(&world), 3, "n0 answers well, and n2 does not: two must");
    world.set_unready(&node(2), false);
    world.run();
    assert_eq!(in_rotation(&world), 2);
}

#[test]
fn one_domain_at_a_time_is_drained_beside_returning_one() {
    let mut world = World::at_version_1(6);
    world.start(spec(json!({"min_in_service": 2, "max_unavailable": 2, "failure_domain": "zone"}))).unwrap();
    world.run();
    let report = &mut world.agents.get_mut(&node(0)).unwrap().report;
    (report.step, report.rotation) = (Step::Verifying, Rotation::Returning);
    world.agents.get_mut(&node(0)).unwrap().idle = None;
    world.agents.get_mut(&node(0)).unwrap().unready = true;
    world.publish(&node(0));
    put_back(&mut world, 1, 1);
    world.turn();
    world.agents_step();
    world.run();
    assert_eq!(world.agents[&node(1)].report.rotation, Rotation::In, "n0 is of another zone and not back");
    put_back(&mut world, 3, 1);
    world.run();
    assert_ne!(world.agents[&node(3)].report.rotation, Rotation::In, "n3 is of the zone of n0");
}

#[test]
fn failed_drain_is_listed_until_version_is_admitted() {
    let mut world = completed();
    world.agents.get_mut(&node(0)).unwrap().undrainable = true;
    put_back(&mut world, 0, 1);
    world.run();
    let agent = world.agents.get_mut(&node(0)).unwrap();
    agent.report.rotation = Rotation::Leaving;
    assert!(matches!(agent.report.step, Step::Failed { .. }), "{:?}", agent.report.step);
    world.publish(&node(0));
    let at_rest = world.run();
    let said = at_rest.waiting[&upgrade_id()][0].to_string();
    assert!(said.contains("n0 (failed draining: a balancer still sends requests)"), "{said}");
    let agent = world.agents.get_mut(&node(0)).unwrap();
    (agent.undrainable, agent.idle, agent.release) = (false, None, release(2));
    agent.report.version = Some(release(2).version);
    world.admit(&node(0));
    world.publish(&node(0));
    world.run();
    assert_eq!(in_rotation(&world), 3);
}

#[test]
fn drained_node_without_process_is_left_to_its_agent() {
    let mut world = completed();
    put_back(&mut world, 0, 1);
    world.run();
    assert_eq!(in_rotation(&world), 2);
    let agent = world.agents.get_mut(&node(0)).unwrap();
    (agent.report.version, agent.report.health, agent.idle) = (None, Health::Unknown, None);
    agent.release = release(2);
    world.publish(&node(0));
    world.run();
    assert!(is_let_back(&world, 0));
}

#[test]
fn instance_drained_before_its_wave_waits_for_it() {
    let mut world = World::at_version_1(4);
    let canary = json!({"strategy": {"canary": {"steps": [1, 3]}}, "approvals": ["roll"], "min_in_service": 2,
        "max_unavailable": 2});
    world.start(spec(canary)).unwrap();
    world.run();
    put_back(&mut world, 3, 3);
    world.run();
    assert!(matches!(world.agents[&node(3)].report.step, Step::Drained { .. }), "outside [1, 1]");
    let asker = Asker { who: "op".into(), why: "seen".into(), accepts: Default::default() };
    let commit =
        ask::approve(world.store.fleet(), &world.moment(), &upgrade_id(), ApprovalPoint::Roll, &asker)
            .unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.until_roll();
    for _ in 0..100 {
        if !matches!(world.phase(), Phase::Roll { wave: 0 }) {
            break;
        }
        let first = world.store.fleet().service(&service()).unwrap().get(&node(3)).unwrap().wave == Some(0);
        assert!(first || world.agents[&node(3)].release == release(3), "it is replaced before its wave");
        world.turn();
        world.agents_step();
    }
    world.run();
    assert_eq!((world.phase(), world.versions()), (Phase::Completed, vec![2; 4]));
}

/// A roll by one at a time. An instance of the second wave is drained, because its version was changed before the roll.
fn with_one_drained_early() -> (World, usize) {
    let mut world = World::at_version_1(4);
    let canary =
        json!({"strategy": {"canary": {"steps": [1, "rest"]}}, "max_unavailable": 1, "min_in_service": 2});
    world.start(spec(canary)).unwrap();
    world.until_roll();
    let wave = |n: usize| world.store.fleet().service(&service()).unwrap().get(&node(n)).unwrap().wave;
    let later = (0..4).find(|n| wave(*n) == Some(1)).unwrap();
    put_back(&mut world, later, 3);
    let key = Key::Directive(service(), node(later));
    let Some((Value::Directive(stored), ..)) = world.store.keys.get(&key).cloned() else { panic!() };
    world.store.put(key, Directive { disposition: Disposition::Drain, ..stored.body });
    while world.agent_step(&node(later)) {}
    assert!(matches!(world.agents[&node(later)].report.step, Step::Drained { .. }));
    (world, later)
}

/// A person starts version 1 there again.
fn put_right(world: &mut World, n: usize, health: Health) {
    let agent = world.agents.get_mut(&node(n)).unwrap();
    agent.release = release(1);
    (agent.report.version, agent.report.release) = (Some(release(1).version), Some(release(1).tag));
    (agent.report.health, agent.unready, agent.idle) = (health, health == Health::Unhealthy, None);
    world.admit(&node(n));
    world.publish(&node(n));
}

fn disposition(world: &World, n: usize) -> Disposition {
    let Value::Directive(directive) = &world.store.keys[&Key::Directive(service(), node(n))].0 else {
        panic!()
    };
    directive.body.disposition.clone()
}

fn is_let_back(world: &World, n: usize) -> bool {
    disposition(world, n) == Disposition::Serve { returning: true }
}

/// Its agent was started after the disable-file was put, which makes its readiness URL answer 503.
#[test]
fn one_drained_early_returns_where_health_is_unknown() {
    let (mut world, later) = with_one_drained_early();
    put_right(&mut world, later, Health::Unknown);
    let last = world.run();
    assert_eq!((world.phase(), world.versions()), (Phase::Completed, vec![2; 4]), "{:?}", last.waiting);
}

#[test]
fn unhealthy_one_drained_early_returns_only_if_unjudged() {
    let (mut world, later) = with_one_drained_early();
    put_right(&mut world, later, Health::Unhealthy);
    let last = world.run();
    assert!(!is_let_back(&world, later), "its readiness URL fails for another reason than the file");
    let said: Vec<_> = last.waiting[&upgrade_id()].iter().map(ToString::to_string).collect();
    let named = format!("not in rotation and healthy: n{later}");
    assert!(said.iter().any(|reason| reason.starts_with(&named)), "{said:?}");
    assert!(!said.iter().any(|reason| reason.contains("outside the window")), "{said:?}");
    world.agents.get_mut(&node(later)).unwrap().report.abilities.ready_by_health = true;
    world.publish(&node(later));
    world.until("it goes back", |world| is_let_back(world, later));
    world.set_unready(&node(later), false);
    world.run();
    assert_eq!((world.phase(), world.versions()), (Phase::Completed, vec![2; 4]));
}

/// Its agent starts nothing while the directive says drain.
#[test]
fn one_drained_early_that_ended_is_left_to_its_agent() {
    let (mut world, later) = with_one_drained_early();
    let report = &mut world.agents.get_mut(&node(later)).unwrap().report;
    (report.version, report.health, report.rotation) = (None, Health::Unknown, Rotation::Maintenance);
    world.publish(&node(later));
    let last = world.run();
    assert!(!is_let_back(&world, later), "a person keeps it out");
    let said: Vec<_> = last.waiting[&upgrade_id()].iter().map(ToString::to_string).collect();
    assert!(said.contains(&format!("in maintenance: n{later}")), "{said:?}");
    world.agents.get_mut(&node(later)).unwrap().report.rotation = Rotation::Out;
    world.publish(&node(later));
    world.until("it goes back", |world| is_let_back(world, later));
}

/// What n0 is ordered after some turns of a roll, from this order and step on: its agent hides a version outside the window.
/// Two of three must stay, and n1 is silent.
fn ordered_of_one_hidden(disposed: Disposition, step: Step) -> Disposition {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"strategy": "immediate", "max_unavailable": 1, "min_in_service": 2}))).unwrap();
    world.until_roll();
    put_back(&mut world, 0, 3);
    let key = Key::Directive(service(), node(0));
    let Some((Value::Directive(stored), ..)) = world.store.keys.get(&key).cloned() else { panic!() };
    let at = world.store.put(key, Directive { disposition: disposed, ..stored.body });
    let report = &mut world.agents.get_mut(&node(0)).unwrap().report;
    (report.step, report.rotation, report.health) = (step, Rotation::Out, Health::Healthy);
    report.generation = Revision(at);
    world.publish(&node(0));
    world.fall_silent(1);
    for _ in 0..3 {
        world.turn();
    }
    disposition(&world, 0)
}

/// Its agent would refuse what runs, and it would be replaced once more.
#[test]
fn replacement_of_one_outside_is_not_withdrawn() {
    let replace = Disposition::Replace { release: release(2) };
    assert_eq!(ordered_of_one_hidden(replace.clone(), Step::Draining), replace);
}

#[test]
fn drained_one_outside_is_replaced_without_capacity() {
    let ordered = ordered_of_one_hidden(Disposition::Drain, Step::Drained { forced: false });
    assert_eq!(ordered, Disposition::Replace { release: release(2) });
}

/// The journal of its agent was lost, and is newer than the order. It runs the right version again, and is not ready.
#[test]
fn one_that_declined_its_drain_is_not_named_as_outside() {
    let mut world = completed();
    put_back(&mut world, 0, 1);
    world.turn();
    assert_eq!(disposition(&world, 0), Disposition::Drain);
    let at = world.store.keys[&Key::Directive(service(), node(0))].1;
    put_back(&mut world, 0, 2);
    let report = &mut world.agents.get_mut(&node(0)).unwrap().report;
    (report.generation, report.declined) = (Revision(at), true);
    (report.step, report.health) = (Step::Serving, Health::Unhealthy);
    world.admit(&node(0));
    world.publish(&node(0));
    let (_, plan) = world.turn();
    assert!(plan.waiting.is_empty(), "{:?}", plan.waiting);
}

fn contracted_in_window(world: &World) -> Option<ServiceVersion> {
    match &world.store.keys[&Key::Window(service())].0 {
        Value::Window(window) => window.body.contracted,
        other => panic!("{other:?}"),
    }
}

#[test]
fn window_has_contract_requirement_once_entered() {
    let mut world = World::at_version_1(3);
    let schema = json!({"schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"}});
    world.start_with_schema(spec(schema), MigrateOrder::BeforeRoll);
    world.until("it is in remove", |world| world.phase() == Phase::Remove);
    assert_eq!(contracted_in_window(&world), Some(ServiceVersion::ABSENT), "nothing was contracted");
    world.until("it contracts", |world| matches!(world.phase(), Phase::Contract { .. }));
    assert_eq!(contracted_in_window(&world), Some(release(2).version));
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}
