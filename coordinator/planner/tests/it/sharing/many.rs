//! The most services that may share a schema.

use super::{acknowledge, runs, shared, version};
use crate::sim::{World, binding, node, upgrade_id};
use serde_json::json;
use std::collections::BTreeMap;
use tidegate_planner::plan::{DatabaseEvidence, Made, certify};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase, SchemaBinding};
use tidegate_proto::record::window::{BY_RELEASES, Window};
use tidegate_proto::spec::SpecSchema;
use tidegate_proto::{Commit, Key, ServiceName};

/// A transaction has at most 128 compares, and the store of this simulation refuses more. Up to 25 services are compared one
/// by one, the upgraded one among them.
#[test]
fn sixty_services_may_share_a_schema() {
    for count in [24, 60] {
        let mut world = World::at_version_1(2);
        let names: Vec<ServiceName> = (0..count).map(|n| format!("worker-{n:02}").parse().unwrap()).collect();
        names.iter().for_each(|name| runs(&mut world, name, 7, 2));
        let with: BTreeMap<&ServiceName, u32> = names.iter().map(|name| (name, 2)).collect();
        let binding = SchemaBinding { migrate_floors: BTreeMap::new(), ..binding(MigrateOrder::AfterRoll) };
        world.start_bound(shared(json!({"shared_with": with})), binding).unwrap();
        world.until("it expands", |world| world.phase() == Phase::Expand);
        names.iter().for_each(|name| acknowledge(&mut world, name));
        let last = world.run();
        assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
        assert_eq!(world.certificate.as_ref().unwrap().services.len(), count + 1);
    }
}

/// A world in which sixty other services share the schema, one of them, and what is made of what the world shows.
fn made_with_sixty() -> (World, ServiceName, Made) {
    let mut world = World::at_version_1(2);
    let names: Vec<ServiceName> = (0..60).map(|n| format!("worker-{n:02}").parse().unwrap()).collect();
    names.iter().for_each(|name| runs(&mut world, name, 7, 2));
    let with: BTreeMap<&ServiceName, u32> = names.iter().map(|name| (name, 2)).collect();
    world.evidence.pending_rows = 1;
    world.start_bound(shared(json!({"shared_with": with})), binding(MigrateOrder::BeforeRoll)).unwrap();
    world.until("it expands", |world| world.phase() == Phase::Expand);
    names.iter().for_each(|name| acknowledge(&mut world, name));
    world.run();
    assert_eq!(world.phase(), Phase::Remove);
    let evidence = DatabaseEvidence { pending_rows: 0, ..world.evidence.clone() };
    let made = certify(world.store.fleet(), &world.moment(), &upgrade_id(), evidence).unwrap();
    (world, names[59].clone(), made)
}

#[test]
fn an_admission_of_one_of_sixty_services_voids_the_certificate() {
    let (mut world, other, made) = made_with_sixty();
    runs(&mut world, &other, 8, 1);
    assert!(made.commits.iter().all(|commit| !world.store.commit(commit)));
}

#[test]
fn a_report_of_one_of_sixty_services_voids_the_certificate() {
    let (mut world, other, made) = made_with_sixty();
    let report = world.agents[&node(0)].report.clone();
    world.store.put(Key::Report(other, node(8)), report);
    assert!(made.commits.iter().all(|commit| !world.store.commit(commit)));
}

/// The floor of each follows what compute releases need, so that entering migrate compares who came.
#[test]
fn watched_floors_of_many_services_open_migrate() {
    for count in [8, 60] {
        let mut world = World::at_version_1(2);
        let names: Vec<ServiceName> = (0..count).map(|n| format!("worker-{n:02}").parse().unwrap()).collect();
        for name in &names {
            runs(&mut world, name, 7, 1);
            let body = Window { floor: version(2), ..Window::open(BY_RELEASES.parse().unwrap()) };
            world.store.put(Key::Window(name.clone()), body);
        }
        let with: BTreeMap<&ServiceName, u32> = names.iter().map(|name| (name, 2)).collect();
        let migrate_floors = names.iter().map(|name| (name.clone(), version(2))).collect();
        let binding = SchemaBinding { migrate_floors, ..binding(MigrateOrder::AfterRoll) };
        world.start_bound(shared(json!({"shared_with": with})), binding).unwrap();
        world.run();
        names.iter().for_each(|name| runs(&mut world, name, 7, 2));
        let planned = tidegate_planner::plan(world.store.fleet(), &world.moment());
        let came = Key::Report(names[count - 1].clone(), node(8));
        world.store.put(came.clone(), world.agents[&node(0)].report.clone());
        world.refuses_late(planned, "roll ->");
        assert!(world.store.commit(&Commit::new().delete(came)));
        world.run();
        names.iter().for_each(|name| acknowledge(&mut world, name));
        let last = world.run();
        assert_eq!(world.phase(), Phase::Completed, "{count}: {:?}", last.waiting);
    }
}

#[test]
fn too_many_sharing_services_are_refused_at_start() {
    let mut world = World::at_version_1(2);
    let with: BTreeMap<String, u32> =
        (0..=SpecSchema::MAX_SHARING).map(|n| (format!("worker-{n}"), 2)).collect();
    let spec = shared(json!({"shared_with": with}));
    let refused = world.start_bound(spec, binding(MigrateOrder::BeforeRoll)).unwrap_err();
    assert!(refused.message.contains("schema.shared_with: names 101 services, and at most 100"), "{refused}");
}
