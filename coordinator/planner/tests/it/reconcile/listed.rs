//! Instances of a plan whose reports lapse before their agents obey the reconciliation: the store has no admission of them.

use super::contracted::reconciled;
use super::{apply, asker, blank_in_mid_roll, disregard, instance, version};
use crate::sim::{World, node, service, spec, upgrade_id};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_planner::ask::reconcile::Choices;
use tidegate_planner::ask::{self, Gone, Refusal};
use tidegate_planner::gate::{VersionGate, Waits, preflight};
use tidegate_planner::{Known, Reason};
use tidegate_proto::record::MAX_RECORD_BYTES;
use tidegate_proto::record::reconciliation::Reconciliation;
use tidegate_proto::record::report::{Report, Witness};
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::{Commit, Key, NodeId, Revision};

/// The agents of all others obey the reconciliation, and are admitted.
pub(super) fn with_a_silent_one(n: usize) -> World {
    let mut world = blank_in_mid_roll();
    apply(&mut world, &Choices::default()).unwrap();
    world.fall_silent(n);
    let others: Vec<NodeId> = world.agents.keys().filter(|other| **other != node(n)).cloned().collect();
    for other in others {
        let agent = world.agents.get_mut(&other).unwrap();
        agent.report.version = agent.report.probed.take();
        assert!(world.admit(&other), "{other} serves and is refused");
    }
    world.agents_step();
    world
}

fn decommission(world: &mut World, n: usize, how: Gone) -> Result<(), Refusal> {
    let commit = ask::decommission(world.store.fleet(), &world.moment(), &instance(n), how, &asker())?;
    assert!(world.store.commit(&commit));
    world.events += 1;
    Ok(())
}

fn stopped() -> Gone {
    Gone { stopped_how: Some("power is off".into()), revoked_how: None }
}

/// How many instances count, and how many of them are silent.
fn counted(world: &World) -> (usize, usize) {
    let of = world.store.fleet().service(&service()).unwrap();
    (of.len(), of.spread().silent)
}

#[test]
fn listed_instance_blocks_a_start_until_decommissioned() {
    let mut world = with_a_silent_one(3);
    assert_eq!(counted(&world), (4, 1));
    world.store.rebuild();
    assert_eq!(counted(&world), (4, 1), "a coordinator that starts now knows it too");
    let named = "no report from (bring it back, or decommission it): n3";
    let blocks = |world: &World| {
        let found = preflight::findings(world.store.fleet(), &spec(json!({"min_in_service": 1})), None);
        found.iter().any(|finding| finding.blocks && finding.what.contains(named))
    };
    assert!(blocks(&world));
    decommission(&mut world, 3, stopped()).unwrap();
    assert_eq!(counted(&world), (3, 0));
    assert!(!blocks(&world), "it is gone by the word of a person");
}

/// No upgrade is active, and the certificate of a later one names no instance without an admission: it may still serve.
#[test]
fn unadmitted_instance_is_decommissioned_only_with_how() {
    let unknown = "n3 has no admission in this store, so that no certificate asks for it later: say with";
    let mut silent = with_a_silent_one(3);
    let refused = decommission(&mut silent, 3, Gone::default()).unwrap_err();
    assert!(refused.message.contains(unknown), "{refused}");
    assert_eq!(counted(&silent), (4, 1));
    let mut contradicting = blank_in_mid_roll();
    let revoked = Gone { revoked_how: Some("deleted".into()), ..Gone::default() };
    let refused = decommission(&mut contradicting, 3, revoked).unwrap_err();
    assert!(refused.message.contains(unknown), "{refused}");
}

#[test]
fn listed_instance_that_returns_is_admitted_and_counts_once() {
    let mut world = with_a_silent_one(3);
    let agent = world.agents.get_mut(&node(3)).unwrap();
    agent.alive = true;
    agent.report.version = agent.report.probed.take();
    world.publish(&node(3));
    assert_eq!(counted(&world), (4, 0));
    world.agents_step();
    let back = world.store.fleet().service(&service()).unwrap().get(&node(3)).unwrap();
    assert!(matches!(back.known(), Known::At(_)), "{:?}", back.known());
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    world.run();
    assert_eq!((world.phase(), world.versions()), (Phase::Completed, vec![2; 4]));
}

