//! Stories of upgrades that change a schema.

use crate::sim::{World, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::{self, Asker};
use tidegate_planner::{Reason, SchemaJob};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase, PhaseName};
use tidegate_proto::spec::{ApprovalPoint, Spec};

fn with_schema(change: serde_json::Value) -> Spec {
    let mut all = json!({"schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"}});
    all.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    spec(all)
}

fn phases(world: &World) -> Vec<PhaseName> {
    world.upgrade().unwrap().timetable.iter().map(|t| t.phase).collect()
}

#[test]
fn glances_order_fills_before_the_roll_and_contracts_on_a_certificate() {
    use PhaseName::*;
    let mut world = World::at_version_1(4);
    world.start_with_schema(with_schema(json!({})), MigrateOrder::BeforeRoll);
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(phases(&world), [Preflight, Stage, Expand, Migrate, Roll, Remove, Contract]);
    let certificate = world.certificate.as_ref().unwrap();
    assert_eq!(certificate.services[&service()].instances.len(), 4);
    assert!(
        world.jobs.contains(&SchemaJob::Contract { certificate: certificate.digest() }),
        "contract runs on that certificate: {:?}",
        world.jobs
    );
}

#[test]
fn novas_order_fills_under_the_floor() {
    use PhaseName::*;
    let mut world = World::at_version_1(3);
    world.start_with_schema(with_schema(json!({})), MigrateOrder::AfterRoll);
    world.run();
    assert_eq!(phases(&world), [Preflight, Stage, Expand, Roll, Migrate, Remove, Contract]);
}

#[test]
fn a_database_that_cannot_list_its_sessions_needs_an_approval_that_accepts_that() {
    let mut world = World::at_version_1(3);
    let why = "SQLite has no list of sessions".to_owned();
    world.evidence.sessions = Err(why.clone());
    world.facts = Some(tidegate_planner::SchemaFacts {
        clean: true,
        sessions_unknown: Some(why.clone()),
        ..Default::default()
    });
    world.start_with_schema(with_schema(json!({"approvals": ["contract"]})), MigrateOrder::BeforeRoll);
    let last = world.run();
    assert_eq!(last.waiting[&upgrade_id()], [Reason::Acceptance { why }]);
    let plain = Asker { who: "op".into(), why: String::new(), accepts: Default::default() };
    let refused =
        ask::approve(world.store.fleet(), &world.moment(), &upgrade_id(), ApprovalPoint::Contract, &plain)
            .unwrap_err();
    assert!(refused.message.contains("--accept sessions"), "{refused}");
    let knowing = Asker { accepts: ["sessions".to_owned()].into(), ..plain };
    let commit =
        ask::approve(world.store.fleet(), &world.moment(), &upgrade_id(), ApprovalPoint::Contract, &knowing)
            .unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn a_rollback_undoes_expand() {
    let mut world = World::at_version_1(3);
    world.start_with_schema(with_schema(json!({"approvals": ["remove"]})), MigrateOrder::BeforeRoll);
    world.run();
    let asker = Asker { who: "op".into(), why: "regret".into(), accepts: Default::default() };
    let commit = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
    assert_eq!(world.jobs.last(), Some(&SchemaJob::Undo));
    assert_eq!(world.versions(), [1; 3]);
}

#[test]
fn a_database_in_trouble_is_a_reason_and_nothing_moves() {
    let mut world = World::at_version_1(3);
    world.start_with_schema(with_schema(json!({})), MigrateOrder::BeforeRoll);
    while world.phase() != Phase::Expand {
        world.turn();
        world.agents_step();
    }
    world.facts = Some(tidegate_planner::SchemaFacts {
        clean: true,
        trouble: Some("connection refused".into()),
        ..Default::default()
    });
    let plan = tidegate_planner::plan(world.store.fleet(), &world.moment());
    assert_eq!(
        plan.waiting[&upgrade_id()],
        [Reason::SchemaTrouble { job: "expand".into(), why: "connection refused".into() }]
    );
    assert_eq!(world.versions(), [1; 3]);
}
