//! Hooks on named nodes: what warms a release up before it goes out, and what removes its image. Agents claim the tasks
//! and report how they ended; where one cannot, a person states it.

use super::fixture::{asker, commits, reported, stream};
use crate::sim::World;
use serde_json::json;
use std::collections::BTreeMap;
use tidegate_planner::ask::{Refusal, RefusalKind, release, settle_task};
use tidegate_planner::{Reason, plan};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::report::Identity;
use tidegate_proto::record::task::{Ended, Outcome, TaskResult};
use tidegate_proto::{Key, NodeId, TaskId, Value};

fn failed(why: &str) -> Outcome {
    Outcome::Failed { why: why.into() }
}

fn unknown() -> Outcome {
    Outcome::Unknown { why: "the machine was rebooted while the hook ran".into() }
}

/// Two nodes are warmed up before each release.
fn warmed() -> World {
    let mut world = World::at_version_1(2);
    world.configure(json!({"prewarm": {"hook": "pull-image", "nodes": ["n7", "n8"]}})).unwrap();
    world
}

impl World {
    fn tasks(&self) -> Vec<(NodeId, TaskId)> {
        let of = |key: &Key| match key {
            Key::Task(node, id) => Some((node.clone(), id.clone())),
            _ => None,
        };
        self.store.keys.keys().filter_map(of).collect()
    }

    /// The task of that node: the one that was ordered last.
    fn task(&self, node: &str) -> (NodeId, TaskId) {
        let of = self.tasks().into_iter().filter(|(of, _)| of.as_str() == node);
        of.max_by_key(|(_, id)| id.as_str().to_owned())
            .unwrap_or_else(|| panic!("nothing is ordered on {node}"))
    }

    /// The part of that node's agent.
    fn hook_reports(&mut self, node: &str, outcome: Outcome) {
        let (node, id) = self.task(node);
        self.task_reports(node, id, outcome);
    }

    fn task_reports(&mut self, node: NodeId, id: TaskId, outcome: Outcome) {
        self.store.put(Key::TaskResult(node.clone(), id), reported(&node, outcome));
    }

    fn settle_task(&mut self, node: &str, ended: Ended) -> Result<(), Refusal> {
        let (node, id) = self.task(node);
        let moment = self.moment();
        let word = asker("I have looked: nothing of it runs");
        let commit = settle_task(self.store.fleet(), &moment, (&node, &id), ended, &word)?;
        assert!(self.store.commit(&commit), "no other writer is here");
        self.events += 1;
        Ok(())
    }

    fn hook_waits(&mut self, revision: u64) -> Vec<String> {
        self.settle()
            .get(&revision)
            .map(|why| why.iter().map(Reason::to_string).collect())
            .unwrap_or_default()
    }

    fn because(&self, revision: u64) -> String {
        self.release_record(revision).unwrap().because.clone()
    }
}

#[test]
fn promoted_release_does_not_wait_for_prewarm() {
    for (fraction, status) in [(None, ReleaseStatus::Deployed), (Some(0.5), ReleaseStatus::Canary)] {
        let mut world = warmed();
        world.create(1, json!({})).unwrap();
        world.settle();
        for node in ["n7", "n8"] {
            world.hook_reports(node, Outcome::Succeeded);
        }
        world.settle();
        world.create(2, json!({})).unwrap();
        world.settle();
        assert_eq!((world.deployed(), world.status(2)), (Some(1), ReleaseStatus::Pending));
        world.promote(2, fraction).unwrap();
        world.settle();
        assert_eq!(world.status(2), status);
    }
}

#[test]
fn a_release_goes_out_only_after_every_named_node_was_warmed_up() {
    let mut world = warmed();
    world
        .configure(json!({"approval": "required", "prewarm": {"hook": "pull-image", "nodes": ["n7", "n8"]}}))
        .unwrap();
    world.create(1, json!({})).unwrap();
    world.settle();
    assert!(world.tasks().is_empty(), "not before it is approved");
    world.approve(1).unwrap();
    assert_eq!(world.hook_waits(1), ["hook pull-image has not started on n7, n8"]);
    world.hook_reports("n7", Outcome::Claimed);
    assert_eq!(world.hook_waits(1), ["hook pull-image has not started on n8", "hook pull-image runs on n7"]);
    world.hook_reports("n7", Outcome::Succeeded);
    world.hook_reports("n8", Outcome::Claimed);
    assert_eq!(world.hook_waits(1), ["hook pull-image runs on n8"]);
    assert_eq!(world.deployed(), None);
    world.hook_reports("n8", Outcome::Succeeded);
    world.settle();
    assert_eq!(world.deployed(), Some(1));
    assert!(world.tasks().is_empty(), "what nothing waits for is removed");
    assert!(!world.store.keys.keys().any(|key| matches!(key, Key::TaskResult(..))));
}

