//! Compute releases on a store that was restored: they are held with the reason, and nothing is granted.

use super::fixture::{revision, stream, watched_floor};
use crate::sim::{World, node, service};
use serde_json::json;
use tidegate_planner::ask::reconcile::{Choices, propose, reconcile};
use tidegate_planner::ask::{self, release};
use tidegate_planner::gate::{StoreGate, VersionGate, Waits};
use tidegate_planner::{Reason, Sample, plan};
use tidegate_proto::commit::Commit;
use tidegate_proto::record::evidence::Verdict;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::report::Rotation;
use tidegate_proto::{InstanceId, Key, TermId};

/// Two agents obeyed a term that the store does not know.
fn contradict(world: &mut World) {
    let elsewhere: TermId = "elsewhere".parse().unwrap();
    for n in [node(1), node(2)] {
        world.agents.get_mut(&n).unwrap().report.witness.term = Some(TermId::clone(&elsewhere));
        world.publish(&n);
    }
}

#[test]
fn restored_store_blocks_releases_and_grants() {
    let mut world = World::at_version_1(3);
    world.create(9057, json!({})).unwrap();
    contradict(&mut world);
    let moment = world.moment();
    let planned = plan(world.store.fleet(), &moment);
    assert!(planned.actions.is_empty(), "{:?}", planned.actions);
    let held = &planned.releases[&(stream(), revision(1))];
    assert!(matches!(held.as_slice(), [Reason::Store(StoreGate::Restored { count: 2, .. })]), "{held:?}");
    let reported = release::explain(world.store.fleet(), &moment, &stream()).unwrap();
    let [reported] = reported[&revision(1)].as_slice() else { panic!("{reported:?}") };
    assert_eq!(reported.kind, "restored");
    assert!(reported.blocked_on.contains("pantry-api/n1 obeyed term elsewhere"), "{}", reported.blocked_on);
    assert_eq!(reported.next_step.as_deref(), Some("tidegate fleet reconcile"));
    assert!(ask::reconciled(world.store.fleet(), &moment).is_err(), "no request is accepted");

    let asker = super::fixture::asker("the disk died");
    let choices = Choices::default();
    let hash = propose(world.store.fleet(), &moment, &choices).unwrap().hash();
    let commit = reconcile(world.store.fleet(), &moment, &choices, hash, &asker).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.settle();
    assert_eq!(world.status(1), ReleaseStatus::Deployed, "then it goes out by itself");
}

#[test]
fn new_store_awaits_reports_before_any_release() {
    let mut world = World::at_version_1(3);
    world.create(9057, json!({})).unwrap();
    let mut moment = world.moment();
    moment.report_grace_left_ms = 900;
    let planned = plan(world.store.fleet(), &moment);
    assert!(planned.actions.is_empty(), "{:?}", planned.actions);
    assert_eq!(
        planned.releases[&(stream(), revision(1))],
        [Reason::Store(StoreGate::AwaitingReports { for_ms: 900 })]
    );
}

/// A release that needs evidence, and an instance whose version and release are not known to this store.
fn with_an_unknown_instance() -> World {
    let mut world = World::at_version_1(3);
    world.create(1, json!({"requires": {"pantry-api": 1}, "evidence": "required"})).unwrap();
    world.record_evidence(("release-1", "pantry-1.0.0"), Verdict::Pass);
    assert!(world.store.commit(&Commit::new().delete(Key::Inventory(service(), node(2)))));
    let report = &mut world.agents.get_mut(&node(2)).unwrap().report;
    (report.version, report.release, report.release_digest) = (None, None, None);
    report.witness.term = Some("elsewhere".parse().unwrap());
    world.publish(&node(2));
    world
}

/// A person applies the plan of these choices.
fn apply(world: &mut World, choices: &Choices) {
    let asker = super::fixture::asker("I have looked");
    let moment = world.moment();
    let hash = propose(world.store.fleet(), &moment, choices).unwrap().hash();
    let commit = reconcile(world.store.fleet(), &moment, choices, hash, &asker).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
}

