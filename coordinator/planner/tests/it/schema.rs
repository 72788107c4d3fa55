//! Stories of upgrades that change a schema.

mod restored;

use crate::sim::{World, binding, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::{self, Asker};
use tidegate_planner::gate::{PersonGate, SchemaGate};
use tidegate_planner::{Reason, SchemaJob};
use tidegate_proto::Key;
use tidegate_proto::record::active::Active;
use tidegate_proto::record::upgrade::{MigrateOrder, Phase, PhaseName};
use tidegate_proto::spec::{ApprovalPoint, Spec};
use tidegate_proto::value::ActiveSchema;

fn with_schema(change: serde_json::Value) -> Spec {
    let mut all = json!({"schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"}});
    all.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    spec(all)
}

fn phases(world: &World) -> Vec<PhaseName> {
    world.upgrade().unwrap().timetable.iter().map(|t| t.phase).collect()
}

#[test]
fn glance_order_fills_before_roll_and_needs_certificate() {
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
fn unlistable_sessions_need_accepting_approval() {
    let mut world = World::at_version_1(3);
    let why = "SQLite has no list of sessions".to_owned();
    world.evidence.sessions = Err(why.clone());
    world.database.sessions_unknown = Some(why.clone());
    world.start_with_schema(with_schema(json!({"approvals": ["contract"]})), MigrateOrder::BeforeRoll);
    let last = world.run();
    assert_eq!(last.waiting[&upgrade_id()], [Reason::Person(PersonGate::Acceptance { why })]);
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
        [Reason::Schema(SchemaGate::SchemaTrouble {
            job: "expand".into(),
            why: "connection refused".into()
        })]
    );
    assert_eq!(world.versions(), [1; 3]);
}

fn trouble() -> tidegate_planner::SchemaFacts {
    tidegate_planner::SchemaFacts { trouble: Some("connection refused".into()), ..Default::default() }
}

#[test]
fn absent_database_at_start_is_bound_later_in_preflight() {
    use PhaseName::*;
    let mut world = World::at_version_1(3);
    world.start(with_schema(json!({}))).unwrap();
    world.facts = Some(trouble());
    let plan = tidegate_planner::plan(world.store.fleet(), &world.moment());
    let waits =
        Reason::Schema(SchemaGate::SchemaTrouble { job: "bind".into(), why: "connection refused".into() });
    assert_eq!(plan.waiting[&upgrade_id()], [waits]);
    let asks = tidegate_planner::Action::Schema { upgrade: upgrade_id(), job: SchemaJob::Bind };
    assert!(plan.actions.contains(&asks), "it is tried again: {:?}", plan.actions);
    let id = binding(MigrateOrder::BeforeRoll).id;
    assert!(world.store.fleet().schema_lock(&id).is_none());

    world.turn();
    world.turn();
    assert_eq!(world.upgrade().unwrap().schema, Some(binding(MigrateOrder::BeforeRoll)));
    assert_eq!(world.phase(), Phase::Preflight);
    assert_eq!(world.store.fleet().schema_lock(&id).map(|(holder, _)| holder.clone()), Some(upgrade_id()));
    world.run();
    assert_eq!(phases(&world), [Preflight, Stage, Expand, Migrate, Roll, Remove, Contract]);
    assert!(world.store.fleet().schema_lock(&id).is_none(), "the lock ends with the upgrade");
}

#[test]
fn schema_found_late_and_locked_by_other_is_waited_for() {
    let mut world = World::at_version_1(3);
    world.start(with_schema(json!({}))).unwrap();
    let active = Active { upgrade: "elsewhere".parse().unwrap() };
    world.store.put(Key::ActiveSchema(binding(MigrateOrder::BeforeRoll).id), ActiveSchema(active));
    let last = world.run();
    let waiting = &last.waiting[&upgrade_id()];
    assert!(
        matches!(&waiting[..], [Reason::Person(PersonGate::Preflight { finding, until: Some(_) })] if finding.contains("elsewhere holds schema s1")),
        "{waiting:?}"
    );
    assert_eq!((world.phase(), world.upgrade().unwrap().schema.clone()), (Phase::Preflight, None));
}

#[test]
fn an_upgrade_that_never_found_its_database_can_be_ended() {
    let mut world = World::at_version_1(3);
    world.start(with_schema(json!({}))).unwrap();
    world.facts = Some(trouble());
    let asker = Asker { who: "op".into(), why: "the database is gone".into(), accepts: Default::default() };
    let commit = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker).unwrap();
    assert!(world.store.commit(&commit));
    world.run();
    assert!(matches!(world.phase(), Phase::Failed { .. }), "{:?}", world.phase());
}

#[test]
fn obstacles_in_the_database_hold_an_upgrade_in_preflight() {
    let mut world = World::at_version_1(3);
    world.start(with_schema(json!({}))).unwrap();
    let finding = "migration 0001_things is of version 1, at or below `from`, and is not finished".to_owned();
    world.facts = Some(tidegate_planner::SchemaFacts {
        obstacles: vec![finding.clone()],
        found: Some(binding(MigrateOrder::BeforeRoll)),
        clean: true,
        ..Default::default()
    });
    let last = world.turn().1;
    assert_eq!(world.phase(), Phase::Preflight);
    assert_eq!(last.waiting[&upgrade_id()], [Reason::Person(PersonGate::Preflight { finding, until: None })]);
    assert!(
        last.actions.iter().any(|action| action.schema_of() == Some(&upgrade_id())),
        "it is looked at again"
    );
    world.facts = None;
    world.run();
    assert_eq!(world.phase(), Phase::Completed, "once it is removed, the upgrade goes on");
}

#[test]
fn objects_that_an_undo_leaves_are_recorded() {
    let mut world = World::at_version_1(3);
    world.start_with_schema(with_schema(json!({"approvals": ["roll"]})), MigrateOrder::BeforeRoll);
    world.run();
    let asker = Asker { who: "op".into(), why: "second thoughts".into(), accepts: Default::default() };
    let commit = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    let left = "`CREATE TABLE kept (id integer)` of 0002_it (irreversible)".to_owned();
    world.leaves_in_place = vec![left.clone()];
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
    assert_eq!(world.upgrade().unwrap().schema.as_ref().unwrap().left, [left]);
}
