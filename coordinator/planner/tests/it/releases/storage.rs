//! Ordering behind storage, in both directions (rule 8).

use super::fixture::{asker, commits, stream, watched_floor};
use crate::sim::{Database, World, node, service, spec, upgrade_id};
use crate::stragglers::nothing_runs;
use serde_json::json;
use tidegate_planner::ask::{self, RefusalKind, RollbackBar, release};
use tidegate_planner::gate::{StoreGate, VersionGate, Waits};
use tidegate_planner::{Reason, Sample};
use tidegate_proto::commit::Precondition;
use tidegate_proto::record::evidence::Verdict;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::report::{Health, Step};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase};
use tidegate_proto::{Key, ReleaseTag, Revision, ServiceVersion, Value};

fn version(number: i64) -> ServiceVersion {
    ServiceVersion::new(number).unwrap()
}

fn needs_2() -> serde_json::Value {
    json!({"requires": {"pantry-api": 2}})
}

/// The storage is at 2, the floor is committed, and the upgrade can still be rolled back.
fn in_remove() -> World {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"approvals": ["remove"]}))).unwrap();
    world.run();
    let commit = ask::approve(
        world.store.fleet(),
        &world.moment(),
        &upgrade_id(),
        tidegate_proto::spec::ApprovalPoint::Remove,
        &asker(""),
    )
    .unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    while world.phase() != Phase::Remove {
        world.turn();
    }
    assert_eq!(floor(&world), 2);
    world
}

