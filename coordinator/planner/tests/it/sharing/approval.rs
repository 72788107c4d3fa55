//! A person is asked for an approval only once the services that share the schema are what the phase requires.

use super::{
    acknowledge, after_the_roll_under_the_floor_of_both, requires, runs, scheduler, set_floor, shared,
    waits_for_scheduler,
};
use crate::sim::{World, upgrade_id};
use serde_json::json;
use tidegate_planner::Reason;
use tidegate_planner::ask::{self, Asker};
use tidegate_planner::gate::{PersonGate, SchemaGate};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase};
use tidegate_proto::spec::{ApprovalPoint, Spec};

fn is_refused(world: &World, point: ApprovalPoint) -> bool {
    let accepts = ["sessions".to_owned()].into();
    let asker = Asker { who: "op".into(), why: "none is open".into(), accepts };
    ask::approve(world.store.fleet(), &world.moment(), &upgrade_id(), point, &asker).is_err()
}

#[test]
fn sharing_services_below_are_named_before_approvals() {
    let why = "SQLite has no list of sessions".to_owned();
    let unlisted = PersonGate::Acceptance { why: why.clone() };
    let asked = PersonGate::Approval { point: ApprovalPoint::Contract };
    for (sessions_unknown, expected) in [(Some(why), unlisted), (None, asked)] {
        let mut world = World::at_version_1(2);
        world.database.sessions_unknown = sessions_unknown;
        runs(&mut world, &scheduler(), 7, 1);
        let spec = Spec { approvals: vec![ApprovalPoint::Contract], ..shared(json!({})) };
        world.start_with_schema(spec, MigrateOrder::BeforeRoll);
        let last = world.run();
        let reasons = &last.waiting[&upgrade_id()];
        assert_eq!(world.phase(), Phase::Remove, "{reasons:?}");
        let below = "services.scheduler.instances.n7: it is at version 1, 2 is needed";
        assert!(reasons.iter().any(|reason| reason.to_string().contains(below)), "{reasons:?}");
        let is_proof = |reason: &Reason| matches!(reason, Reason::Schema(SchemaGate::Certificate { .. }));
        assert!(reasons.iter().all(is_proof), "{reasons:?}");
        assert!(is_refused(&world, ApprovalPoint::Contract), "that would be too early");
        runs(&mut world, &scheduler(), 7, 2);
        world.run();
        acknowledge(&mut world, &scheduler());
        assert_eq!(world.run().waiting[&upgrade_id()], [Reason::Person(expected)]);
        assert!(!is_refused(&world, ApprovalPoint::Contract));
    }
}

#[test]
fn missing_floors_are_named_before_approval_of_migrate() {
    let before = requires(MigrateOrder::BeforeRoll, &[("pantry-api", 1), ("scheduler", 2)]);
    for binding in [before, after_the_roll_under_the_floor_of_both()] {
        let mut world = World::at_version_1(2);
        runs(&mut world, &scheduler(), 7, 1);
        let spec = Spec { approvals: vec![ApprovalPoint::Migrate], ..shared(json!({})) };
        world.start_bound(spec, binding).unwrap();
        assert_eq!(world.run().waiting[&upgrade_id()], [waits_for_scheduler(1)]);
        assert!(is_refused(&world, ApprovalPoint::Migrate), "that would be too early");
        set_floor(&mut world, &scheduler(), 2);
        let asked = PersonGate::Approval { point: ApprovalPoint::Migrate };
        assert_eq!(world.run().waiting[&upgrade_id()], [Reason::Person(asked)]);
        assert!(!is_refused(&world, ApprovalPoint::Migrate));
    }
}
