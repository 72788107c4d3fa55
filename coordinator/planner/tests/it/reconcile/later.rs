//! A store that was restored to before an upgrade that has contracted the database since: an earlier upgrade is active, and
//! what the database lacks by now is in no record. Its history shows the contract.

use super::contracted::{reconciled, roll_back, with_schema};
use super::{elect, version};
use crate::sim::{World, binding, later, node, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::gate::SchemaGate;
use tidegate_planner::{ContractBegun, LaterContract, Reason, SchemaFacts, plan};
use tidegate_proto::record::active::Active;
use tidegate_proto::record::reconciliation::Reconciliation;
use tidegate_proto::record::upgrade::{MigrateOrder, Phase, RollbackStep};
use tidegate_proto::record::window::Window;
use tidegate_proto::{Key, Revision, UpgradeId};

/// The upgrade from 1 to 2, in the roll; its own contract has no steps.
fn in_the_roll() -> World {
    let mut world = World::at_version_1(3);
    elect(&mut world, 1);
    world.start_with_schema(with_schema(), MigrateOrder::BeforeRoll);
    world.until_roll();
    world
}

/// The database is found contracted by an upgrade to 3 that the store does not know.
fn is_restored(world: &mut World) {
    let revision = Revision(world.store.revision);
    world.store.put(Key::Reconciliation, Reconciliation { revision, ..reconciled() });
    (world.facts, world.database.contracted_later) = (None, true);
}

/// One instance is found at version 3, as the later upgrade had left it; the reconciled window admits that.
fn one_runs_3(world: &mut World, floor: i64) {
    let set_by = "reconciliation".parse().unwrap();
    let window = Window { floor: version(floor), ceiling: version(3), set_by, contracted: None };
    world.store.put(Key::Window(service()), window);
    world.join(1, 3);
    // The directive that it has obeyed is of that upgrade: the one that the store has is older.
    world.agents.get_mut(&node(1)).unwrap().report.generation = Revision(world.store.revision);
    world.publish(&node(1));
}

fn is_held(reasons: &[Reason]) -> bool {
    reasons.iter().any(|reason| matches!(reason, Reason::Schema(SchemaGate::LaterContract { .. })))
}

/// An upgrade with this id has ended, or is active on the schema of another service.
fn is_known(world: &mut World, id: &UpgradeId, phase: Phase, pantry: i64) {
    let schema =
        json!({"database": {"from_env": "URL"}, "migrations": "m", "shared_with": {"pantry-api": pantry}});
    let mut body = world.upgrade().unwrap().clone();
    body.spec = Box::new(spec(json!({"service": "scheduler", "schema": schema})));
    (body.schema, body.phase) = (Some(binding(MigrateOrder::BeforeRoll)), phase);
    world.store.put(Key::Upgrade(id.clone()), body);
}

#[test]
fn nothing_is_moved_over_a_later_contract() {
    let mut world = in_the_roll();
    world.until("one is drained", |world| world.really_in_service() == 2);
    is_restored(&mut world);
    let last = world.run();
    assert!(is_held(&last.waiting[&upgrade_id()]), "{:?}", last.waiting);
    assert_eq!((world.versions(), world.really_in_service()), (vec![1; 3], 3), "the drained one is back");
    // The database of that time is restored as well.
    world.database.contracted_later = false;
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
}

#[test]
fn one_that_returns_in_remove_stays_over_a_later_contract() {
    let mut world = in_the_roll();
    world.until("it removes", |world| world.phase() == Phase::Remove);
    one_runs_3(&mut world, 2);
    is_restored(&mut world);
    let last = world.run();
    assert!(is_held(&last.waiting[&upgrade_id()]), "{:?}", last.waiting);
    assert_eq!(world.versions(), [2, 3, 2], "version 2 is not started on what the later contract has left");
}

#[test]
fn rollback_over_a_later_contract_is_refused() {
    let mut world = in_the_roll();
    is_restored(&mut world);
    world.turn();
    let refused = roll_back(&world, &world.moment()).unwrap_err();
    let contract = "contract of migration 0003_it (version 3, upgrade u2) has started";
    assert!(refused.message.contains(contract), "{refused}");
    let ends = "restore a later copy of the store, or begin with an empty one, and reconcile it; or restore";
    assert!(refused.message.contains(ends), "{refused}");
    // The same from a version whose file is not on the coordinator, and by hand.
    let mut moment = world.moment();
    let unknown = LaterContract { version: None, by: None, ..later() };
    moment.schemas.get_mut(&upgrade_id()).unwrap().later = vec![unknown];
    let refused = roll_back(&world, &moment).unwrap_err();
    assert!(
        refused.message.contains("(its file is not on this coordinator, by hand) has started"),
        "{refused}"
    );
}

#[test]
fn contract_that_the_store_knows_holds_nothing() {
    let mut world = in_the_roll();
    is_known(&mut world, &"u2".parse().unwrap(), Phase::Completed, 1);
    is_restored(&mut world);
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
}

#[test]
fn upgrade_in_preflight_over_a_later_contract_can_be_ended() {
    let mut world = World::at_version_1(3);
    elect(&mut world, 1);
    world.start_with_schema(with_schema(), MigrateOrder::BeforeRoll);
    is_restored(&mut world);
    world.database.expanded = true;
    world.turn();
    let waiting = plan(world.store.fleet(), &world.moment()).waiting.remove(&upgrade_id()).unwrap();
    assert!(is_held(&waiting), "{waiting:?}");
    assert!(roll_back(&world, &world.moment()).is_ok(), "no instance is moved by that");
}

/// The instance ran version 3 when the store was restored to a rollback that had moved all others.
#[test]
fn rollback_moves_no_straggler_below_a_later_contract() {
    let mut world = in_the_roll();
    world.roll_back();
    let is_there =
        |phase: Phase| matches!(phase, Phase::RollingBack { step, .. } if step == RollbackStep::Lower);
    world.until("the ceiling is lowered", |world| is_there(world.phase()));
    one_runs_3(&mut world, 1);
    is_restored(&mut world);
    let last = world.run();
    let reasons = &last.waiting[&upgrade_id()];
    assert!(reasons.iter().any(|r| r.to_string().contains("migration 0003_it")), "{reasons:?}");
    assert_eq!(world.versions(), [1, 3, 1]);
}

/// What the later contract required of a service that shares the schema is in no record.
#[test]
fn later_contract_holds_each_service_that_shares_the_schema() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    world.until_roll();
    let other: UpgradeId = "u0".parse().unwrap();
    is_known(&mut world, &other, Phase::Roll { wave: 0 }, 1);
    world.store.put(Key::Active("scheduler".parse().unwrap()), Active { upgrade: other.clone() });
    let mut moment = world.moment();
    assert!(roll_back(&world, &moment).is_ok(), "version 1 bears what the upgrade itself contracts");
    let seen = SchemaFacts { later: vec![later()], ..SchemaFacts::default() };
    moment.schemas.insert(other, seen);
    let refused = roll_back(&world, &moment).unwrap_err();
    assert!(refused.message.contains("the database of upgrade u0 shows"), "{refused}");
    let planned = plan(world.store.fleet(), &moment);
    assert!(is_held(&planned.waiting[&upgrade_id()]), "{:?}", planned.waiting);
}