#[test]
fn failed_hook_fails_release_until_retried() {
    let mut world = warmed();
    world.create(1, json!({})).unwrap();
    world.settle();
    let first = world.task("n7").1;
    world.hook_reports("n8", Outcome::Succeeded);
    world.hook_reports("n7", failed("no such image"));
    world.settle();
    assert_eq!(world.status(1), ReleaseStatus::Error);
    assert_eq!(world.because(1), "hook pull-image failed on n7: no such image");
    world.settle();
    assert!(world.tasks().is_empty(), "the first attempt is over: {first}");
    world.retry(1).unwrap();
    world.settle();
    assert_eq!(world.tasks().len(), 2, "every node gets a new task");
    assert_ne!(world.task("n7").1, first, "under another name");
    for node in ["n7", "n8"] {
        world.hook_reports(node, Outcome::Succeeded);
    }
    world.settle();
    assert_eq!(world.deployed(), Some(1));
}

#[test]
fn failure_text_of_agent_is_shortened() {
    let mut world = warmed();
    world.create(1, json!({})).unwrap();
    world.settle();
    world.hook_reports("n7", failed(&"x".repeat(30_000)));
    world.settle();
    assert!(world.because(1).len() < 600, "{}", world.because(1).len());
}

#[test]
fn unknown_outcome_waits_for_a_person_without_timeout() {
    let mut world = warmed();
    world.create(1, json!({})).unwrap();
    world.settle();
    world.hook_reports("n7", unknown());
    world.hook_reports("n8", Outcome::Succeeded);
    world.settle();
    world.wait(1_000_000_000);
    let why = "hook pull-image started on n7, and its outcome is not known: the machine was rebooted while the hook ran";
    assert_eq!(world.hook_waits(1), [why]);
    let reported = release::explain(world.store.fleet(), &world.moment(), &stream()).unwrap();
    let helps = reported.values().next().unwrap()[0].next_step.clone().unwrap();
    let id = world.task("n7").1;
    let settle = |how| format!("tidegate task settle n7 {id} --outcome {how} --why …");
    assert_eq!(helps, format!("{}, or {}", settle("succeeded"), settle("failed")));
    world.settle_task("n7", Ended::Succeeded).unwrap();
    world.settle();
    assert_eq!(world.deployed(), Some(1));
    assert!(world.tasks().is_empty());
    let events = world.store.keys.values().filter_map(|(value, ..)| match value {
        Value::Event(event) if event.body.to.contains("settled") => Some(event.body.clone()),
        _ => None,
    });
    let events: Vec<_> = events.collect();
    assert_eq!(events.len(), 1);
    assert_eq!(
        (events[0].who.as_str(), events[0].to.as_str()),
        ("anna", &*format!("task {id} on n7 settled as succeeded"))
    );
}

#[test]
fn claim_of_a_replaced_agent_waits_for_a_person() {
    let mut world = World::at_version_1(1);
    world.configure(json!({"prewarm": {"hook": "pull-image", "nodes": ["n0"]}})).unwrap();
    world.create(1, json!({})).unwrap();
    world.settle();
    let (node, id) = world.task("n0");
    let runs = "hook pull-image runs on n0";
    let replaced = "hook pull-image started on n0, and its outcome is not known: \
                    the agent with nonce another claimed it, and another agent reports the node now";
    for (nonce, why) in [("nonce0", runs), ("another", replaced)] {
        let by = Some(Identity { nonce: nonce.into(), boot: "an earlier boot".into() });
        let claim = TaskResult { by, ..TaskResult::new(Outcome::Claimed, Timestamp(0)) };
        world.store.put(Key::TaskResult(node.clone(), id.clone()), claim);
        assert_eq!(world.hook_waits(1), [why]);
    }
    let mut silent = world.clone();
    silent.fall_silent(0);
    assert_eq!(silent.hook_waits(1), [runs], "the agent that claimed it may be away");
    world.settle_task("n0", Ended::Succeeded).unwrap();
    world.settle();
    assert_eq!(world.deployed(), Some(1));
}

