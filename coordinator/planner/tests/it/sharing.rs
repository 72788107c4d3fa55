//! Services that share the schema of an upgrade: each has a window before contract, and migrate waits for the floors
//! that the migrations require.

mod approval;
mod by_hand;
mod form;
mod gone;
mod many;
mod rollback;
mod watched;

use crate::sim::{World, binding, node, release, service, spec, upgrade_id};
use serde_json::json;
use std::collections::BTreeMap;
use tidegate_planner::gate::SchemaGate;
use tidegate_planner::gate::preflight;
use tidegate_planner::{Reason, SchemaJob};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::active::Active;
use tidegate_proto::record::inventory::Inventory;
use tidegate_proto::record::upgrade::{MigrateOrder, Phase, SchemaBinding};
use tidegate_proto::record::window::Window;
use tidegate_proto::spec::Spec;
use tidegate_proto::{Key, Revision, ServiceName, ServiceVersion, Value};

fn version(number: i64) -> ServiceVersion {
    ServiceVersion::new(number).unwrap()
}

fn scheduler() -> ServiceName {
    "scheduler".parse().unwrap()
}

fn shared(change: serde_json::Value) -> Spec {
    let mut schema =
        json!({"database": {"from_env": "PANTRY"}, "migrations": "pantry", "shared_with": {"scheduler": 2}});
    schema.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    spec(json!({"min_in_service": 1, "schema": schema}))
}

fn requires(order: MigrateOrder, floors: &[(&str, i64)]) -> SchemaBinding {
    let floors = floors.iter().map(|(service, floor)| (service.parse().unwrap(), version(*floor)));
    SchemaBinding { migrate_floors: floors.collect(), ..binding(order) }
}

/// An instance of another service is admitted at a version and reports it; `acknowledged` is the window that it knows.
fn runs(world: &mut World, of: &ServiceName, n: usize, number: i64) {
    let report = world.agents[&node(0)].report.clone();
    let inventory = Inventory {
        version: version(number),
        release: Some(release(number).tag),
        labels: BTreeMap::new(),
        identity: report.identity.clone(),
        at: Timestamp(0),
    };
    let admission = Revision(world.store.put(Key::Inventory(of.clone(), node(n)), inventory));
    let mut report = report;
    (report.version, report.admission) = (Some(version(number)), admission);
    report.window = world.store.fleet().service(of).map_or(Revision::ABSENT, |of| of.window_at());
    world.store.put(Key::Report(of.clone(), node(n)), report);
}

/// Every instance of another service acknowledges the current window.
fn acknowledge(world: &mut World, of: &ServiceName) {
    let fleet = world.store.fleet();
    let Some(at) = fleet.service(of).map(|of| of.window_at()) else { return };
    let nodes: Vec<_> =
        fleet.service(of).into_iter().flat_map(|of| of.instances()).map(|i| i.node.clone()).collect();
    for n in nodes {
        let key = Key::Report(of.clone(), n);
        let Some((Value::Report(record), ..)) = world.store.keys.get(&key).cloned() else { continue };
        let mut body = record.body;
        body.window = at;
        world.store.put(key, body);
    }
}

fn window(world: &World, of: &ServiceName) -> Option<(u32, u32)> {
    let window = world.store.fleet().service(of)?.window()?;
    Some((window.floor.get(), window.ceiling.get()))
}

fn set_floor(world: &mut World, of: &ServiceName, floor: i64) {
    set_window(world, of, floor, ServiceVersion::MAX);
}

/// Another upgrade has set it.
fn set_window(world: &mut World, of: &ServiceName, floor: i64, ceiling: ServiceVersion) {
    let body = Window { floor: version(floor), ceiling, set_by: "other".parse().unwrap(), contracted: None };
    world.store.put(Key::Window(of.clone()), body);
}

/// An instance of the scheduler, at this version.
pub(crate) fn runs_scheduler(world: &mut World, number: i64) {
    runs(world, &scheduler(), 7, number);
}

pub(crate) fn after_the_roll_under_the_floor_of_both() -> SchemaBinding {
    requires(MigrateOrder::AfterRoll, &[("pantry-api", 2), ("scheduler", 2)])
}

/// Both at version 1, and an upgrade that migrates after the roll, under the floor of both.
fn nova() -> World {
    let mut world = World::at_version_1(3);
    runs(&mut world, &scheduler(), 7, 1);
    world.start_bound(shared(json!({})), after_the_roll_under_the_floor_of_both()).unwrap();
    world
}

