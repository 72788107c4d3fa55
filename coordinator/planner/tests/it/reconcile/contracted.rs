//! A store that was restored to before contract: its records do not say that the former version may not run any more, and
//! the database does.

use super::{apply, asker, elect, publish, testify, version};
use crate::faults::fails;
use crate::sim::{World, binding, node, release, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::reconcile::Choices;
use tidegate_planner::ask::{self, Refusal, RefusalKind, RollbackBar};
use tidegate_planner::{ContractBegun, Moment, SchemaFacts};
use tidegate_proto::commit::Commit;
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::active::Active;
use tidegate_proto::record::reconciliation::Reconciliation;
use tidegate_proto::record::upgrade::{MigrateOrder, Phase, SchemaBinding};
use tidegate_proto::spec::Spec;
use tidegate_proto::{Key, Revision, ServiceName, UpgradeId};

pub(super) fn with_schema() -> Spec {
    spec(json!({"min_in_service": 1, "schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"}}))
}

fn all_new() -> World {
    let mut world = World::at_version_1(3);
    elect(&mut world, 1);
    world.start_with_schema(with_schema(), MigrateOrder::BeforeRoll);
    let serve = |world: &World| world.really_in_service() == 3;
    world.until("all are new", |world| world.versions().iter().all(|v| *v == 2) && serve(world));
    assert!(matches!(world.phase(), Phase::Roll { .. }));
    world
}

/// The upgrade has completed, and the store is restored to its roll and reconciled.
fn contracted_after_the_backup() -> World {
    let mut world = all_new();
    let backup = world.store.clone();
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    testify(&mut world);
    world.store = backup;
    world.facts = None;
    publish(&mut world);
    elect(&mut world, 9);
    apply(&mut world, &Choices::default()).unwrap();
    assert!(matches!(world.phase(), Phase::Roll { .. }));
    world
}

pub(super) fn roll_back(world: &World, moment: &Moment) -> Result<Commit, Refusal> {
    ask::roll_back(world.store.fleet(), moment, &upgrade_id(), &asker())
}

/// What a person applied who knew of a floor of 2.
pub(super) fn reconciled() -> Reconciliation {
    Reconciliation {
        who: "op".into(),
        why: "restored".into(),
        at: Timestamp(0),
        terms: Default::default(),
        revision: Revision::ABSENT,
        floors: [(service(), version(2))].into(),
        disregarded: Default::default(),
        listed: Default::default(),
    }
}

#[test]
fn rollback_of_a_restored_upgrade_needs_a_look_first() {
    let mut world = contracted_after_the_backup();
    let refused = roll_back(&world, &world.moment()).unwrap_err();
    assert!(refused.message.contains("which may be contracted, was not seen since"), "{refused}");
    assert_eq!(refused.kind, RefusalKind::State, "it lasts until the database was seen");
    world.turn();
    let refused = roll_back(&world, &world.moment()).unwrap_err();
    assert!(refused.message.contains("upgrade u1 shows that contract has started"), "{refused}");
    assert_eq!(refused.kind, RefusalKind::Rollback(RollbackBar::Contract));
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
    assert_eq!(world.versions(), [2; 3]);
}

/// The rows were migrated after the backup, and version 1 cannot read them.
#[test]
fn final_rows_of_a_lost_migrate_refuse_a_rollback() {
    let mut world = World::at_version_1(3);
    elect(&mut world, 1);
    let schema = SchemaBinding { old_reads_migrated: false, ..binding(MigrateOrder::AfterRoll) };
    world.start_bound(with_schema(), schema).unwrap();
    world.until_roll();
    let asked = |world: &World, migrate_begun: bool| {
        let mut moment = world.moment();
        moment.schemas.get_mut(&upgrade_id()).unwrap().migrate_begun = migrate_begun;
        roll_back(world, &moment)
    };
    assert!(asked(&world, true).is_ok(), "the phase of an upgrade of this store is believed");
    world.store.put(Key::Reconciliation, reconciled());
    let refused = asked(&world, true).unwrap_err();
    assert!(refused.message.contains("the old version cannot read migrated rows"), "{refused}");
    assert_eq!(refused.kind, RefusalKind::Rollback(RollbackBar::Rows));
    assert!(asked(&world, false).is_ok(), "the database shows no migrate");
}

