//! An instance whose running version is not known, and which a skip, a failure or a cordon keeps from being moved: the
//! reasons name the command that has it moved.

use crate::sim::{World, node, release, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::{self, Asker};
use tidegate_planner::gate::Waits;
use tidegate_planner::{Known, Plan};
use tidegate_proto::record::report::{Health, Report, Rotation, Step};
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::{Commit, Key};

fn asker() -> Asker {
    Asker { who: "op".into(), why: "seen".into(), accepts: Default::default() }
}

fn carry_out(world: &mut World, commit: &Commit) {
    assert!(world.store.commit(commit));
    world.events += 1;
}

fn skip(world: &mut World, n: usize) {
    let commit = ask::skip(world.store.fleet(), &world.moment(), &upgrade_id(), &node(n), &asker()).unwrap();
    carry_out(world, &commit);
}

fn retry(world: &mut World, n: usize) {
    let commit = ask::retry(world.store.fleet(), &world.moment(), &upgrade_id(), &node(n), &asker()).unwrap();
    carry_out(world, &commit);
}

/// Whether the reasons name the retry of an instance.
fn names_retry(plan: &Plan, n: usize) -> bool {
    names(plan, &format!("tidegate upgrade retry u1 n{n}"))
}

/// Whether the reasons name the uncordon of a node.
fn names_uncordon(plan: &Plan, n: usize) -> bool {
    names(plan, &format!("tidegate fleet uncordon n{n}, or remove the disable-file there"))
}

fn names(plan: &Plan, command: &str) -> bool {
    let reasons = &plan.waiting[&upgrade_id()];
    let mut steps = reasons.iter().filter_map(|r| r.explained(Waits::Upgrade(&upgrade_id())).next_step);
    steps.any(|step| step == command)
}

/// Its service has ended, and its agent tries to start it again.
fn ends(world: &mut World, n: usize, change: impl FnOnce(&mut Report)) {
    let agent = world.agents.get_mut(&node(n)).unwrap();
    agent.undrainable = false;
    let report = &mut agent.report;
    report.version = None;
    (report.step, report.rotation, report.health) = (Step::Starting, Rotation::Out, Health::Unhealthy);
    change(report);
    world.publish(&node(n));
}

/// Its agent was admitted in a store that was lost. In this one another agent with its node name has that revision.
#[test]
fn admission_of_another_agent_is_not_taken_for_its_own() {
    let mut world = World::at_version_1(2);
    let known =
        |world: &World| world.store.fleet().service(&service()).unwrap().get(&node(1)).unwrap().known();
    assert_eq!(known(&world), Known::At(release(1).version));
    world.agents.get_mut(&node(1)).unwrap().report.identity.nonce = "another".into();
    world.publish(&node(1));
    assert_eq!(known(&world), Known::Unknown);
    assert!(world.admit(&node(1)));
    world.publish(&node(1));
    assert_eq!(known(&world), Known::At(release(1).version));
}

/// It joined in the roll, and its agent knows of no release: only an order to run one starts it.
#[test]
fn skipped_instance_without_a_version_is_named_with_retry() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"strategy": "immediate", "min_in_service": 0, "max_unavailable": 2}))).unwrap();
    world.until_roll();
    world.join(4, 1);
    carry_out(&mut world, &Commit::new().delete(Key::Inventory(service(), node(4))));
    let report = &mut world.agents.get_mut(&node(4)).unwrap().report;
    (report.version, report.release, report.release_digest) = (None, None, None);
    (report.step, report.rotation, report.health) = (Step::Starting, Rotation::Unknown, Health::Unknown);
    world.publish(&node(4));
    skip(&mut world, 4);
    world.run();
    assert_eq!(world.versions(), [2, 2, 2, 1], "it holds no other");
    ends_with_retry(&mut world, 4);
    assert_eq!(world.versions(), [2; 4]);
}

/// The roll waits for the instance, names the retry, and ends with it.
fn ends_with_retry(world: &mut World, n: usize) {
    let at_rest = world.run();
    assert!(matches!(world.phase(), Phase::Roll { .. }), "{:?}: {:?}", world.phase(), at_rest.waiting);
    assert!(names_retry(&at_rest, n), "{:?}", at_rest.waiting);
    retry(world, n);
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
}

/// Its drain failed within what the spec tolerates. It was let back, and has ended since.
#[test]
fn failed_instance_without_a_version_is_named_with_retry() {
    let mut world = World::at_version_1(3);
    let failures = json!({"tolerate": 1, "per_wave": 1});
    world
        .start(spec(json!({
            "strategy": "immediate", "min_in_service": 0, "max_unavailable": 2, "failures": failures,
        })))
        .unwrap();
    world.until_roll();
    world.agents.get_mut(&node(1)).unwrap().undrainable = true;
    world.run();
    assert_eq!(world.versions(), [2, 1, 2]);
    ends(&mut world, 1, |_| ());
    ends_with_retry(&mut world, 1);
    assert_eq!(world.versions(), [2; 3]);
}

/// The same in a rollback, where its agent has lost its journal as well: it does not name the release that it ran.
#[test]
fn unknown_version_after_failed_return_is_named_with_retry() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"approvals": ["remove"]}))).unwrap();
    world.run();
    world.agents.get_mut(&node(1)).unwrap().undrainable = true;
    world.roll_back();
    world.run();
    assert_eq!(world.versions(), [1, 2, 1]);
    ends(&mut world, 1, |report| (report.release, report.release_digest) = (None, None));
    let at_rest = world.run();
    assert!(matches!(world.phase(), Phase::RollingBack { .. }), "{:?}", world.phase());
    assert!(names_retry(&at_rest, 1), "{:?}", at_rest.waiting);
    retry(&mut world, 1);
    let last = world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}: {:?}", world.phase(), last.waiting);
    assert_eq!(world.versions(), [1; 3]);
}

/// A world in remove, in which a person has cordoned a node since its instance was moved.
fn in_remove_with_a_cordoned_node(n: usize) -> World {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"strategy": "immediate", "min_in_service": 0, "max_unavailable": 2}))).unwrap();
    world.until("remove", |world| world.phase() == Phase::Remove);
    let cordon = ask::cordon(world.store.fleet(), &world.moment(), &node(n), &asker()).unwrap();
    carry_out(&mut world, &cordon);
    world
}

/// Its agent has lost its journal while nothing ran: only an order to run a release starts it.
#[test]
fn unknown_version_on_cordoned_node_is_named_with_uncordon() {
    let mut world = in_remove_with_a_cordoned_node(1);
    ends(&mut world, 1, |report| {
        (report.release, report.release_digest) = (None, None);
        report.answers = Some("nothing listens".into());
    });
    let at_rest = world.run();
    assert_eq!(world.phase(), Phase::Remove, "{:?}", at_rest.waiting);
    assert!(names_uncordon(&at_rest, 1), "{:?}", at_rest.waiting);
    let uncordon = ask::uncordon(world.store.fleet(), &world.moment(), &node(1), &asker()).unwrap();
    carry_out(&mut world, &uncordon);
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.versions(), [2; 3]);
}

/// A person has put the former version back there.
#[test]
fn former_version_on_cordoned_node_is_named_with_uncordon() {
    let mut world = in_remove_with_a_cordoned_node(1);
    let agent = world.agents.get_mut(&node(1)).unwrap();
    agent.release = release(1);
    agent.report.version = Some(release(1).version);
    world.publish(&node(1));
    let at_rest = world.run();
    assert_eq!(world.phase(), Phase::Remove, "{:?}", at_rest.waiting);
    assert!(names_uncordon(&at_rest, 1), "{:?}", at_rest.waiting);
}
