//! The most services that may share a schema.

use super::{acknowledge, runs, shared};
use crate::sim::{World, binding, upgrade_id};
use serde_json::json;
use std::collections::BTreeMap;
use tidegate_proto::ServiceName;
use tidegate_proto::record::upgrade::{MigrateOrder, Phase, SchemaBinding};
use tidegate_proto::spec::SpecSchema;

/// A transaction has at most 128 compares, and the store of this simulation refuses more.
#[test]
fn sixty_services_may_share_a_schema() {
    let mut world = World::at_version_1(2);
    let names: Vec<ServiceName> = (0..60).map(|n| format!("worker-{n:02}").parse().unwrap()).collect();
    names.iter().for_each(|name| runs(&mut world, name, 7, 2));
    let with: BTreeMap<&ServiceName, u32> = names.iter().map(|name| (name, 2)).collect();
    let binding = SchemaBinding { migrate_floors: BTreeMap::new(), ..binding(MigrateOrder::AfterRoll) };
    world.start_bound(shared(json!({"shared_with": with})), binding).unwrap();
    world.until("it expands", |world| world.phase() == Phase::Expand);
    names.iter().for_each(|name| acknowledge(&mut world, name));
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.certificate.as_ref().unwrap().services.len(), 61);
}

#[test]
fn an_admission_of_one_of_sixty_services_voids_the_certificate() {
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
    let evidence =
        tidegate_planner::certificate::DatabaseEvidence { pending_rows: 0, ..world.evidence.clone() };
    let made =
        tidegate_planner::certificate::certify(world.store.fleet(), &world.moment(), &upgrade_id(), evidence);
    runs(&mut world, &names[59], 8, 1);
    assert!(made.unwrap().commits.iter().all(|commit| !world.store.commit(commit)));
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