#[test]
fn claim_that_names_no_agent_waits_for_a_person() {
    let mut world = warmed();
    world.create(1, json!({})).unwrap();
    world.settle();
    let (node, id) = world.task("n7");
    world.store.put(Key::TaskResult(node, id), TaskResult::new(Outcome::Claimed, Timestamp(0)));
    let unknown = "is not known: its claim names no agent, so that none will report how it ends";
    assert!(world.hook_waits(1).iter().any(|why| why.contains(unknown)), "{:?}", world.hook_waits(1));
}

#[test]
fn a_person_who_states_that_it_failed_fails_the_release() {
    let mut world = warmed();
    world.create(1, json!({})).unwrap();
    world.settle();
    world.hook_reports("n7", Outcome::Claimed);
    world.settle_task("n7", Ended::Failed).unwrap();
    world.settle();
    assert_eq!(world.status(1), ReleaseStatus::Error);
    assert_eq!(
        world.because(1),
        "hook pull-image failed on n7: anna states: I have looked: nothing of it runs"
    );
}

#[test]
fn only_what_was_begun_and_has_not_ended_is_settled() {
    let mut world = warmed();
    world.create(1, json!({})).unwrap();
    world.settle();
    let untaken = world.settle_task("n7", Ended::Failed).unwrap_err();
    assert_eq!(untaken.kind, RefusalKind::State);
    assert!(
        untaken.message.contains("has not started on n7")
            && untaken.message.contains("settings of stream compute")
    );
    world.hook_reports("n7", Outcome::Succeeded);
    let ended = world.settle_task("n7", Ended::Failed).unwrap_err();
    assert!(ended.message.contains("has ended: it succeeded"), "{ended}");
    let (absent, nothing): (NodeId, TaskId) = ("n9".parse().unwrap(), "t".parse().unwrap());
    let ask = |why: &str, node: &NodeId| {
        settle_task(world.store.fleet(), &world.moment(), (node, &nothing), Ended::Failed, &asker(why))
            .unwrap_err()
    };
    assert_eq!(ask("gone", &absent).kind, RefusalKind::NotFound);
    assert_eq!(ask(" ", &absent).kind, RefusalKind::Invalid);
}

#[test]
fn an_agent_that_finds_out_after_all_is_first() {
    let mut world = warmed();
    world.create(1, json!({})).unwrap();
    world.settle();
    world.hook_reports("n7", Outcome::Claimed);
    let (node, id) = world.task("n7");
    let settle = |world: &World| {
        settle_task(world.store.fleet(), &world.moment(), (&node, &id), Ended::Failed, &asker("gone"))
            .unwrap()
    };
    let late = settle(&world);
    let same = settle(&world);
    world.hook_reports("n7", Outcome::Succeeded);
    assert!(!world.store.commit(&late), "it was asked before the agent reported");
    // The other way round: the person was first, and the agent has seen the end.
    world.hook_reports("n7", Outcome::Claimed);
    assert!(!world.store.commit(&same));
    world.settle_task("n7", Ended::Failed).unwrap();
    world.hook_reports("n7", Outcome::Succeeded);
    world.hook_reports("n8", Outcome::Succeeded);
    world.settle();
    assert_eq!(world.deployed(), Some(1), "what its agent has seen counts more");
}

#[test]
fn retry_runs_nothing_beside_hook_possibly_running() {
    for (outcome, why) in [(Outcome::Claimed, "runs on n7"), (unknown(), "started on n7, and its outcome")] {
        let mut world = warmed();
        world.create(1, json!({})).unwrap();
        world.settle();
        let (node, first) = world.task("n7");
        world.task_reports(node, first.clone(), outcome);
        world.hook_reports("n8", failed("no space left"));
        world.settle();
        assert_eq!(world.status(1), ReleaseStatus::Error);
        world.retry(1).unwrap();
        let reported = world.hook_waits(1);
        assert!(reported.iter().any(|reported| reported.contains(why)), "{reported:?}");
        assert_eq!(world.task("n7").1, first, "nothing new is ordered on n7");
        world.hook_reports("n8", Outcome::Succeeded);
        world.settle();
        assert_eq!(world.deployed(), None);

        world.settle_task("n7", Ended::Failed).unwrap();
        world.settle();
        assert_ne!(world.task("n7").1, first, "now it is asked again");
        world.hook_reports("n7", Outcome::Succeeded);
        world.settle();
        assert_eq!(world.deployed(), Some(1));
    }
}

