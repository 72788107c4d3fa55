//! Rollbacks of an upgrade whose schema other services share.

use super::{acknowledge, runs, scheduler, set_floor, set_window, shared, version, window};
use crate::sim::{Database, World, node, upgrade_id};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_planner::gate::{SchemaGate, preflight};
use tidegate_planner::{Action, Reason, plan};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::active::Active;
use tidegate_proto::record::need::Need;
use tidegate_proto::record::reconciliation::Reconciliation;
use tidegate_proto::record::report::{Report, Rotation};
use tidegate_proto::record::upgrade::{MigrateOrder, Pause, Phase, PhaseName, RollbackStep};
use tidegate_proto::spec::{ApprovalPoint, Spec};
use tidegate_proto::{Commit, Key, NodeId, Revision, ServiceName, ServiceVersion, UpgradeId, Value};

#[test]
fn second_attempt_restores_window_opened_by_rollback() {
    let mut world = World::at_version_1(2);
    runs(&mut world, &scheduler(), 7, 2);
    // As the rollback of a first attempt, or of the service's own first upgrade, leaves it.
    set_floor(&mut world, &scheduler(), 1);
    world.start_with_schema(shared(json!({})), MigrateOrder::BeforeRoll);
    world.until("it expands", |world| world.phase() == Phase::Expand);
    assert_eq!(window(&world, &scheduler()), Some((2, ServiceVersion::MAX.get())));
    acknowledge(&mut world, &scheduler());
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
}

#[test]
fn a_rollback_opens_the_windows_that_it_had_set_for_others() {
    let mut world = World::at_version_1(2);
    world.start_with_schema(shared(json!({"empty": ["scheduler"]})), MigrateOrder::BeforeRoll);
    world.until_roll();
    assert_eq!(window(&world, &scheduler()).map(|(floor, _)| floor), Some(2));
    world.roll_back();
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
    assert_eq!(window(&world, &scheduler()), Some((1, ServiceVersion::MAX.get())));
    assert!(!world.database.expanded, "the floor that it had set for others says nothing of what they use");
}

#[test]
fn undo_spares_the_form_that_a_sharing_service_uses() {
    for (runs_at, stays) in [(1, false), (2, true)] {
        let mut world = World::at_version_1(2);
        runs(&mut world, &scheduler(), 7, 1);
        world.start_with_schema(shared(json!({})), MigrateOrder::BeforeRoll);
        world.until_roll();
        runs(&mut world, &scheduler(), 7, runs_at);
        acknowledge(&mut world, &scheduler());
        world.roll_back();
        world.run();
        assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
        assert_eq!(world.database.expanded, stays, "the scheduler is at {runs_at}");
        let left = world.upgrade().unwrap().schema.clone().unwrap().left;
        assert_eq!(left.iter().any(|what| what.contains("scheduler")), stays, "{left:?}");
    }
}

/// An upgrade of the sharing service has completed, and a person put version 1 back on its only instance.
#[test]
fn undo_spares_the_form_below_the_floor_of_a_sharing_service() {
    for (has_instance, floor, stays) in [(true, 1, false), (true, 2, true), (false, 2, false)] {
        let mut world = World::at_version_1(2);
        let empty = match has_instance {
            true => json!({}),
            false => json!({"empty": ["scheduler"]}),
        };
        if has_instance {
            runs(&mut world, &scheduler(), 7, 1);
        }
        world.start_with_schema(shared(empty), MigrateOrder::BeforeRoll);
        world.until_roll();
        set_window(&mut world, &scheduler(), floor, version(2));
        world.roll_back();
        world.run();
        assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
        assert_eq!(world.database.expanded, stays, "an instance: {has_instance}, its floor is {floor}");
        let schema = world.upgrade().unwrap().schema.clone().unwrap();
        assert_eq!(schema.form_left, stays, "{:?}", schema.left);
    }
}

/// The floor of the scheduler falls after this end was planned, which leaves the form in place because of it.
fn floor_falls_before(mut world: World, end: &str) {
    let ends = |action: &Action| matches!(action, Action::Commit(planned) if planned.what.starts_with(end));
    let next = |world: &World| plan(world.store.fleet(), &world.moment());
    set_window(&mut world, &scheduler(), 2, version(2));
    world.roll_back();
    world.until("its end is planned", |world| next(world).actions.iter().any(ends));
    let planned = next(&world);
    set_window(&mut world, &scheduler(), 1, version(2));
    world.refuses_late(planned, end);
    world.run();
    assert!(world.phase().is_over(), "{:?}", world.phase());
    assert!(!world.database.expanded, "no service uses it");
}