/// A person disregards the claim of an instance.
fn disregard(world: &mut World, n: usize) {
    let disregard = [InstanceId::new(service(), node(n))].into();
    apply(world, &Choices { disregard, ..Choices::default() });
}

/// A person includes the claim of an instance.
fn include(world: &mut World, n: usize) {
    let include = [InstanceId::new(service(), node(n))].into();
    apply(world, &Choices { include, ..Choices::default() });
}

#[test]
fn release_names_the_disregarded_instance_to_include() {
    let mut world = with_an_unknown_instance();
    let kinds = |waiting: &[Reason]| waiting.iter().map(Reason::kind).collect::<Vec<_>>();
    assert_eq!(kinds(&world.settle()[&1]), ["unsupported-claim", "release-unknown"]);

    disregard(&mut world, 2);
    let waiting = world.settle();
    let commands = |waiting: &[Reason]| -> Vec<Option<String>> {
        let disregarded = waiting.iter().filter(|reason| reason.kind() == "disregarded");
        let name = stream();
        disregarded.map(|reason| reason.explained(Waits::Release(&name, revision(1))).next_step).collect()
    };
    let check = "tidegate-agent check (on n2)".to_owned();
    assert_eq!(commands(&waiting[&1]), [Some(check)], "a plan that includes it is refused");
    assert!(kinds(&waiting[&1]).contains(&"release-unknown"), "{waiting:?}");

    world.agents.get_mut(&node(2)).unwrap().report.rotation = Rotation::Out;
    world.publish(&node(2));
    let waiting = world.settle();
    let include = "tidegate fleet reconcile --include pantry-api/n2".to_owned();
    assert_eq!(commands(&waiting[&1]), [Some(include)]);
}

/// Its agent has lost its journal, and its configuration has two releases of the version.
#[test]
fn unknown_running_release_names_what_the_config_needs() {
    let mut world = with_an_unknown_instance();
    let release = crate::sim::release(1);
    let report = &mut world.agents.get_mut(&node(2)).unwrap().report;
    (report.version, report.witness.term) = (Some(release.version), None);
    world.admit(&node(2));
    let key = Key::Inventory(service(), node(2));
    let Some((tidegate_proto::Value::Inventory(record), _, _)) = world.store.keys.get(&key).cloned() else {
        panic!("it is admitted")
    };
    let mut inventory = record.body;
    inventory.release = None;
    let at = world.store.put(key, inventory);
    world.agents.get_mut(&node(2)).unwrap().admitted = at;
    world.publish(&node(2));
    let waiting = world.settle();
    let [reason] = waiting[&1].as_slice() else { panic!("{waiting:?}") };
    let needed = "give exactly one [service.pantry-api.artifact.\"TAG\"] of the version that runs";
    assert!(reason.to_string().contains(needed), "{reason}");
}

/// The store lost the release that computes run. Another one of the same tag waits, and needs version 2. One of two
/// instances runs the given version, and claims a term that the store does not know.
fn with_a_claim_and_a_need(version: i64) -> World {
    let mut world = World::at_version_1(0);
    world.join(0, 2);
    world.join(1, version);
    world.agents.get_mut(&node(1)).unwrap().report.witness.term = Some("elsewhere".parse().unwrap());
    world.publish(&node(1));
    world.create(1, json!({"requires": {"pantry-api": 2}})).unwrap();
    world.run_computes(&[("release-1", 7)]).unwrap();
    world.settle();
    assert_eq!((world.need(), watched_floor(&world)), (Some(2), None), "the claim of one node closes it");
    world
}

#[test]
fn claim_of_one_node_closes_the_floor_that_follows_needs() {
    let mut world = with_a_claim_and_a_need(1);
    include(&mut world, 1);
    world.settle();
    assert_eq!((world.need(), watched_floor(&world)), (Some(2), Some((2, true))), "a person has decided");
}

