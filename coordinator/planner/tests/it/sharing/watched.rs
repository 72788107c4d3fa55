//! A sharing service that another tool upgrades: its floor follows what compute releases need, and is no evidence of what
//! runs.

use super::gone::is_decommissioned_at;
use super::{acknowledge, nova, runs, scheduler, shared, version, waits_for_scheduler, window};
use crate::sim::{World, binding, node, upgrade_id};
use serde_json::json;
use tidegate_planner::gate::VersionGate;
use tidegate_planner::{Reason, Sample, SchemaJob};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::reconciliation::{Claim, Reconciliation};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase};
use tidegate_proto::record::window::{BY_RECONCILIATION, BY_RELEASES, Window};
use tidegate_proto::{Commit, Key, Revision, ServiceVersion};

/// Compute releases need this version of the scheduler.
fn needed_by_releases(world: &mut World, floor: i64) {
    let body = Window { floor: version(floor), ..Window::open(BY_RELEASES.parse().unwrap()) };
    world.store.put(Key::Window(scheduler()), body);
}

#[test]
fn floor_that_follows_needs_opens_no_migrate_by_itself() {
    let mut world = nova();
    needed_by_releases(&mut world, 2);
    let last = world.run();
    assert_eq!(last.waiting[&upgrade_id()], [waits_for_scheduler(1)], "version 1 serves below the floor");
    assert!(!world.jobs.contains(&SchemaJob::Migrate));
    runs(&mut world, &scheduler(), 7, 2);
    let planned = tidegate_planner::plan(world.store.fleet(), &world.moment());
    runs(&mut world, &scheduler(), 8, 2);
    world.refuses_late(planned, "roll ->");
    world.run();
    acknowledge(&mut world, &scheduler());
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
}

/// It reports under its former admission: none is put.
#[test]
fn returned_instance_below_a_followed_floor_voids_migrate() {
    let mut world = nova();
    needed_by_releases(&mut world, 2);
    world.run();
    runs(&mut world, &scheduler(), 8, 2);
    is_decommissioned_at(&mut world, 1);
    let planned = tidegate_planner::plan(world.store.fleet(), &world.moment());
    let report = world.agents[&node(0)].report.clone();
    world.store.put(Key::Report(scheduler(), node(7)), report);
    world.refuses_late(planned, "roll ->");
}

#[test]
fn silent_instance_below_a_followed_floor_holds_migrate() {
    let mut world = nova();
    needed_by_releases(&mut world, 2);
    world.until_roll();
    runs(&mut world, &scheduler(), 7, 2);
    runs(&mut world, &scheduler(), 8, 2);
    assert!(world.store.commit(&Commit::new().delete(Key::Report(scheduler(), node(8)))));
    let last = world.run();
    let kinds: Vec<&str> = last.waiting[&upgrade_id()].iter().map(|reason| reason.kind()).collect();
    assert_eq!(kinds, ["silent", "migrate-floor"]);
    assert!(!world.jobs.contains(&SchemaJob::Migrate));
}

/// A plan to reconcile sets the floor of the scheduler over its instance, which it disregards.
fn is_reconciled(world: &mut World) {
    let body = Window { floor: version(2), ..Window::open(BY_RECONCILIATION.parse().unwrap()) };
    world.store.put(Key::Window(scheduler()), body);
    let word = Reconciliation {
        who: "op".into(),
        why: "restored".into(),
        at: Timestamp(0),
        terms: Default::default(),
        revision: Revision::ABSENT,
        floors: Default::default(),
        disregarded: [(scheduler(), [(node(7), Claim::default())].into())].into(),
        listed: Default::default(),
    };
    world.store.put(Key::Reconciliation, word);
}

#[test]
fn disregarded_instance_below_a_reconciled_floor_holds_migrate() {
    let mut world = nova();
    world.until_roll();
    is_reconciled(&mut world);
    let last = world.run();
    let nodes = Sample { first: vec![node(7)], count: 1 };
    let behind = Reason::Version(VersionGate::Behind { service: scheduler(), nodes, needs: version(2) });
    assert_eq!(last.waiting[&upgrade_id()], [waits_for_scheduler(1), behind], "it serves below the floor");
    assert!(!world.jobs.contains(&SchemaJob::Migrate));
    runs(&mut world, &scheduler(), 7, 2);
    world.run();
    assert!(world.jobs.contains(&SchemaJob::Migrate), "it was admitted by this store");
}

/// It may run a lower version, and claims nothing while it does not report.
#[test]
fn silent_disregarded_one_below_a_floor_is_named() {
    let mut world = nova();
    world.until_roll();
    is_reconciled(&mut world);
    assert!(world.store.commit(&Commit::new().delete(Key::Report(scheduler(), node(7)))));
    let last = world.run();
    let nodes = Sample { first: vec![node(7)], count: 1 };
    let silent = Reason::Version(VersionGate::Silent { service: scheduler(), nodes });
    assert!(last.waiting[&upgrade_id()].contains(&silent), "{:?}", last.waiting);
    assert!(!world.jobs.contains(&SchemaJob::Migrate));
}

/// The upgrade has given the service its window, so that no person raises the floor.
#[test]
fn silent_instance_that_a_given_window_waits_for_is_named() {
    let mut world = nova();
    world.until_roll();
    assert_eq!(window(&world, &scheduler()), Some((1, ServiceVersion::MAX.get())));
    runs(&mut world, &scheduler(), 7, 2);
    runs(&mut world, &scheduler(), 8, 2);
    assert!(world.store.commit(&Commit::new().delete(Key::Report(scheduler(), node(8)))));
    let last = world.run();
    let nodes = Sample { first: vec![node(8)], count: 1 };
    let silent = Reason::Version(VersionGate::Silent { service: scheduler(), nodes });
    assert_eq!(last.waiting[&upgrade_id()], [silent, waits_for_scheduler(1)]);
    runs(&mut world, &scheduler(), 8, 2);
    world.run();
    assert_eq!(window(&world, &scheduler()), Some((2, ServiceVersion::MAX.get())), "it reports again");
}

/// No person has to raise it: the upgrade gives the service a window in stage.
#[test]
fn followed_floor_below_the_required_one_blocks_no_start() {
    let mut world = World::at_version_1(2);
    runs(&mut world, &scheduler(), 7, 3);
    needed_by_releases(&mut world, 2);
    let needs_3 = shared(json!({"shared_with": {"scheduler": 3}}));
    world.start_bound(needs_3, binding(MigrateOrder::BeforeRoll)).unwrap();
    world.until("it expands", |world| world.phase() == Phase::Expand);
    assert_eq!(window(&world, &scheduler()), Some((3, ServiceVersion::MAX.get())));
}

#[test]
fn silent_instance_above_a_followed_floor_blocks_the_start() {
    let mut world = World::at_version_1(2);
    runs(&mut world, &scheduler(), 7, 2);
    needed_by_releases(&mut world, 2);
    assert!(world.store.commit(&Commit::new().delete(Key::Report(scheduler(), node(7)))));
    let refused = world.start_bound(shared(json!({})), binding(MigrateOrder::BeforeRoll)).unwrap_err();
    assert!(refused.message.contains("scheduler shares the schema, and there is no report"), "{refused}");
}
