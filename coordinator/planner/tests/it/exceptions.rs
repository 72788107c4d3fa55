//! Instances that failed or were skipped have records of their own, so that no record grows with the fleet.

use crate::sim::{World, node, release, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::Reason;
use tidegate_planner::ask::{self, Asker};
use tidegate_planner::gate::RollGate;
use tidegate_proto::record::MAX_RECORD_BYTES;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Health, Rotation, Step};
use tidegate_proto::record::upgrade::{Failure, Phase, Upgrade};
use tidegate_proto::{Key, NodeId, Revision, Value};

/// The longest reason that is kept, in characters that take six bytes each in JSON.
fn long_reason() -> String {
    "\u{1}".repeat(500)
}

/// Every instance has tried the new version, and failed.
fn all_fail(world: &mut World) {
    let nodes: Vec<NodeId> = world.agents.keys().cloned().collect();
    for n in nodes {
        let key = Key::Directive(service(), n.clone());
        let Value::Directive(record) = world.store.keys[&key].0.clone() else { panic!("no directive") };
        let mut directive = record.body;
        directive.disposition = Disposition::Replace { release: release(2) };
        let at = world.store.put(key, directive);
        let agent = world.agents.get_mut(&n).unwrap();
        agent.release = release(2);
        agent.staged.insert(release(2));
        world.admit(&n);
        let report = &mut world.agents.get_mut(&n).unwrap().report;
        report.step = Step::Failed { at: "verifying".into(), reason: long_reason() };
        (report.health, report.rotation) = (Health::Unhealthy, Rotation::Out);
        report.version = Some(release(2).version);
        report.generation = Revision(at);
        world.publish(&n);
    }
}

fn largest_record(world: &World) -> (String, usize) {
    let sizes = world.store.keys.iter().map(|(key, (value, _, _))| (key.to_string(), value.encode().len()));
    sizes.max_by_key(|(_, size)| *size).unwrap()
}

#[test]
fn twenty_thousand_failures_leave_every_record_small() {
    const MANY: usize = 20_000;
    let mut world = World::at_version_1(0);
    world.store.unchecked = true;
    (0..MANY).for_each(|n| world.join(n, 1));
    let failures = json!({"tolerate": "100%", "per_wave": MANY});
    let change = json!({"strategy": "immediate", "max_unavailable": "100%", "min_in_service": 0, "failures": failures});
    world.start(spec(change)).unwrap();
    world.until_roll();
    all_fail(&mut world);
    world.store.unchecked = false;
    for _ in 0..MANY {
        if !world.turn().0 {
            break;
        }
    }
    assert_eq!(world.failures().len(), MANY);
    let (key, size) = largest_record(&world);
    assert!(size < MAX_RECORD_BYTES / 2, "{key} has {size} bytes");
    // It goes on: it says why it waits, and takes a person's word.
    let (_, plan) = world.turn();
    let reasons = &plan.waiting[&upgrade_id()];
    assert!(
        reasons.iter().any(|r| matches!(r, Reason::Roll(RollGate::EmptyWave { .. }))),
        "{} reasons",
        reasons.len()
    );
    assert!(serde_json::to_vec(reasons).unwrap().len() < MAX_RECORD_BYTES / 2);
    let asker = Asker { who: "op".into(), why: "seen".into(), accepts: Default::default() };
    let back = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker).unwrap();
    assert!(world.store.commit(&back));
}

/// An upgrade whose record, as an earlier version wrote it, holds this.
fn formerly(change: impl FnOnce(&mut Upgrade)) -> World {
    let mut world = World::at_version_1(4);
    world
        .start(spec(json!({"strategy": "immediate", "approvals": ["roll"], "failures": {"then": "pause"}})))
        .unwrap();
    world.run();
    let asker = Asker { who: "op".into(), why: "seen".into(), accepts: Default::default() };
    let point = tidegate_proto::spec::ApprovalPoint::Roll;
    let approve = ask::approve(world.store.fleet(), &world.moment(), &upgrade_id(), point, &asker).unwrap();
    assert!(world.store.commit(&approve));
    world.events += 1;
    world.until_roll();
    let mut body = world.upgrade().unwrap().clone();
    change(&mut body);
    world.store.put(Key::Upgrade(upgrade_id()), body);
    world
}

fn failure() -> Failure {
    Failure { wave: 0, reason: "not healthy".into(), accepted: false, returning: false, resumed: 0 }
}

fn retry(world: &mut World, n: &NodeId) {
    let asker = Asker { who: "op".into(), why: "mended".into(), accepts: Default::default() };
    let commit = ask::retry(world.store.fleet(), &world.moment(), &upgrade_id(), n, &asker).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
}

#[test]
fn failure_in_earlier_record_format_is_kept() {
    let mut world = formerly(|upgrade| drop(upgrade.failed.insert(node(1), failure())));
    world.turn();
    let pause = world.upgrade().unwrap().paused.clone().expect("beyond the budget");
    assert!(pause.why.contains("n1"), "{}", pause.why);
    world.resume();
    world.run();
    assert!(world.upgrade().unwrap().paused.is_none(), "it no longer counts");
    assert_eq!(world.versions(), [2, 1, 2, 2], "and is left alone until it is retried");
    retry(&mut world, &node(1));
    assert!(world.upgrade().unwrap().failed.is_empty());
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn skip_in_a_record_of_an_earlier_version_is_read_and_goes_on() {
    let word = tidegate_proto::record::upgrade::Decision {
        who: "op".into(),
        why: "disk".into(),
        accepts: Default::default(),
        at: tidegate_proto::record::Timestamp(0),
    };
    let mut world = formerly(|upgrade| drop(upgrade.skipped.insert(node(2), word)));
    let last = world.run();
    assert_eq!(world.versions(), [2, 2, 1, 2]);
    let skipped =
        |r: &Reason| matches!(r, Reason::Roll(RollGate::Skipped { nodes }) if nodes.first == [node(2)]);
    assert!(last.waiting[&upgrade_id()].iter().any(skipped));
    retry(&mut world, &node(2));
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn retry_removes_failure_and_skip_of_instance() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"failures": {"then": "pause"}}))).unwrap();
    world.agents.values_mut().for_each(|agent| agent.broken_at = Some(2));
    world.run();
    let failed = world.failures().remove(0).0;
    let asker = Asker { who: "op".into(), why: "disk".into(), accepts: Default::default() };
    let skip = ask::skip(world.store.fleet(), &world.moment(), &upgrade_id(), &failed, &asker).unwrap();
    assert!(world.store.commit(&skip));
    world.events += 1;
    let key = Key::Exception(upgrade_id(), failed.clone());
    let Value::Exception(record) = &world.store.keys[&key].0 else { panic!("no exception") };
    assert!(record.body.failure.is_some() && record.body.skipped.is_some());
    let upgrade = world.upgrade().unwrap();
    assert!(upgrade.failed.is_empty() && upgrade.skipped.is_empty(), "none is in the upgrade's record");
    let again = ask::skip(world.store.fleet(), &world.moment(), &upgrade_id(), &failed, &asker);
    assert!(again.unwrap_err().to_string().contains("already"));
    retry(&mut world, &failed);
    assert!(!world.store.keys.contains_key(&key));
}