fn floor(world: &World) -> u32 {
    match &world.store.keys[&Key::Window(service())].0 {
        Value::Window(window) => window.body.floor.get(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn release_waits_for_the_last_storage_node_and_goes_out() {
    let mut world = World::at_version_1(3);
    world.create(9057, needs_2()).unwrap();
    let waiting = world.settle();
    let all = Sample { first: vec![node(0), node(1), node(2)], count: 3 };
    assert_eq!(
        waiting[&1],
        [Reason::Version(VersionGate::Behind { service: service(), nodes: all, needs: version(2) })]
    );
    world.start(spec(json!({}))).unwrap();
    let mut seen_by_floor = false;
    for _ in 0..10_000 {
        let (changed, plan) = world.turn();
        world.check_releases();
        let reasons = plan.releases.get(&(stream(), super::fixture::revision(1)));
        seen_by_floor |= reasons.is_some_and(|reasons| reasons.iter().any(|reason| reason.kind() == "floor"));
        let by_hand = |reason: &Reason| reason.to_string().contains("no upgrade raises the floor");
        assert!(!reasons.is_some_and(|reasons| reasons.iter().any(by_hand)), "its upgrade does");
        if world.deployed().is_some() {
            break;
        }
        assert!(floor_or_none(&world).is_none_or(|floor| floor < 2) || changed);
        world.agents_step();
    }
    assert!(seen_by_floor, "the floor was named while it held the release");
    assert_eq!((world.deployed(), floor(&world), world.need()), (Some(1), 2, Some(2)));
}

/// A node joined with a version that was refused, and no upgrade is left that starts anything there.
#[test]
fn release_names_the_node_to_check_where_nothing_runs() {
    let mut world = World::at_version_1(3);
    nothing_runs(&mut world, 2, Step::Starting, Health::Unhealthy).nothing_runs = true;
    world.publish(&node(2));
    world.create(1, json!({"requires": {"pantry-api": 1}})).unwrap();
    let waiting = world.settle();
    let [reason] = waiting[&1].as_slice() else { panic!("{waiting:?}") };
    let explained = reason.explained(Waits::Release(&stream(), super::fixture::revision(1)));
    assert_eq!(explained.kind, "version-unknown");
    assert_eq!(explained.next_step.as_deref(), Some("tidegate-agent check (on n2)"));
    assert!(explained.owner.contains("a person, who starts the service"), "{}", explained.owner);
}

fn floor_or_none(world: &World) -> Option<u32> {
    world.store.keys.contains_key(&Key::Window(service())).then(|| floor(world))
}

#[test]
fn storage_is_not_rolled_back_below_what_a_release_needs() {
    let mut world = in_remove();
    world.create(1, json!({})).unwrap();
    turn_of_stream(&mut world);
    world.create(2, needs_2()).unwrap();
    turn_of_stream(&mut world);
    assert_eq!((world.deployed(), world.need()), (Some(2), Some(2)));
    let back = |world: &World| {
        ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker("customers complain"))
    };
    let refused = back(&world).unwrap_err();
    assert!(
        refused.message.contains("revision 2 of compute (release-2) is deployed and needs 2"),
        "{refused}"
    );
    assert_eq!(refused.kind, RefusalKind::Rollback(RollbackBar::Computes));
    world.go_back(1).unwrap();
    assert_eq!(world.need(), None);
    let commit = back(&world).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
    world.check_releases();
}

#[test]
fn paused_upgrade_advises_no_rollback_below_a_need() {
    let mut world = in_remove();
    world.create(1, needs_2()).unwrap();
    turn_of_stream(&mut world);
    assert_eq!(world.need(), Some(2));
    let pause = ask::pause(world.store.fleet(), &world.moment(), &upgrade_id(), &asker("let me look"));
    assert!(world.store.commit(&pause.unwrap()));
    let plan = tidegate_planner::plan(world.store.fleet(), &world.moment());
    let explained = plan.waiting[&upgrade_id()][0].explained(Waits::Upgrade(&upgrade_id()));
    assert_eq!(explained.next_step.as_deref(), Some("tidegate upgrade resume u1"));
}

/// A rollback would be refused: the release that needs the storage is of no use without its database.
#[test]
fn lost_schema_needed_by_release_starts_no_rollback() {
    let mut world = World::at_version_1(3);
    let migrated = json!({"database": {"from_env": "PANTRY"}, "migrations": "pantry"});
    world.start_with_schema(spec(json!({"schema": migrated})), MigrateOrder::BeforeRoll);
    world.until("remove", |world| world.phase() == Phase::Remove);
    let reported = |world: &mut World| {
        world.database = Database::default();
        let last = world.run();
        let reported =
            last.waiting[&upgrade_id()].iter().map(|reason| reason.explained(Waits::Upgrade(&upgrade_id())));
        let lost =
            reported.into_iter().find(|reported| reported.kind == "schema-lost").expect("the schema is lost");
        lost.next_step.unwrap_or_default()
    };
    assert!(reported(&mut world.clone()).starts_with("tidegate upgrade rollback"));
    world.create(1, needs_2()).unwrap();
    while world.deployed() != Some(1) {
        turn_of_stream(&mut world);
    }
    assert_eq!(world.need(), Some(2));
    let command = reported(&mut world);
    assert!(command.starts_with("tidegate schema expand --from 1 --to 2"), "{command}");
}

/// The one commit that the stream's turn plans.
fn commits_of_stream(world: &World) -> tidegate_proto::commit::Commit {
    let touches = |commit: &tidegate_proto::commit::Commit| {
        commit.writes.iter().any(|write| matches!(write, tidegate_proto::Write::Put(Key::Stream(_), _)))
    };
    commits(world).into_iter().find(touches).expect("the stream has something to do")
}

/// The stream's part of a turn; the upgrade does not move.
fn turn_of_stream(world: &mut World) {
    let commit = commits_of_stream(world);
    assert!(world.store.commit(&commit));
    // The upgrade's part has taken numbers of events too.
    world.events += 10;
}

#[test]
fn concurrent_deploy_and_storage_rollback_apply_one() {
    for deploy_first in [true, false] {
        let mut world = in_remove();
        world.create(1, needs_2()).unwrap();
        let deploy = commits_of_stream(&world);
        world.events += 10;
        let lower =
            ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker("customers complain"))
                .unwrap();
        let (first, second) = if deploy_first { (&deploy, &lower) } else { (&lower, &deploy) };
        assert!(world.store.commit(first));
        assert!(!world.store.commit(second), "the other one saw another floor, or another need");
        world.check_releases();
    }
}

#[test]
fn a_pin_and_running_computes_hold_the_floor_too() {
    let mut world = in_remove();
    for number in 1..=2 {
        let change = if number == 1 { needs_2() } else { json!({}) };
        world.create(number, change).unwrap();
        turn_of_stream(&mut world);
    }
    assert_eq!((world.deployed(), world.need()), (Some(2), None));
    world.pin("c1", 1).unwrap();
    assert_eq!(world.need(), Some(2));
    world.run_computes(&[("release-1", 3)]).unwrap();
    world.unpin("c1").unwrap();
    assert_eq!(world.need(), Some(2), "computes still run it");
    world.run_computes(&[("release-2", 3), ("never-released", 1)]).unwrap();
    assert_eq!(world.need(), None);
    world.check_releases();
}

#[test]
fn a_window_put_back_as_it_was_stays_above_what_releases_need() {
    let mut world = World::at_version_1(2);
    world.start(spec(json!({"approvals": ["roll"]}))).unwrap();
    world.run();
    assert_eq!(floor(&world), 1, "preflight committed the floor");
    world.release(1, json!({"requires": {"pantry-api": 1}}));
    let commit =
        ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker("not today")).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
    world.check_releases();
}