fn waits_for_scheduler(floor: i64) -> Reason {
    floor_is_missing(floor, None)
}

/// Every instance of the scheduler is at version 2; a person raises the floor below this ceiling.
fn waits_for_a_person(floor: i64, ceiling: i64) -> Reason {
    floor_is_missing(floor, Some(version(ceiling)))
}

fn floor_is_missing(floor: i64, by_hand: Option<ServiceVersion>) -> Reason {
    let (service, floor, needs) = (scheduler(), Some(version(floor)), version(2));
    Reason::Schema(SchemaGate::MigrateFloor { service, floor, needs, by_hand })
}

#[test]
fn migrate_waits_for_the_floor_of_each_required_service() {
    let mut world = nova();
    set_window(&mut world, &scheduler(), 1, version(2));
    let last = world.run();
    assert_eq!(last.waiting[&upgrade_id()], [waits_for_scheduler(1)]);
    assert!(matches!(world.phase(), Phase::Roll { .. }), "{:?}", world.phase());
    assert!(!world.jobs.contains(&SchemaJob::Migrate));
    assert_eq!(world.versions(), [2; 3], "the roll itself is not held");
    runs(&mut world, &scheduler(), 7, 2);
    assert_eq!(
        world.run().waiting[&upgrade_id()],
        [waits_for_a_person(1, 2)],
        "what runs is no committed floor"
    );
    set_floor(&mut world, &scheduler(), 2);
    acknowledge(&mut world, &scheduler());
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn a_floor_that_falls_before_the_commit_keeps_migrate_closed() {
    let mut world = nova();
    world.run();
    set_floor(&mut world, &scheduler(), 2);
    let planned = tidegate_planner::plan(world.store.fleet(), &world.moment());
    set_floor(&mut world, &scheduler(), 1);
    for action in planned.actions {
        let tidegate_planner::Action::Commit(planned) = action else { continue };
        assert!(!world.store.commit(&planned.commit), "{} was carried out", planned.what);
    }
    assert!(matches!(world.phase(), Phase::Roll { .. }));
}

#[test]
fn a_required_floor_holds_migrate_also_before_the_roll() {
    let mut world = World::at_version_1(2);
    runs(&mut world, &scheduler(), 7, 1);
    let floors = requires(MigrateOrder::BeforeRoll, &[("pantry-api", 1), ("scheduler", 2)]);
    world.start_bound(shared(json!({})), floors).unwrap();
    assert_eq!(world.run().waiting[&upgrade_id()], [waits_for_scheduler(1)]);
    assert_eq!(world.phase(), Phase::Expand);
    set_floor(&mut world, &scheduler(), 2);
    world.run();
    assert!(world.jobs.contains(&SchemaJob::Migrate));
    assert_eq!(world.versions(), [2; 2]);
}

#[test]
fn a_record_without_floors_requires_what_the_spec_names() {
    let mut world = World::at_version_1(2);
    runs(&mut world, &scheduler(), 7, 1);
    world.start_with_schema(shared(json!({})), MigrateOrder::AfterRoll);
    assert_eq!(world.run().waiting[&upgrade_id()], [waits_for_scheduler(1)]);
}

#[test]
fn a_floor_that_cannot_be_reached_is_refused_at_the_start() {
    let mut world = World::at_version_1(2);
    runs(&mut world, &scheduler(), 7, 1);
    let refused = |world: &mut World, floors: &[(&str, i64)]| {
        let binding = requires(MigrateOrder::AfterRoll, floors);
        world.start_bound(shared(json!({})), binding).unwrap_err().message
    };
    let high = refused(&mut world, &[("pantry-api", 9)]);
    assert!(
        high.contains("requires the floor 9 of pantry-api") && high.contains("could never be reached"),
        "{high}"
    );
    let unnamed = refused(&mut world, &[("conductor", 2)]);
    assert!(unnamed.contains("schema.shared_with does not name that service"), "{unnamed}");
}

#[test]
fn preflight_names_floors_that_are_not_there_yet() {
    let mut world = World::at_version_1(2);
    runs(&mut world, &scheduler(), 7, 1);
    let floors = requires(MigrateOrder::AfterRoll, &[("pantry-api", 2), ("scheduler", 2)]);
    let found =
        tidegate_planner::gate::preflight::findings(world.store.fleet(), &shared(json!({})), Some(&floors));
    let texts: Vec<&str> = found.iter().map(|finding| finding.what.as_str()).collect();
    assert!(found.iter().all(|finding| !finding.blocks), "{texts:?}");
    assert!(texts.iter().any(|t| t.contains("migrate waits until the floor of scheduler is 2")), "{texts:?}");
    assert!(texts.iter().any(|t| t.contains("the lowest version that runs is 1")), "{texts:?}");
}

#[test]
fn rows_unreadable_to_old_programs_bind_required_floors() {
    let mut world = World::at_version_1(2);
    runs(&mut world, &scheduler(), 7, 2);
    set_floor(&mut world, &scheduler(), 2);
    let floors = requires(MigrateOrder::AfterRoll, &[("pantry-api", 2), ("scheduler", 2)]);
    world.start_bound(shared(json!({})), SchemaBinding { old_reads_migrated: false, ..floors }).unwrap();
    world.until("it migrates", |world| world.phase() == Phase::Migrate);
    let forbidden = tidegate_planner::contracted::forbids(world.store.fleet(), &scheduler(), version(1));
    assert!(forbidden.is_some(), "scheduler may go back to a version that cannot read the rows");
    for of in [service(), scheduler()] {
        let window = world.store.fleet().service(&of).unwrap().window().unwrap();
        assert_eq!(
            window.contracted,
            Some(version(2)),
            "the agents of {of} take out what cannot read the rows"
        );
    }
}

#[test]
fn a_sharing_service_without_a_window_is_given_one() {
    let mut world = World::at_version_1(3);
    runs(&mut world, &scheduler(), 7, 2);
    runs(&mut world, &scheduler(), 8, 3);
    world.start_with_schema(shared(json!({})), MigrateOrder::BeforeRoll);
    assert_eq!(window(&world, &scheduler()), None);
    world.until("it expands", |world| world.phase() == Phase::Expand);
    assert_eq!(window(&world, &scheduler()), Some((2, ServiceVersion::MAX.get())));
    acknowledge(&mut world, &scheduler());
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert!(world.certificate.is_some());
}

#[test]
fn no_window_is_committed_below_an_instance_that_is_not_known() {
    let mut world = World::at_version_1(2);
    runs(&mut world, &scheduler(), 7, 2);
    runs(&mut world, &scheduler(), 8, 2);
    let report = Key::Report(scheduler(), node(8));
    assert!(world.store.commit(&tidegate_proto::Commit::new().delete(report)));
    let refused = world.start_bound(shared(json!({})), binding(MigrateOrder::BeforeRoll)).unwrap_err();
    assert!(refused.message.contains("scheduler shares the schema, and there is no report"), "{refused}");
}

#[test]
fn instance_joining_meanwhile_is_not_left_below_window() {
    let mut world = World::at_version_1(2);
    runs(&mut world, &scheduler(), 7, 2);
    world.start_with_schema(shared(json!({})), MigrateOrder::BeforeRoll);
    world.until("it stages", |world| world.phase() == Phase::Stage);
    let planned = tidegate_planner::plan(world.store.fleet(), &world.moment());
    runs(&mut world, &scheduler(), 8, 1);
    world.refuses_late(planned, "window for");
    world.until("it expands", |world| world.phase() == Phase::Expand);
    assert_eq!(window(&world, &scheduler()).map(|(floor, _)| floor), Some(1));
}

#[test]
fn upgrade_ending_before_stage_leaves_no_other_window() {
    let mut world = World::at_version_1(2);
    runs(&mut world, &scheduler(), 7, 1);
    world.start_with_schema(shared(json!({})), MigrateOrder::BeforeRoll);
    for _ in 0..20 {
        if world.phase() != Phase::Preflight {
            break;
        }
        assert_eq!(window(&world, &scheduler()), None, "in preflight an upgrade may end as failed");
        world.turn();
    }
    assert_eq!(world.phase(), Phase::Stage);
}

#[test]
fn silent_instance_of_sharing_service_blocks_stage() {
    let mut world = World::at_version_1(2);
    runs(&mut world, &scheduler(), 7, 2);
    world.start_with_schema(shared(json!({})), MigrateOrder::BeforeRoll);
    world.until("it stages", |world| world.phase() == Phase::Stage);
    runs(&mut world, &scheduler(), 8, 2);
    let report = Key::Report(scheduler(), node(8));
    assert!(world.store.commit(&tidegate_proto::Commit::new().delete(report)));
    let last = world.run();
    assert_eq!(world.phase(), Phase::Stage);
    assert!(
        last.waiting[&upgrade_id()].iter().any(|r| r.to_string().contains("scheduler")),
        "{:?}",
        last.waiting
    );
    assert_eq!(window(&world, &scheduler()), None);
}

#[test]
fn empty_sharing_service_gets_floor_for_contract() {
    let mut world = World::at_version_1(2);
    let refused = world.start_bound(shared(json!({})), binding(MigrateOrder::BeforeRoll)).unwrap_err();
    assert!(refused.message.contains("name it in schema.empty"), "{refused}");
    world.start_with_schema(shared(json!({"empty": ["scheduler"]})), MigrateOrder::BeforeRoll);
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(window(&world, &scheduler()).map(|(floor, _)| floor), Some(2));
}

#[test]
fn window_that_the_upgrade_gave_follows_what_runs() {
    let mut world = nova();
    assert_eq!(world.run().waiting[&upgrade_id()], [waits_for_scheduler(1)]);
    runs(&mut world, &scheduler(), 7, 2);
    world.run();
    assert_eq!(window(&world, &scheduler()), Some((2, ServiceVersion::MAX.get())));
    acknowledge(&mut world, &scheduler());
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
}

#[test]
fn window_that_is_given_has_no_floor_above_what_is_required() {
    let required = Some((2, ServiceVersion::MAX.get()));
    let mut world = World::at_version_1(2);
    runs(&mut world, &scheduler(), 7, 9);
    world.start_with_schema(shared(json!({})), MigrateOrder::BeforeRoll);
    world.until("it expands", |world| world.phase() == Phase::Expand);
    assert_eq!(window(&world, &scheduler()), required, "its probe may answer 9 for a moment only");
    let mut world = nova();
    world.run();
    runs(&mut world, &scheduler(), 7, 9);
    world.run();
    assert_eq!(window(&world, &scheduler()), required, "the same where it follows what runs");
}

#[test]
fn start_refuses_a_sharing_window_that_no_upgrade_raises() {
    let mut world = World::at_version_1(2);
    runs(&mut world, &scheduler(), 7, 2);
    set_window(&mut world, &scheduler(), 1, version(2));
    let refused = world.start_bound(shared(json!({})), binding(MigrateOrder::BeforeRoll)).unwrap_err();
    let command = "tidegate fleet window scheduler --floor 2 --ceiling 2 --why WHY";
    assert!(refused.message.contains(command), "{refused}");
}

#[test]
fn window_to_be_raised_by_upgrade_does_not_block_start() {
    let mut world = World::at_version_1(2);
    runs(&mut world, &scheduler(), 7, 2);
    set_window(&mut world, &scheduler(), 1, version(2));
    let other: tidegate_proto::UpgradeId = "other".parse().unwrap();
    world.store.put(Key::Active(scheduler()), Active { upgrade: other });
    let found = preflight::preview(world.store.fleet(), &shared(json!({})), None);
    let found = found.into_iter().map(|finding| finding.what).collect::<String>();
    assert!(found.contains("until upgrade other of it is over"), "{found}");
    assert!(!found.contains("fleet window"), "that would be refused: {found}");
    world.start_bound(shared(json!({})), binding(MigrateOrder::BeforeRoll)).unwrap();
    let last = world.run();
    assert_eq!(world.phase(), Phase::Remove, "contract waits for the floor: {:?}", last.waiting);
}

#[test]
fn a_window_with_a_floor_alone_leaves_the_next_hop_open() {
    let mut world = World::at_version_1(0);
    for n in 0..2 {
        world.join(n, 2);
    }
    set_floor(&mut world, &service(), 2);
    (0..2).for_each(|n| world.publish(&node(n)));
    let refused = world.start(spec(json!({}))).unwrap_err().message;
    let says = |words: &str| refused.contains(words);
    assert!(
        says("pantry-api admits nothing below version 2") && says("but one from 2 or above"),
        "{refused}"
    );
    assert!(!says("fleet window pantry-api --floor 1"), "that is refused: {refused}");
    let target = json!({"tag": release(3).tag, "sha256": release(3).sha256});
    world.start(spec(json!({"from": 2, "to": 3, "release": target, "min_in_service": 1}))).unwrap();
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}
