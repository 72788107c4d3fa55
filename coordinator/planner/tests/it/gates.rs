//! Upgrades that require the verdict of a gate job.

use crate::sim::{World, node, release, service, spec, upgrade_id};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeSet;
use tidegate_planner::ask::{self, Asker};
use tidegate_planner::gate::preflight::preview;
use tidegate_planner::gate::{StoreGate, VerdictGate};
use tidegate_planner::{Action, Plan, Reason, plan};
use tidegate_proto::commit::Precondition;
use tidegate_proto::record::evidence::Verdict;
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::spec::Spec;
use tidegate_proto::{Artifact, Commit, Digest, GateHop, GateTag, Key, Revision, Value};

fn gated() -> Spec {
    spec(json!({"requires_gate": [
        {"tag": "zero-downtime", "from": 1, "to": 2},
        {"tag": "rolling", "from": 1, "to": 2},
    ]}))
}

fn base() -> Artifact {
    Artifact::from(&release(1))
}

fn hop(tag: GateTag, from: Artifact) -> GateHop {
    GateHop { service: service(), tag, from, to: Artifact::from(&release(2)) }
}

fn record(world: &mut World, tag: GateTag, from: Artifact, verdict: Verdict) {
    let (hop, report) = (hop(tag, from), Some(Digest::of(b"report")));
    let asker = Asker { who: "ci".into(), why: "gate items".into(), accepts: BTreeSet::new() };
    let commit = ask::gate_verdict(world.store.fleet(), &world.moment(), &hop, verdict, report, &asker);
    assert!(world.store.commit(&commit));
    world.events += 1;
}

/// What it waits for once it comes to rest.
fn waits(world: &mut World) -> Vec<Reason> {
    world.run().waiting.remove(&upgrade_id()).unwrap_or_default()
}

fn lacking(tag: GateTag, from: Artifact, found: Option<&str>) -> Reason {
    let (hop, found) = (Box::new(hop(tag, from)), found.map(str::to_owned));
    Reason::Verdict(VerdictGate::GateVerdict { hop, found })
}

fn clearing(plan: &Plan) -> Commit {
    let commits = plan.actions.iter().find_map(|action| match action {
        Action::Commit(planned) => Some(planned.commit.clone()),
        _ => None,
    });
    commits.expect("preflight is left")
}

#[test]
fn upgrade_waits_in_preflight_until_each_required_gate_passed() {
    let mut world = World::at_version_1(3);
    world.start(gated()).expect("a missing verdict refuses no start");
    assert_eq!(
        waits(&mut world),
        [lacking(GateTag::ZeroDowntime, base(), None), lacking(GateTag::Rolling, base(), None)]
    );
    let stalled = std::mem::replace(&mut world.stalled_ms, 7 * 24 * 3_600_000);
    assert_eq!(waits(&mut world).len(), 2, "no deadline ends the wait");
    world.stalled_ms = stalled;
    record(&mut world, GateTag::ZeroDowntime, base(), Verdict::Pass);
    record(&mut world, GateTag::Rolling, base(), Verdict::Inconclusive);
    assert_eq!(waits(&mut world), [lacking(GateTag::Rolling, base(), Some("inconclusive"))]);
    assert_eq!(world.phase(), Phase::Preflight);
    record(&mut world, GateTag::Rolling, base(), Verdict::Pass);
    world.run();
    assert!(matches!(world.phase(), Phase::Completed), "{:?}", world.phase());
    assert_eq!(world.versions(), [2; 3]);
}

#[test]
fn verdict_on_another_artifact_or_hop_is_no_verdict() {
    let mut world = World::at_version_1(3);
    world.start(gated()).unwrap();
    for tag in [GateTag::ZeroDowntime, GateTag::Rolling] {
        record(
            &mut world,
            tag,
            Artifact { sha256: Digest::of(b"another build of 1"), ..base() },
            Verdict::Pass,
        );
        let version = release(2).version;
        record(&mut world, tag, Artifact { version, ..base() }, Verdict::Pass);
    }
    assert_eq!(waits(&mut world).len(), 2);
}

#[test]
fn verdict_failing_before_commit_keeps_preflight_closed() {
    let mut world = World::at_version_1(3);
    world.start(gated()).unwrap();
    for tag in [GateTag::ZeroDowntime, GateTag::Rolling] {
        record(&mut world, tag, base(), Verdict::Pass);
    }
    let planned = clearing(&plan(world.store.fleet(), &world.moment()));
    record(&mut world, GateTag::Rolling, base(), Verdict::Fail);
    assert!(!world.store.commit(&planned), "the verdict is compared");
    assert_eq!(waits(&mut world), [lacking(GateTag::Rolling, base(), Some("fail"))]);
}