#[test]
fn storage_that_is_only_watched_is_compared_by_its_inventory() {
    let mut world = World::at_version_1(2);
    world.create(1, json!({"requires": {"pantry-api": 1}})).unwrap();
    let planned = commits(&world);
    world.join(7, 1);
    assert!(planned.iter().all(|commit| !world.store.commit(commit)), "an instance was admitted meanwhile");
    world.settle();
    assert_eq!(world.deployed(), Some(1));
    world.fall_silent(1);
    world.create(2, json!({"requires": {"pantry-api": 1}})).unwrap();
    let silent = Sample { first: vec![node(1)], count: 1 };
    assert_eq!(
        world.settle()[&2],
        [Reason::Version(VersionGate::Silent { service: service(), nodes: silent })]
    );
    world.create(3, json!({"requires": {"nobody": 1}})).unwrap();
    assert_eq!(
        world.settle()[&3],
        [Reason::Version(VersionGate::NoInstances { service: "nobody".parse().unwrap() })]
    );
}

#[test]
fn storage_contradicting_store_is_listed_with_its_claim() {
    let mut world = World::at_version_1(2);
    let report = &mut world.agents.get_mut(&node(1)).unwrap().report;
    report.witness.term = Some("made-up".parse().unwrap());
    world.publish(&node(1));
    world.create(1, json!({"requires": {"pantry-api": 1}})).unwrap();
    let waits = world.settle();
    assert!(
        matches!(&waits[&1][..], [Reason::Store(StoreGate::Unsupported { node: n, .. })] if *n == node(1)),
        "{waits:?}"
    );
}

#[test]
fn rollback_needing_newer_storage_is_refused() {
    let mut world = World::at_version_1(1);
    world.release(1, json!({"requires": {"pantry-api": 1}}));
    world.release(2, json!({}));
    world.fall_silent(0);
    let before = world.store.revision;
    let refused = world.go_back(1).unwrap_err();
    assert!(refused.message.contains("no report from n0"), "{refused}");
    assert_eq!((world.store.revision, world.deployed()), (before, Some(2)));
}

#[test]
fn evidence_is_asked_for_every_storage_release_in_use() {
    let mut world = World::at_version_1(2);
    world.join(2, 2);
    world.create(1, json!({"requires": {"pantry-api": 1}, "evidence": "required"})).unwrap();
    let lacks = |waiting: &[Reason]| waiting.iter().map(ToString::to_string).collect::<Vec<_>>();
    let none = |tag: &str| format!("no evidence that release-1 works with {tag}, which is in use");
    assert_eq!(lacks(&world.settle()[&1]), [none("pantry-1.0.0"), none("pantry-2.0.0")]);
    world.record_evidence(("release-1", "pantry-1.0.0"), Verdict::Pass);
    world.record_evidence(("release-1", "pantry-2.0.0"), Verdict::Inconclusive);
    assert_eq!(
        lacks(&world.settle()[&1]),
        ["the compatibility run of release-1 with pantry-2.0.0, which is in use, ended with inconclusive"]
    );
    world.record_evidence(("release-1", "pantry-2.0.0"), Verdict::Pass);
    let planned = commits(&world);
    world.record_evidence(("release-1", "pantry-2.0.0"), Verdict::Fail);
    assert!(planned.iter().all(|commit| !world.store.commit(commit)), "the evidence is compared");
    let mut unread = world.store.fleet().clone();
    let (compute, storage): (ReleaseTag, ReleaseTag) =
        ("release-1".parse().unwrap(), "pantry-2.0.0".parse().unwrap());
    let key = Key::Evidence(compute.clone(), storage.clone());
    unread.put(key.clone(), Value::decode(&key, b"\xff").map(|_| unreachable!()), Revision(9_999));
    let asker = asker("1 test");
    let again =
        release::evidence(&unread, &world.moment(), &compute, &storage, Verdict::Pass, None, &asker).unwrap();
    assert!(again.when.contains(&Precondition::At(key, Revision(9_999))), "it is replaced");
    world.record_evidence(("release-1", "pantry-2.0.0"), Verdict::Pass);
    world.settle();
    assert_eq!(world.status(1), ReleaseStatus::Deployed);
}