/// The copy of the store was made before the last instance was admitted.
#[test]
fn listed_instance_holds_the_floor_and_is_named() {
    let mut world = World::at_version_1(4);
    world.start(spec(json!({"min_in_service": 1, "max_unavailable": 2}))).unwrap();
    world.until_roll();
    world.fall_silent(3);
    assert!(world.store.commit(&Commit::new().delete(Key::Inventory(service(), node(3)))));
    let listed = BTreeMap::from([(service(), BTreeSet::from([node(3)]))]);
    let record = Reconciliation { floors: BTreeMap::new(), listed, ..reconciled() };
    world.store.put(Key::Reconciliation, record);
    let last = world.run();
    assert!(matches!(world.phase(), Phase::Roll { .. }), "{:?}", world.phase());
    let is_named = |r: &&Reason| matches!(r, Reason::Version(VersionGate::Silent { nodes, .. }) if nodes.first == [node(3)]);
    let reason = last.waiting[&upgrade_id()].iter().find(is_named).expect("it is named");
    assert_eq!(
        reason.explained(Waits::Upgrade(&upgrade_id())).next_step.as_deref(),
        Some("tidegate fleet decommission pantry-api/n3 --why … --stopped-how …")
    );
    let refused = decommission(&mut world, 3, Gone::default()).unwrap_err();
    let unknown = "n3 has no admission in this store, so that no certificate asks for it later: say with";
    assert!(refused.message.contains(unknown), "{refused}");
    decommission(&mut world, 3, stopped()).unwrap();
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
}

/// Its report had voided that decommission, which is still there, because nothing acts before the store is reconciled.
#[test]
fn decommission_from_before_the_plan_covers_nothing() {
    let mut world = blank_in_mid_roll();
    decommission(&mut world, 3, Gone { revoked_how: Some("deleted".into()), ..stopped() }).unwrap();
    assert_eq!(counted(&world).0, 3);
    world.agents.get_mut(&node(3)).unwrap().report.in_flight = Some(1);
    world.publish(&node(3));
    apply(&mut world, &Choices::default()).unwrap();
    world.fall_silent(3);
    assert_eq!(counted(&world), (4, 1));
    decommission(&mut world, 3, stopped()).unwrap();
    assert_eq!(counted(&world), (3, 0));
}

#[test]
fn next_plan_keeps_what_is_neither_admitted_nor_decommissioned() {
    let mut world = with_a_silent_one(3);
    for n in [0, 1] {
        world.agents.get_mut(&node(n)).unwrap().report.witness.term = Some("another".parse().unwrap());
        world.publish(&node(n));
    }
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    assert!(refused.message.contains("n3: its running version is unknown (it does not report)"), "{refused}");
    apply(&mut world, &disregard(&[3])).unwrap();
    let listed = &world.store.fleet().reconciliation().unwrap().listed;
    assert_eq!(*listed, BTreeMap::from([(service(), BTreeSet::from([node(3)]))]));
    assert_eq!(counted(&world), (4, 1));
}

/// Instances with names of the greatest length report without a claim.
#[test]
fn plan_lists_ten_thousand_instances_in_one_record_and_no_more() {
    let mut world = blank_in_mid_roll();
    let report = Report {
        probed: Some(version(1)),
        generation: Revision::ABSENT,
        window: Revision::ABSENT,
        admission: Revision::ABSENT,
        witness: Witness::default(),
        ..world.agents[&node(0)].report.clone()
    };
    let key = |n: usize| Key::Report(service(), format!("n{n:062}").parse().unwrap());
    for n in 0..9_997 {
        world.store.put(key(n), report.clone());
    }
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    assert!(refused.message.contains("no admission of 10001 instances"), "{refused}");
    assert!(world.store.commit(&Commit::new().delete(key(0))));
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(world.store.fleet().reconciliation().unwrap().listed_instances().count(), 10_000);
    let (record, ..) = &world.store.keys[&Key::Reconciliation];
    assert!(record.encode().len() < MAX_RECORD_BYTES * 3 / 4, "there is room for what else it says");
}