/// A plan may include its claim later, and could not above what it runs.
#[test]
fn disregarded_instance_below_a_need_closes_the_floor() {
    let mut world = with_a_claim_and_a_need(1);
    disregard(&mut world, 1);
    world.settle();
    assert_eq!((world.need(), watched_floor(&world)), (Some(2), None), "it runs version 1");
    world.agents.get_mut(&node(1)).unwrap().report.version = None;
    world.publish(&node(1));
    world.settle();
    assert_eq!(watched_floor(&world), None, "its version is not known");
    world.agents.get_mut(&node(1)).unwrap().report.version = Some(crate::sim::release(1).version);
    world.publish(&node(1));
    include(&mut world, 1);
    world.settle();
    assert_eq!(watched_floor(&world), Some((2, true)), "it obeys the store");
}

/// When it is back, a plan may include it, and could not above what it runs.
#[test]
fn silent_disregarded_instance_closes_the_floor() {
    let mut world = with_a_claim_and_a_need(1);
    disregard(&mut world, 1);
    world.fall_silent(1);
    world.settle();
    assert_eq!((world.need(), watched_floor(&world)), (Some(2), None));
    world.decommission(1);
    world.settle();
    assert_eq!(watched_floor(&world), Some((2, true)), "it does not come back");
}

/// Its agent was installed again after a person had disregarded its claim, and obeys the store.
#[test]
fn silent_one_admitted_since_leaves_the_floor_open() {
    let mut world = with_a_claim_and_a_need(1);
    disregard(&mut world, 1);
    world.agents.get_mut(&node(1)).unwrap().report.witness.term = None;
    assert!(world.admit(&node(1)));
    world.fall_silent(1);
    world.settle();
    assert_eq!((world.need(), watched_floor(&world)), (Some(2), Some((2, true))));
}

#[test]
fn disregarded_instance_at_a_need_leaves_the_floor_open() {
    let mut world = with_a_claim_and_a_need(2);
    disregard(&mut world, 1);
    world.settle();
    assert_eq!((world.need(), watched_floor(&world)), (Some(2), Some((2, true))));
}

/// Computes run another release, which needs version 3.
#[test]
fn floor_follows_needs_up_to_what_a_disregarded_instance_runs() {
    let mut world = with_a_claim_and_a_need(2);
    world.create(2, json!({"requires": {"pantry-api": 3}})).unwrap();
    world.run_computes(&[("release-1", 7), ("release-2", 1)]).unwrap();
    world.settle();
    assert_eq!((world.need(), watched_floor(&world)), (Some(3), None), "the claim of one node closes it");
    disregard(&mut world, 1);
    world.settle();
    assert_eq!((world.need(), watched_floor(&world)), (Some(3), Some((2, true))), "a plan may include it");
}

/// A plan has raised the floor to what another agent had obeyed of the former store.
#[test]
fn disregarded_one_below_a_reconciled_floor_holds_a_release() {
    let mut world = World::at_version_1(0);
    let needs = crate::sim::release(2).version;
    world.join(1, 2);
    world.join(2, 1);
    for n in [node(1), node(2)] {
        world.agents.get_mut(&n).unwrap().report.witness.floor = Some(needs);
    }
    contradict(&mut world);
    disregard(&mut world, 2);
    assert_eq!(watched_floor(&world), Some((2, false)));
    world.create(1, json!({"requires": {"pantry-api": 2}})).unwrap();
    let nodes = Sample { first: vec![node(2)], count: 1 };
    let behind = Reason::Version(VersionGate::Behind { service: service(), nodes, needs });
    assert_eq!((world.settle().remove(&1), world.deployed()), (Some(vec![behind]), None));
    world.join(2, 2);
    world.settle();
    assert_eq!(world.deployed(), Some(1), "its agent was installed again and obeys the store");
}