#[test]
fn a_need_that_cannot_be_read_lowers_no_floor() {
    let world = in_remove();
    let mut fleet = world.store.fleet().clone();
    let key = Key::Need(service());
    let unreadable = Value::decode(&key, b"\xff").map(|_| unreachable!());
    fleet.put(key, unreadable, Revision(9_999));
    let refused = ask::roll_back(&fleet, &world.moment(), &upgrade_id(), &asker("why not")).unwrap_err();
    assert!(refused.message.contains("needs/pantry-api is not UTF-8"), "{refused}");
}

#[test]
fn instance_that_serves_below_the_need_is_named() {
    let mut world = World::at_version_1(2);
    world.release(1, json!({}));
    world.create(2, json!({"requires": {"pantry-api": 2}, "branch": "never-let-out"})).unwrap();
    world.run_computes(&[("release-2", 1)]).unwrap();
    assert_eq!(watched_floor(&world), Some((2, true)), "an older instance is not started from now on");
    let nodes = Sample { first: vec![node(0), node(1)], count: 2 };
    let behind = Reason::Version(VersionGate::Behind { service: service(), nodes, needs: version(2) });
    assert!(world.settle()[&2].contains(&behind));
    let reported: Vec<String> = world
        .store
        .keys
        .values()
        .filter_map(|(value, ..)| match value {
            Value::Event(event) => Some(event.body.because.clone()),
            _ => None,
        })
        .collect();
    assert!(reported.iter().any(|because| because.contains(&behind.to_string())), "{reported:?}");
    world.go_back(1).unwrap();
    assert!(world.settle()[&2].contains(&behind), "also of a release that does not wait");
}

#[test]
fn open_canary_names_what_fell_below_its_need() {
    let mut world = World::at_version_1(0);
    world.join(0, 2);
    world.release(1, json!({}));
    world.create(2, json!({"requires": {"pantry-api": 2}, "canary": {"fraction": 0.5}})).unwrap();
    assert_eq!(world.settle()[&2].len(), 1, "the open canary alone");
    // Another tool put it back.
    world.agents.get_mut(&node(0)).unwrap().report.version = Some(version(1));
    world.publish(&node(0));
    let kinds: Vec<&str> = world.settle()[&2].iter().map(Reason::kind).collect();
    assert_eq!(kinds, ["canary-open", "behind"]);
}

#[test]
fn open_canary_names_new_storage_that_lacks_evidence() {
    let mut world = World::at_version_1(0);
    world.join(0, 1);
    world.release(1, json!({}));
    let canary = json!({"requires": {"pantry-api": 1}, "evidence": "required", "canary": {"fraction": 0.5}});
    world.create(2, canary).unwrap();
    world.record_evidence(("release-2", "pantry-1.0.0"), Verdict::Pass);
    assert_eq!(world.settle()[&2].len(), 1, "the open canary alone");
    world.join(1, 2);
    let waiting = world.settle();
    let kinds: Vec<&str> = waiting[&2].iter().map(Reason::kind).collect();
    assert_eq!(kinds, ["canary-open", "evidence"], "{waiting:?}");
}

#[test]
fn failed_release_names_retry_beside_what_runs_below_it() {
    let mut world = World::at_version_1(0);
    world.join(0, 2);
    world.release(1, json!({}));
    let canary = json!({"requires": {"pantry-api": 2}, "canary": {"fraction": 1, "promote_after": 1}});
    world.create(2, canary).unwrap();
    world.settle();
    world.run_computes(&[("release-2", 1)]).unwrap();
    world.signal(2, "c1", false).unwrap();
    world.settle();
    assert_eq!(world.status(2), ReleaseStatus::Error);
    // Computes still run it, and another tool put its storage back.
    world.agents.get_mut(&node(0)).unwrap().report.version = Some(version(1));
    world.publish(&node(0));
    let explained = release::explain(world.store.fleet(), &world.moment(), &stream()).unwrap();
    let kinds: Vec<&str> =
        explained[&super::fixture::revision(2)].iter().map(|reason| reason.kind.as_str()).collect();
    assert_eq!(kinds, ["release-failed", "behind"]);
}