#[test]
fn preview_names_what_the_upgrade_would_wait_for() {
    let mut world = World::at_version_1(3);
    let blocking = |world: &World| -> Vec<String> {
        let found = preview(world.store.fleet(), &gated(), None);
        found.into_iter().filter(|finding| finding.blocks).map(|finding| finding.what).collect()
    };
    let found = blocking(&world);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].starts_with("the upgrade waits in preflight: the spec requires a passed gate job"),
        "{found:?}"
    );
    record(&mut world, GateTag::ZeroDowntime, base(), Verdict::Pass);
    record(&mut world, GateTag::Rolling, base(), Verdict::Pass);
    assert_eq!(blocking(&world), Vec::<String>::new());
}

/// Where there is no digest, artifacts are distinguished by the version alone.
#[test]
fn base_without_digest_is_matched_by_version_with_warning() {
    let mut world = World::at_version_1(3);
    for n in 0..3 {
        world.agents.get_mut(&node(n)).unwrap().report.release_digest = Some(Digest::ABSENT);
        world.publish(&node(n));
    }
    let undigested = Artifact { sha256: Digest::ABSENT, ..base() };
    let found = preview(world.store.fleet(), &gated(), None);
    let warned = found.iter().find(|finding| finding.what.contains("by its version 1 alone"));
    assert!(warned.is_some_and(|finding| !finding.blocks), "{found:?}");
    world.start(gated()).unwrap();
    assert_eq!(waits(&mut world)[0], lacking(GateTag::ZeroDowntime, undigested, None));
    for tag in [GateTag::ZeroDowntime, GateTag::Rolling] {
        record(&mut world, tag, undigested, Verdict::Pass);
    }
    world.run();
    assert_eq!(world.versions(), [2; 3]);
}

#[test]
fn unreadable_verdict_is_listed_by_key_and_replaceable() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"requires_gate": [{"tag": "rolling", "from": 1, "to": 2}]}))).unwrap();
    let key = Key::GateVerdict(Box::new(hop(GateTag::Rolling, base())));
    let unreadable = Value::decode(&key, b"\xff").map(|_| unreachable!());
    let mut fleet = world.store.fleet().clone();
    fleet.put(key.clone(), unreadable, Revision(9_999));
    let reported = plan(&fleet, &world.moment()).waiting[&upgrade_id()].clone();
    let named = Reason::Store(StoreGate::Unreadable { key: key.to_string(), why: "is not UTF-8".into() });
    assert_eq!(reported, [named]);
    let (hop, asker) = (
        hop(GateTag::Rolling, base()),
        Asker { who: "ci".into(), why: String::new(), accepts: BTreeSet::new() },
    );
    let again = ask::gate_verdict(&fleet, &world.moment(), &hop, Verdict::Pass, None, &asker);
    assert!(again.when.contains(&Precondition::At(key, Revision(9_999))), "it is replaced");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever was recorded before, of whatever tags and artifacts: the last verdict on each required tag counts.
    #[test]
    fn preflight_is_open_exactly_when_the_last_verdicts_are_passes(
        reported in prop::collection::vec((0..4usize, 0..3usize, any::<bool>()), 0..14)
    ) {
        let mut world = World::at_version_1(2);
        world.start(gated()).unwrap();
        let mut last = std::collections::BTreeMap::new();
        for (tag, verdict, same) in reported {
            let tag = GateTag::ALL[tag];
            let verdict = [Verdict::Pass, Verdict::Fail, Verdict::Inconclusive][verdict];
            let from = if same { base() } else { Artifact { sha256: Digest::ABSENT, ..base() } };
            record(&mut world, tag, from, verdict);
            if same {
                last.insert(tag, verdict);
            }
            let planned = plan(world.store.fleet(), &world.moment());
            let passed = |tag| last.get(&tag) == Some(&Verdict::Pass);
            let open = passed(GateTag::ZeroDowntime) && passed(GateTag::Rolling);
            prop_assert_eq!(planned.waiting.get(&upgrade_id()).is_none_or(Vec::is_empty), open);
            prop_assert_eq!(!planned.actions.is_empty(), open);
        }
    }
}
