//! Versions that come into rotation without an upgrade: what is there already is drained within capacity.

use crate::sim::{World, node, release, service, spec, upgrade_id};
use serde_json::json;
use tidegate_proto::record::report::{Rotation, Step};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase};
use tidegate_proto::{Key, ServiceVersion, Value};

fn in_rotation(world: &World) -> usize {
    world.agents.values().filter(|agent| agent.report.rotation == Rotation::In).count()
}

/// A person starts another version beside the agent, which never sees the service leave rotation.
fn put_back(world: &mut World, n: usize, version: i64) {
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
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"min_in_service": 2, "max_unavailable": 1}))).unwrap();
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
    let told = world.store.keys.iter().any(|(key, (value, ..))| {
        matches!((key, value), (Key::Event(tidegate_proto::key::Subject::Fleet, _), Value::Event(event))
            if event.body.to.starts_with("drain pantry-api/"))
    });
    assert!(told, "an event tells of it");
}

#[test]
fn drained_one_goes_back_once_its_version_is_admitted_and_the_next_is_drained() {
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

fn contracted_in_window(world: &World) -> Option<ServiceVersion> {
    match &world.store.keys[&Key::Window(service())].0 {
        Value::Window(window) => window.body.contracted,
        other => panic!("{other:?}"),
    }
}

#[test]
fn window_names_what_contract_requires_from_the_moment_it_is_entered() {
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