#[test]
fn form_is_not_left_for_a_floor_that_falls_before_the_end() {
    for from_preflight in [false, true] {
        let mut world = World::at_version_1(2);
        runs(&mut world, &scheduler(), 7, 1);
        let approvals = if from_preflight { vec![ApprovalPoint::Stage] } else { Vec::new() };
        let spec = Spec { approvals, ..shared(json!({})) };
        world.start_with_schema(spec, MigrateOrder::BeforeRoll);
        if from_preflight {
            world.run();
            // Under a former store.
            world.database.expanded = true;
            floor_falls_before(world, "rolling-back -> failed");
        } else {
            world.until_roll();
            floor_falls_before(world, "rolling-back -> rolled-back");
        }
    }
}

/// It may admit no version that does without the form.
#[test]
fn unreadable_window_of_a_sharing_service_holds_the_undo() {
    let mut world = World::at_version_1(2);
    runs(&mut world, &scheduler(), 7, 1);
    world.start_with_schema(shared(json!({})), MigrateOrder::BeforeRoll);
    world.until_roll();
    world.roll_back();
    let key = Key::Window(scheduler());
    world.store.spoil(&key);
    let last = world.run();
    let reasons = &last.waiting[&upgrade_id()];
    assert!(reasons.iter().any(|reason| reason.to_string().contains(&key.to_string())), "{reasons:?}");
    assert!(world.database.expanded, "{:?}", world.phase());
    world.store.rebuild();
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
    assert!(!world.database.expanded);
}

fn of_scheduler() -> UpgradeId {
    "of-scheduler".parse().unwrap()
}

/// An upgrade of the sharing service from 1 to 2 is in this step of its rollback, and paused there.
fn scheduler_rolls_back(world: &mut World, step: RollbackStep) {
    let mut body = world.upgrade().unwrap().clone();
    *body.spec = Spec { service: scheduler(), schema: None, ..shared(json!({})) };
    body.schema = None;
    body.phase = Phase::RollingBack { from: PhaseName::Roll, step, because: "regret".into() };
    body.paused = Some(Pause { who: "op".into(), why: "lunch".into(), at: Timestamp(0) });
    world.store.put(Key::Upgrade(of_scheduler()), body);
    world.store.put(Key::Active(scheduler()), Active { upgrade: of_scheduler() });
}

/// An instance of it may run a version that uses the form, or be moved to one.
#[test]
fn unreadable_upgrade_or_instance_of_a_sharer_holds_the_undo() {
    let instance = vec![Key::Inventory(scheduler(), node(7)), Key::Report(scheduler(), node(7))];
    for keys in [vec![Key::Upgrade(of_scheduler())], instance] {
        let mut world = World::at_version_1(2);
        runs(&mut world, &scheduler(), 7, 1);
        world.start_with_schema(shared(json!({})), MigrateOrder::BeforeRoll);
        world.until_roll();
        scheduler_rolls_back(&mut world, RollbackStep::Undo);
        world.roll_back();
        for key in &keys {
            world.store.spoil(key);
        }
        let last = world.run();
        let reasons = &last.waiting[&upgrade_id()];
        for key in keys.iter().map(ToString::to_string) {
            assert!(reasons.iter().any(|reason| reason.to_string().contains(&key)), "{key}: {reasons:?}");
            assert!(world.database.expanded, "{key}: {:?}", world.phase());
        }
        world.store.rebuild();
        world.run();
        assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
        assert!(!world.database.expanded);
    }
}

