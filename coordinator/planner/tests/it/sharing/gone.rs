//! Decommissioned instances of a service that shares the schema, before expand is undone.

use super::{runs, scheduler, shared};
use crate::sim::{World, node, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::{self, Asker, Gone};
use tidegate_planner::gate::SchemaGate;
use tidegate_planner::{Reason, Sample};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase};
use tidegate_proto::spec::{ApprovalPoint, Spec};
use tidegate_proto::{Commit, InstanceId, Key};

/// One instance of the scheduler falls silent at this version and is decommissioned.
pub(super) fn is_decommissioned_at(world: &mut World, last: i64) {
    runs(world, &scheduler(), 7, last);
    assert!(world.store.commit(&Commit::new().delete(Key::Report(scheduler(), node(7)))));
    decommission(world, Gone::default());
}

fn decommission(world: &mut World, how: Gone) {
    let asker = Asker { who: "op".into(), why: "burnt".into(), accepts: Default::default() };
    let id = InstanceId::new(scheduler(), node(7));
    let commit = ask::decommission(world.store.fleet(), &world.moment(), &id, how, &asker).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
}

#[test]
fn undo_waits_for_how_gone_sharing_instance_was_stopped() {
    for (last, waits) in [(1, false), (2, true)] {
        let mut world = World::at_version_1(2);
        runs(&mut world, &scheduler(), 7, 1);
        runs(&mut world, &scheduler(), 8, 1);
        world.start_with_schema(shared(json!({})), MigrateOrder::BeforeRoll);
        world.until_roll();
        is_decommissioned_at(&mut world, last);
        world.roll_back();
        let plan = world.run();
        assert_eq!(world.database.expanded, waits, "it was last known at {last}: {:?}", plan.waiting);
        if waits {
            let nodes = Sample { first: vec![node(7)], count: 1 };
            let unfenced = Reason::Schema(SchemaGate::Unfenced { service: scheduler(), nodes });
            assert!(plan.waiting[&upgrade_id()].contains(&unfenced), "{:?}", plan.waiting);
            decommission(&mut world, Gone { stopped_how: Some("power is off".into()), ..Gone::default() });
            world.run();
        }
        assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
        assert!(!world.database.expanded, "it was last known at {last}");
    }
}

#[test]
fn gone_sharing_instance_holds_no_end_without_expand() {
    for (point, ends) in [(ApprovalPoint::Stage, "failed"), (ApprovalPoint::Expand, "rolled-back")] {
        let mut world = World::at_version_1(2);
        runs(&mut world, &scheduler(), 8, 1);
        is_decommissioned_at(&mut world, 2);
        let spec = Spec { approvals: vec![point], ..shared(json!({})) };
        world.start_with_schema(spec, MigrateOrder::BeforeRoll);
        world.run();
        world.roll_back();
        let plan = world.run();
        assert_eq!(world.phase().name().word(), ends, "{:?}", plan.waiting);
    }
}

/// It counts again from that report on, which names its former admission: none is put.
#[test]
fn returned_sharing_instance_is_not_left_below_window() {
    let mut world = World::at_version_1(2);
    is_decommissioned_at(&mut world, 1);
    let report = world.agents[&node(0)].report.clone();
    runs(&mut world, &scheduler(), 8, 2);
    world.start_with_schema(shared(json!({})), MigrateOrder::BeforeRoll);
    world.until("it stages", |world| world.phase() == Phase::Stage);
    let planned = tidegate_planner::plan(world.store.fleet(), &world.moment());
    world.store.put(Key::Report(scheduler(), node(7)), report);
    world.refuses_late(planned, "window for");
}
