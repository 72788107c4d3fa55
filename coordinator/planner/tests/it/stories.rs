//! Whole upgrades as text: what is planned, in order, and what is waited for between. The stored text is what an
//! operator would see happen; `INSTA_UPDATE=always` renews it, and the difference is then read.

use crate::sim::{World, node, spec, upgrade_id};
use serde_json::json;
use std::fmt::Write as _;
use tidegate_planner::Action;
use tidegate_planner::ask::{self, Asker};
use tidegate_proto::record::upgrade::MigrateOrder;
use tidegate_proto::spec::ApprovalPoint;

/// Turns and agents until nothing changes; each new thing that happens or is waited for is a line.
fn play(world: &mut World, story: &mut String) {
    let mut last = Vec::new();
    for _ in 0..1000 {
        let before = (world.store.revision, world.facts.clone());
        let (_, plan) = world.turn();
        for action in &plan.actions {
            match action {
                Action::Commit(planned) => writeln!(story, "{}", planned.what).unwrap(),
                Action::Schema { job, .. } => writeln!(story, "schema: {}", job.word()).unwrap(),
                Action::Certify { .. } => writeln!(story, "certify").unwrap(),
            }
        }
        let waits: Vec<String> =
            plan.waiting.get(&upgrade_id()).into_iter().flatten().map(ToString::to_string).collect();
        for wait in waits.iter().filter(|wait| !last.contains(*wait)) {
            writeln!(story, "    waits: {wait}").unwrap();
        }
        last = waits;
        let moved = world.agents_step();
        if !moved && (world.store.revision, world.facts.clone()) == before {
            break;
        }
    }
    writeln!(story, "= {}, {}", world.phase(), world.store.fleet().services().next().unwrap().spread())
        .unwrap();
}

fn asker() -> Asker {
    Asker { who: "maria".into(), why: "seen".into(), accepts: Default::default() }
}

#[test]
fn a_canary_upgrade_that_waits_for_an_approval() {
    let mut world = World::at_version_1(6);
    world
        .start(spec(json!({"strategy": {"canary": {}}, "min_in_service": 5, "approvals": ["roll"]})))
        .unwrap();
    let mut story = String::new();
    play(&mut world, &mut story);
    let commit =
        ask::approve(world.store.fleet(), &world.moment(), &upgrade_id(), ApprovalPoint::Roll, &asker())
            .unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    story.push_str("-- maria approves roll\n");
    play(&mut world, &mut story);
    insta::assert_snapshot!(story);
}

#[test]
fn an_upgrade_with_a_schema_in_glances_order() {
    let mut world = World::at_version_1(3);
    let schema = json!({"schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"}});
    world.start_with_schema(spec(schema), MigrateOrder::BeforeRoll);
    let mut story = String::new();
    play(&mut world, &mut story);
    insta::assert_snapshot!(story);
}

#[test]
fn a_new_version_that_does_not_work_on_the_second_instance() {
    let mut world = World::at_version_1(3);
    let order = ["n0", "n1", "n2"];
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    for n in 1..order.len() {
        world.agents.get_mut(&node(n)).unwrap().broken_at = Some(2);
    }
    let mut story = String::new();
    play(&mut world, &mut story);
    insta::assert_snapshot!(story);
}

#[test]
fn a_silent_instance_and_a_cordoned_one_are_named() {
    let mut world = World::at_version_1(4);
    world.start(spec(json!({"min_in_service": 1, "max_unavailable": 2, "approvals": ["roll"]}))).unwrap();
    let mut story = String::new();
    play(&mut world, &mut story);
    world.fall_silent(1);
    story.push_str("-- n1 falls silent\n");
    let commit = ask::cordon(world.store.fleet(), &world.moment(), &node(2), &asker()).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    let commit =
        ask::approve(world.store.fleet(), &world.moment(), &upgrade_id(), ApprovalPoint::Roll, &asker())
            .unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    story.push_str("-- maria cordons n2 and approves roll\n");
    play(&mut world, &mut story);
    insta::assert_snapshot!(story);
}