/// The store was lost, and reconciled before it was admitted. Its program may be of a version that uses the form.
#[test]
fn sharing_instance_without_a_seen_version_holds_the_undo() {
    for (is_silent, rotation) in [(true, Rotation::In), (false, Rotation::In), (false, Rotation::Out)] {
        let mut world = World::at_version_1(2);
        runs(&mut world, &scheduler(), 7, 1);
        world.start_with_schema(shared(json!({})), MigrateOrder::BeforeRoll);
        world.until_roll();
        world.roll_back();
        let (inventory, key) = (Key::Inventory(scheduler(), node(7)), Key::Report(scheduler(), node(7)));
        let Some((Value::Report(record), ..)) = world.store.keys.get(&key).cloned() else { panic!() };
        let admission = Revision::ABSENT;
        let report = Report { version: None, probed: None, admission, rotation, ..record.body };
        let commit = Commit::new().delete(inventory);
        let commit = if is_silent { commit.delete(key) } else { commit.put(key, report) };
        assert!(world.store.commit(&commit));
        if is_silent {
            world.store.put(Key::Reconciliation, with_listed(&scheduler(), &node(7)));
        }
        let last = world.run();
        let stays = rotation == Rotation::In;
        assert_eq!(world.database.expanded, stays, "silent: {is_silent}, {rotation:?}");
        let what = if is_silent { "scheduler: no report from n7" } else { "is not known on n7" };
        let is_named = |reason: &Reason| reason.to_string().contains(what);
        let reasons = last.waiting.get(&upgrade_id()).into_iter().flatten();
        assert_eq!(reasons.filter(|reason| is_named(reason)).count(), usize::from(stays), "{last:?}");
        runs(&mut world, &scheduler(), 7, 1);
        world.run();
        assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
        assert!(!world.database.expanded);
    }
}

/// What a person applied while this instance reported and was not admitted.
fn with_listed(service: &ServiceName, node: &NodeId) -> Reconciliation {
    Reconciliation {
        who: "op".into(),
        why: "lost".into(),
        at: Timestamp(0),
        terms: BTreeSet::new(),
        revision: Revision::ABSENT,
        floors: BTreeMap::new(),
        disregarded: BTreeMap::new(),
        listed: [(service.clone(), [node.clone()].into())].into(),
    }
}

fn waits_for_the_rollback() -> Reason {
    let (upgrade, service) = (of_scheduler(), scheduler());
    Reason::Schema(SchemaGate::SharedRollback { upgrade, service, version: version(2) })
}

/// Rolls back beside the rollback of the scheduler, at this step of it, and again once that has ended.
fn undo_waits_for_the_rollback(world: &mut World, step: RollbackStep, runs_at: i64) {
    scheduler_rolls_back(world, step);
    runs(world, &scheduler(), 7, runs_at);
    world.roll_back();
    let last = world.run();
    assert_eq!(last.waiting[&upgrade_id()], [waits_for_the_rollback()], "{step:?}");
    assert!(world.database.expanded, "{step:?}: an instance may still start version 2");
    scheduler_rolls_back(world, RollbackStep::Undo);
    runs(world, &scheduler(), 7, 1);
    world.run();
    assert!(!world.database.expanded, "{step:?}: no service uses it any more");
}

#[test]
fn undo_waits_until_a_sharing_service_is_rolled_back() {
    use RollbackStep::{Lower, Move, Restage};
    for (step, runs_at) in [(Restage, 2), (Move, 1), (Lower, 1)] {
        let mut world = World::at_version_1(2);
        runs(&mut world, &scheduler(), 7, 1);
        world.start_with_schema(shared(json!({})), MigrateOrder::BeforeRoll);
        world.until_roll();
        undo_waits_for_the_rollback(&mut world, step, runs_at);
        assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{step:?}: {:?}", world.phase());
    }
}

/// The upgrade had expanded the schema under a former store.
#[test]
fn undo_from_preflight_waits_for_a_sharing_rollback() {
    use RollbackStep::{Lower, Move, Restage};
    for (step, runs_at) in [(Restage, 2), (Move, 1), (Lower, 1)] {
        let mut world = World::at_version_1(2);
        runs(&mut world, &scheduler(), 7, 1);
        let spec = Spec { approvals: vec![ApprovalPoint::Stage], ..shared(json!({})) };
        world.start_with_schema(spec, MigrateOrder::BeforeRoll);
        world.run();
        assert_eq!(world.phase(), Phase::Preflight);
        world.database.expanded = true;
        undo_waits_for_the_rollback(&mut world, step, runs_at);
        assert!(matches!(world.phase(), Phase::Failed { .. }), "{step:?}: {:?}", world.phase());
    }
}

