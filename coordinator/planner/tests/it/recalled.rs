//! Instances that are let back into rotation before they were stopped, because capacity lacks them: the next is not taken out
//! at once.

use crate::hiccups::{being_taken_out, commits, disposition};
use crate::sim::{World, node, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::Reason;
use tidegate_proto::NodeId;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::Step;
use tidegate_proto::record::upgrade::Phase;

/// The nodes of those that are out, or on their way.
fn out(world: &World) -> Vec<NodeId> {
    let serves = |step: &Step| matches!(step, Step::Serving);
    world
        .agents
        .iter()
        .filter(|(_, agent)| !serves(&agent.report.step))
        .map(|(node, _)| node.clone())
        .collect()
}

/// One of four was being drained, another one was unhealthy for a moment, and the first is back.
fn after_a_recall() -> (World, NodeId) {
    let mut world = World::at_version_1(4);
    world.start(spec(json!({"strategy": "immediate", "max_unavailable": 1, "min_in_service": 3}))).unwrap();
    world.until_roll();
    world.until("one is being drained", |world| !out(world).is_empty());
    let drained = out(&world).remove(0);
    let flapping = world.agents.keys().find(|node| **node != drained).unwrap().clone();
    world.set_unready(&flapping, true);
    world.turn();
    world.set_unready(&flapping, false);
    for _ in 0..3 {
        world.agents_step();
    }
    assert_eq!(out(&world), [], "it is back");
    (world, drained)
}

#[test]
fn none_is_taken_out_for_a_while_after_a_recall() {
    for (passed, rests) in [(0, true), (4_999, true), (5_000, false)] {
        let (mut world, recalled) = after_a_recall();
        world.recalled_ms = [(service(), passed)].into();
        let (_, plan) = world.turn();
        world.agents_step();
        assert_eq!(out(&world).is_empty(), rests, "{passed} ms");
        let reasons = plan.waiting.get(&upgrade_id()).map_or(&[][..], Vec::as_slice);
        let named = reasons.iter().find(|reason| reason.kind() == "recalled");
        assert_eq!(named.is_some(), rests, "{passed} ms: {reasons:?}");
        assert!(
            named.is_none_or(|reason: &Reason| reason.to_string().contains(recalled.as_str())),
            "{named:?}"
        );
    }
}

#[test]
fn rest_after_a_recall_holds_nothing_once_all_are_moved() {
    let (mut world, _) = after_a_recall();
    world.until("all are new", |world| world.versions() == [2; 4]);
    world.recalled_ms = [(service(), 0)].into();
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

/// It is ready again between the turn and the commit, and another one is not: capacity lacks it then.
#[test]
fn stop_of_an_unready_one_is_beaten_by_its_next_report() {
    let mut world = being_taken_out(&Step::Drained { forced: false });
    let planned = commits(&world);
    assert!(!planned.is_empty(), "its stop is planned");
    world.set_unready(&node(0), true);
    world.set_unready(&node(2), false);
    assert!(planned.iter().all(|commit| !world.store.commit(commit)), "it was stopped, and is healthy");
    world.turn();
    let now = disposition(&world, 2);
    assert!(matches!(now, Some(Disposition::Serve { .. })), "{now:?}");
}