/// The database of a restored upgrade may show a later contract, which holds a service that shares the schema.
#[test]
fn sharing_service_waits_for_the_first_look_at_a_database() {
    let mut world = World::at_version_1(3);
    elect(&mut world, 1);
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    world.until_roll();
    let other: UpgradeId = "u0".parse().unwrap();
    is_known(&mut world, &other, Phase::Roll { wave: 0 }, 1);
    world.store.put(Key::Active("scheduler".parse().unwrap()), Active { upgrade: other.clone() });
    let revision = Revision(world.store.revision);
    world.store.put(Key::Reconciliation, Reconciliation { revision, ..reconciled() });
    let last = world.run();
    let waits =
        |reasons: &[Reason]| reasons.iter().any(|r| r.to_string().contains("of upgrade u0: it is being"));
    assert!(waits(&last.waiting[&upgrade_id()]), "{:?}", last.waiting);
    assert_eq!(world.versions(), [1; 3]);
    let unclaimed = SchemaFacts { unclaimed: true, ..SchemaFacts::default() };
    let failed_after_its_look = SchemaFacts { filled_before_job: Some(true), ..SchemaFacts::default() };
    for seen in [unclaimed, failed_after_its_look] {
        let mut moment = world.moment();
        moment.schemas.insert(other.clone(), seen);
        let planned = plan(world.store.fleet(), &moment);
        assert!(!waits(&planned.waiting[&upgrade_id()]), "{:?}", planned.waiting);
    }
}

/// The same hop was started again in a store that does not know of the first one.
#[test]
fn contract_by_an_unknown_upgrade_refuses_a_rollback() {
    let mut world = in_the_roll();
    let mut moment = world.moment();
    let facts = moment.schemas.get_mut(&upgrade_id()).unwrap();
    facts.contract_begun = ContractBegun::OfOthers;
    assert!(roll_back(&world, &moment).is_ok(), "a person contracted it before");
    let first: UpgradeId = "first".parse().unwrap();
    let facts = moment.schemas.get_mut(&upgrade_id()).unwrap();
    facts.contracted_by = vec![first.clone()];
    let refused = roll_back(&world, &moment).unwrap_err();
    let begun = format!("contract has started, so version {} may not", version(1));
    assert!(refused.message.contains(&begun), "{refused}");
    is_known(&mut world, &first, Phase::Completed, 1);
    assert!(roll_back(&world, &moment).is_ok(), "the schema's record has what it requires");
}