#[test]
fn success_of_former_hook_does_not_count_for_another() {
    let mut world = warmed();
    world.create(1, json!({})).unwrap();
    world.settle();
    world.hook_reports("n7", Outcome::Succeeded);
    world.configure(json!({"prewarm": {"hook": "pull-all", "nodes": ["n7", "n8"]}})).unwrap();
    assert_eq!(world.hook_waits(1), ["hook pull-all has not started on n7, n8"]);
    assert_eq!(world.tasks().len(), 2, "those of the former hook are removed");

    let removing = |hook: &str| json!({"minimum_available": 1, "removal": {"hook": hook, "nodes": ["n7"]}});
    world.configure(removing("drop")).unwrap();
    world.release(2, json!({}));
    world.hook_reports("n7", failed("no such hook"));
    world.configure(removing("drop-image")).unwrap();
    assert_eq!(world.hook_waits(1), ["hook drop-image has not started on n7"], "without a retry");
}

#[test]
fn task_that_began_is_kept_though_nothing_waits_for_it() {
    let mut world = warmed();
    world.create(1, json!({})).unwrap();
    world.settle();
    world.hook_reports("n7", Outcome::Claimed);
    world.configure(json!({})).unwrap();
    world.settle();
    assert_eq!(world.deployed(), Some(1), "no hook is asked for any more");
    let left: Vec<String> = world.tasks().into_iter().map(|(node, _)| node.to_string()).collect();
    assert_eq!(left, ["n7"], "the one that was claimed stays until it has ended");
    // Planned to be forgotten, and settled or claimed meanwhile: then it stays.
    world.hook_reports("n7", Outcome::Succeeded);
    let forget = commits(&world);
    assert_eq!(forget.len(), 1);
    world.hook_reports("n7", unknown());
    assert!(!world.store.commit(&forget[0]));
    world.settle();
    assert_eq!(world.tasks().len(), 1);
    world.settle_task("n7", Ended::Succeeded).unwrap();
    world.settle();
    assert!(world.tasks().is_empty());
}

#[test]
fn unreadable_task_is_a_reason_and_not_ordered_again() {
    let mut world = warmed();
    world.create(1, json!({})).unwrap();
    world.settle();
    let (node, id) = world.task("n7");
    for key in [Key::Task(node.clone(), id.clone()), Key::TaskResult(node, id)] {
        let mut fleet = world.store.fleet().clone();
        let unreadable = Value::decode(&key, b"\xff").map(|_| unreachable!());
        fleet.put(key.clone(), unreadable, tidegate_proto::Revision(9_999));
        let planned = plan(&fleet, &world.moment());
        assert!(planned.actions.is_empty(), "{:?}", planned.actions);
        let reported: BTreeMap<_, _> = planned.releases;
        let reported: Vec<String> = reported.values().flatten().map(Reason::to_string).collect();
        assert!(reported.contains(&format!("the record {key} is not UTF-8")), "{reported:?}");
    }
}

#[test]
fn an_image_is_removed_by_its_hook_and_the_record_stays() {
    let mut world = World::at_version_1(1);
    world
        .configure(json!({"minimum_available": 1, "removal": {"hook": "drop-image", "nodes": ["n7"]}}))
        .unwrap();
    world.release(1, json!({}));
    world.release(2, json!({}));
    assert_eq!(world.hook_waits(1), ["hook drop-image has not started on n7"]);
    assert_eq!(world.status(1), ReleaseStatus::Deprecated);
    world.hook_reports("n7", Outcome::Claimed);
    assert_eq!(world.hook_waits(1), ["hook drop-image runs on n7"]);
    world.hook_reports("n7", failed("busy"));
    assert_eq!(world.hook_waits(1), ["hook drop-image failed on n7: busy"]);
    world.retry(1).unwrap();
    world.settle();
    world.hook_reports("n7", unknown());
    assert!(world.hook_waits(1)[0].contains("is not known"));
    world.settle_task("n7", Ended::Failed).unwrap();
    assert!(world.hook_waits(1)[0].contains("failed on n7: anna states"));
    world.retry(1).unwrap();
    world.settle();
    world.hook_reports("n7", Outcome::Succeeded);
    world.settle();
    assert_eq!((world.stream().heads().count(), world.status(1)), (1, ReleaseStatus::Deprecated));
    assert!(!world.store.keys.keys().any(|key| matches!(key, Key::Task(..) | Key::TaskResult(..))));
}