/// Another database took the place of the one that was expanded, or a former attempt had left the form.
#[test]
fn rollback_records_whether_the_form_was_left() {
    for (expanded, filled, by_another) in
        [(false, false, false), (true, false, false), (true, true, false), (true, true, true)]
    {
        let mut world = World::at_version_1(2);
        runs(&mut world, &scheduler(), 7, 1);
        world.start_with_schema(shared(json!({})), MigrateOrder::BeforeRoll);
        world.until_roll();
        runs(&mut world, &scheduler(), 7, 2);
        acknowledge(&mut world, &scheduler());
        world.roll_back();
        world.database = Database { expanded, filled, by_another, ..Database::default() };
        world.run();
        assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
        let schema = world.upgrade().unwrap().schema.clone().unwrap();
        assert_eq!((schema.form_left, schema.left.is_empty()), (expanded && filled, !expanded));
        assert_eq!(world.database.expanded, expanded, "what the scheduler uses stays");
    }
}

#[test]
fn sharing_service_is_not_upgraded_while_the_schema_is_undone() {
    let mut world = World::at_version_1(2);
    runs(&mut world, &scheduler(), 7, 1);
    world.start_with_schema(shared(json!({})), MigrateOrder::BeforeRoll);
    world.until_roll();
    let next = Spec { service: scheduler(), schema: None, ..shared(json!({})) };
    let holds = |world: &World| {
        let found = preflight::findings(world.store.fleet(), &next, None);
        found.iter().any(|finding| finding.blocks && finding.what.contains("rolls back the schema"))
    };
    assert!(!holds(&world));
    world.roll_back();
    assert!(holds(&world));
    world.run();
    assert!(!holds(&world), "{:?}", world.phase());
}

/// An upgrade of the sharing service was started while the form was there, and waits in preflight.
#[test]
fn sharing_upgrade_in_preflight_stays_once_the_form_is_gone() {
    for starts_later in [false, true] {
        let mut world = World::at_version_1(2);
        runs(&mut world, &scheduler(), 7, 1);
        world.start_with_schema(shared(json!({})), MigrateOrder::BeforeRoll);
        world.until_roll();
        let lock = |world: &mut World| {
            let next = Active { upgrade: "of-scheduler".parse().unwrap() };
            world.store.put(Key::Active(scheduler()), next);
        };
        if !starts_later {
            lock(&mut world);
        }
        world.roll_back();
        world.run();
        assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
        if starts_later {
            lock(&mut world);
        }
        let next = Spec { service: scheduler(), schema: None, ..shared(json!({})) };
        let found = preflight::findings(world.store.fleet(), &next, None);
        let stays = found.iter().any(|f| f.blocks && f.what.contains("has taken away the form"));
        assert_eq!(stays, !starts_later, "{found:?}");
    }
}

#[test]
fn rollback_leaves_the_floor_of_others_that_a_release_needs() {
    let mut world = World::at_version_1(2);
    world.start_with_schema(shared(json!({"empty": ["scheduler"]})), MigrateOrder::BeforeRoll);
    world.until_roll();
    // It went out against the floor that the upgrade had set.
    let holder = json!({"minimum": 2, "revision": 1, "tag": "compute-1", "version": 1, "hold": "deployed"});
    let need: Need = serde_json::from_value(json!({"streams": {"compute": holder}})).unwrap();
    world.store.put(Key::Need(scheduler()), need);
    world.roll_back();
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
    assert_eq!(window(&world, &scheduler()), Some((2, ServiceVersion::MAX.get())));
    let fleet = world.store.fleet();
    let left = fleet.service(&scheduler()).and_then(|of| of.window()).unwrap();
    assert!(left.record.body.follows_needs(), "no upgrade bounds it any more: {left:?}");
}

/// Each of them may need the floor that the upgrade had set.
#[test]
fn unreadable_need_or_schema_keeps_a_rollback_from_its_end() {
    let elsewhere = Key::Schema("shared".parse().unwrap());
    for key in [Key::Need(scheduler()), elsewhere] {
        let mut world = World::at_version_1(2);
        world.contract_elsewhere(1);
        world.store.put(Key::Need(scheduler()), Need::default());
        world.start_with_schema(shared(json!({"empty": ["scheduler"]})), MigrateOrder::BeforeRoll);
        world.until_roll();
        world.roll_back();
        world.store.spoil(&key);
        let last = world.run();
        let reasons = &last.waiting[&upgrade_id()];
        assert!(reasons.iter().any(|reason| reason.to_string().contains(&key.to_string())), "{reasons:?}");
        assert!(matches!(world.phase(), Phase::RollingBack { .. }), "{key}: {:?}", world.phase());
        world.store.rebuild();
        world.run();
        assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{key}: {:?}", world.phase());
        assert_eq!(window(&world, &scheduler()), Some((1, ServiceVersion::MAX.get())), "{key}");
    }
}