#[test]
fn failure_beside_a_forgotten_contract_pauses() {
    let mut world = all_new();
    world.store.put(Key::Reconciliation, reconciled());
    (world.facts, world.database.contracted) = (None, true);
    fails(&mut world, &node(0), true, true);
    world.run();
    let pause = world.upgrade().unwrap().paused.clone().unwrap();
    assert!(pause.why.contains("it cannot be rolled back: the database of upgrade u1 shows"), "{pause:?}");
    assert_eq!(world.versions(), [2; 3], "version 1 is not started on what contract has left");
}

#[test]
fn paused_upgrade_of_a_restored_store_is_looked_at() {
    let mut world = all_new();
    let pause = ask::pause(world.store.fleet(), &world.moment(), &upgrade_id(), &asker()).unwrap();
    assert!(world.store.commit(&pause));
    world.events += 1;
    world.store.put(Key::Reconciliation, reconciled());
    world.facts = None;
    assert!(roll_back(&world, &world.moment()).is_err());
    world.turn();
    assert!(roll_back(&world, &world.moment()).is_ok(), "the database shows no contract");
}

/// A migrate fails again and again over one row, and each attempt has looked at the database before it began.
#[test]
fn job_that_fails_after_its_look_refuses_no_rollback() {
    let mut world = all_new();
    world.store.put(Key::Reconciliation, reconciled());
    let refused_with = |filled_before_job: Option<bool>, contract_begun: ContractBegun| {
        let trouble = Some("a row breaks a constraint".to_owned());
        let facts = SchemaFacts { trouble, filled_before_job, contract_begun, ..SchemaFacts::default() };
        let mut moment = world.moment();
        moment.schemas.insert(upgrade_id(), facts);
        roll_back(&world, &moment).err().map(|refused| refused.message).unwrap_or_default()
    };
    let away = refused_with(None, ContractBegun::No);
    assert!(away.contains("was not seen since"), "the look failed: {away}");
    assert_eq!(refused_with(Some(false), ContractBegun::No), "");
    let contracted = refused_with(Some(true), ContractBegun::Own);
    assert!(contracted.contains("upgrade u1 shows that contract has started"), "{contracted}");
}

#[test]
fn upgrade_started_after_a_reconciliation_needs_no_look() {
    let mut world = World::at_version_1(3);
    world.store.put(Key::Reconciliation, reconciled());
    world.start_with_schema(with_schema(), MigrateOrder::BeforeRoll);
    world.until_roll();
    world.facts = None;
    assert!(roll_back(&world, &world.moment()).is_ok());
}

#[test]
fn restored_rollback_moves_nothing_below_a_contract() {
    let mut world = all_new();
    let commit = roll_back(&world, &world.moment()).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.store.put(Key::Reconciliation, reconciled());
    (world.facts, world.database.contracted) = (None, true);
    let last = world.run();
    let reasons = &last.waiting[&upgrade_id()];
    assert!(reasons.iter().any(|r| r.to_string().contains("shows that contract has started")), "{reasons:?}");
    let way_out = "restore the database of that time, and the rollback goes on; or restore a later copy";
    assert!(reasons.iter().any(|r| r.to_string().contains(way_out)), "{reasons:?}");
    assert_eq!(world.versions(), [2; 3]);
    // The database of that time is restored as well.
    world.database.contracted = false;
    let last = world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", last.waiting);
    assert_eq!(world.versions(), [1; 3]);
}

/// The contract of another service's upgrade, which requires version 2 of this one.
#[test]
fn contract_of_a_sharing_upgrade_refuses_a_rollback() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    world.until_roll();
    let (other, scheduler): (UpgradeId, ServiceName) = ("u0".parse().unwrap(), "scheduler".parse().unwrap());
    let schema =
        json!({"database": {"from_env": "URL"}, "migrations": "m", "shared_with": {"pantry-api": 2}});
    let mut body = world.upgrade().unwrap().clone();
    body.spec = Box::new(spec(json!({"service": "scheduler", "schema": schema})));
    body.schema = Some(binding(MigrateOrder::BeforeRoll));
    world.store.put(Key::Upgrade(other.clone()), body);
    world.store.put(Key::Active(scheduler), Active { upgrade: other.clone() });
    let mut moment = world.moment();
    assert!(roll_back(&world, &moment).is_ok());
    let seen = SchemaFacts { contract_begun: ContractBegun::Own, ..SchemaFacts::default() };
    moment.schemas.insert(other, seen);
    let refused = roll_back(&world, &moment).unwrap_err();
    let version = release(1).version;
    assert!(refused.message.contains(&format!("so version {version} may not be able to run")), "{refused}");
}
