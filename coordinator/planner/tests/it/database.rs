//! No decision rests on an old look at the database: rows come late, it is replaced by an older copy, or it is away.

mod properties;

use crate::sim::{Database, World, binding, node, release, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::{self, Asker, RefusalKind, RollbackBar};
use tidegate_planner::gate::{PersonGate, SchemaGate, Waits};
use tidegate_planner::{Action, Plan, Reason, SchemaJob};
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::upgrade::{MigrateOrder, Phase, SchemaBinding};
use tidegate_proto::spec::{ApprovalPoint, Spec};
use tidegate_proto::{Value, Write};

fn with_schema(change: serde_json::Value) -> Spec {
    let mut all = json!({"schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"}});
    all.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    spec(all)
}

fn started(change: serde_json::Value, order: MigrateOrder) -> World {
    let mut world = World::at_version_1(3);
    world.start_with_schema(with_schema(change), order);
    world
}

fn asker() -> Asker {
    Asker { who: "op".into(), why: "why".into(), accepts: Default::default() }
}

/// Whether a plan takes an instance out of rotation.
fn drains(plan: &Plan) -> bool {
    let commits = plan.actions.iter().filter_map(|action| match action {
        Action::Commit(planned) => Some(&planned.commit),
        _ => None,
    });
    let mut writes = commits.flat_map(|commit| &commit.writes);
    writes.any(|write| {
        matches!(write, Write::Put(_, Value::Directive(d)) if d.body.disposition == Disposition::Drain)
    })
}

fn lost(job: &str) -> Reason {
    let (from, to) = (release(1).version, release(2).version);
    let (job, from_env) = (job.to_owned(), "PANTRY".to_owned());
    Reason::Schema(SchemaGate::SchemaLost { job, from, to, from_env, rollback_path: true })
}

#[test]
fn rows_that_come_in_the_roll_are_filled_in_remove() {
    let mut world = started(json!({}), MigrateOrder::BeforeRoll);
    world.until_roll();
    world.database.late_rows = 1;
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
}

#[test]
fn rows_written_during_certification_are_filled_in_remove() {
    let mut world = started(json!({"approvals": ["contract"]}), MigrateOrder::BeforeRoll);
    world.run();
    assert_eq!(world.phase(), Phase::Remove);
    let word =
        ask::approve(world.store.fleet(), &world.moment(), &upgrade_id(), ApprovalPoint::Contract, &asker());
    assert!(world.store.commit(&word.unwrap()));
    world.events += 1;
    world.turn();
    world.database.late_rows = 2;
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
}

#[test]
fn rows_that_come_after_the_certificate_are_filled_in_contract() {
    let mut world = started(json!({}), MigrateOrder::BeforeRoll);
    world.until("it contracts", |world| matches!(world.phase(), Phase::Contract { .. }));
    world.database.late_rows = 2;
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
}

#[test]
fn restored_database_before_roll_blocks_first_drain() {
    for (order, job, older) in [
        (MigrateOrder::BeforeRoll, "expand", Database::default()),
        (MigrateOrder::BeforeRoll, "migrate", Database { expanded: true, ..Database::default() }),
        (MigrateOrder::AfterRoll, "expand", Database::default()),
    ] {
        let mut world = started(json!({}), order);
        world.until_roll();
        let migrated = std::mem::replace(&mut world.database, older);
        let last = world.run();
        assert_eq!(last.waiting[&upgrade_id()], [lost(job)]);
        assert_eq!(world.versions(), [1; 3], "{order:?}");
        assert_eq!(world.min_seen_in_service, 3, "nothing was drained");
        world.database = migrated;
        world.run();
        assert_eq!(world.phase(), Phase::Completed);
    }
}

#[test]
fn restored_database_blocks_next_wave_but_not_rollback() {
    let mut world = started(json!({}), MigrateOrder::BeforeRoll);
    world.until("the first wave has passed", |world| matches!(world.phase(), Phase::Roll { wave: 1 }));
    world.database = Database::default();
    let last = world.run();
    assert_eq!(last.waiting[&upgrade_id()], [lost("expand")]);
    assert_eq!(world.versions().iter().filter(|version| **version == 2).count(), 1);
    let explained = last.waiting[&upgrade_id()][0].explained(Waits::Upgrade(&upgrade_id()));
    assert_eq!(explained.next_step.as_deref(), Some("tidegate upgrade rollback u1 --why …"));
    world.roll_back();
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
    assert_eq!(world.versions(), [1; 3]);
}

/// One wave of three, in the middle: one instance is at version 2.
fn one_of_three_in_one_wave() -> World {
    let mut world = started(json!({"strategy": {"rolling": {"batch": 3}}}), MigrateOrder::BeforeRoll);
    world.until("one is upgraded", |world| world.versions().contains(&2) && world.really_in_service() == 3);
    world
}

#[test]
fn an_older_copy_within_one_wave_stops_the_next_drain() {
    for (later, stops) in [(59_000, false), (60_000, true)] {
        let mut world = one_of_three_in_one_wave();
        world.database = Database::default();
        world.leading_ms += later;
        let last = world.run();
        let moved = world.versions().iter().filter(|version| **version == 2).count();
        assert_eq!(last.waiting[&upgrade_id()], [lost("expand")]);
        assert_eq!(moved, if stops { 1 } else { 3 }, "after {later} ms");
    }
}

#[test]
fn the_database_is_looked_at_again_after_a_resume() {
    let mut world = one_of_three_in_one_wave();
    let pause = ask::pause(world.store.fleet(), &world.moment(), &upgrade_id(), &asker()).unwrap();
    assert!(world.store.commit(&pause));
    world.events += 1;
    world.database = Database::default();
    world.resume();
    let last = world.run();
    assert_eq!(last.waiting[&upgrade_id()], [lost("expand")]);
    assert_eq!(world.versions().iter().filter(|version| **version == 2).count(), 1);
}

/// The look before its drain holds no longer, or another leader knows nothing of the database: either looks before the stop.
#[test]
fn an_older_copy_recalls_what_is_drained_and_not_stopped() {
    for is_elected in [false, true] {
        let mut world = started(json!({}), MigrateOrder::BeforeRoll);
        world.until("one is drained", |world| {
            world.store.fleet().service(&crate::sim::service()).unwrap().instances().any(|i| i.is_drained())
        });
        world.database = Database::default();
        if is_elected {
            world.elect(2);
            world.facts = None;
        } else {
            world.leading_ms += 60_000;
        }
        let last = world.run();
        assert_eq!(last.waiting[&upgrade_id()], [lost("expand")]);
        assert_eq!((world.versions(), world.really_in_service()), (vec![1; 3], 3));
    }
}

#[test]
fn an_older_copy_after_the_roll_stops_remove_and_contract() {
    for (phase, order) in [("remove", MigrateOrder::BeforeRoll), ("migrate", MigrateOrder::AfterRoll)] {
        let mut world = started(json!({}), order);
        world.until(phase, |world| world.phase().name().word() == phase);
        world.database = Database::default();
        let last = world.run();
        assert_eq!(last.waiting[&upgrade_id()], [lost("expand")], "{phase}");
        assert_eq!(world.phase().name().word(), phase);
        assert_eq!(world.certificate, None);
    }
}

#[test]
fn restored_database_without_rollback_lists_migrations() {
    for (phase, old_reads_migrated, bar) in [
        ("roll", false, RollbackBar::Rows),
        ("remove", false, RollbackBar::Rows),
        ("contract", true, RollbackBar::Contract),
    ] {
        let mut world = World::at_version_1(3);
        let bound = SchemaBinding { old_reads_migrated, ..binding(MigrateOrder::BeforeRoll) };
        world.start_bound(with_schema(json!({})), bound).unwrap();
        world.until(phase, |world| world.phase().name().word() == phase);
        world.database = Database::default();
        let last = world.run();
        let explained = last.waiting[&upgrade_id()][0].explained(Waits::Upgrade(&upgrade_id()));
        let again = "tidegate schema expand --from 1 --to 2 --made-by u1 --migrations DIR --from-env PANTRY, then tidegate schema migrate --from 1 --to 2 --made-by u1 --migrations DIR --from-env PANTRY";
        assert_eq!(
            (explained.kind.as_str(), explained.next_step.as_deref()),
            ("schema-lost", Some(again)),
            "{phase}"
        );
        let refused = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker());
        assert_eq!(refused.unwrap_err().kind, RefusalKind::Rollback(bar), "so a rollback is not what helps");
        (world.database.expanded, world.database.filled) = (true, true);
        world.run();
        assert_eq!(world.phase(), Phase::Completed, "{phase}");
    }
}

/// It comes back with the former version when the last look is old.
#[test]
fn straggler_is_not_moved_onto_an_older_copy() {
    for (phase, order, approvals) in [
        ("migrate", MigrateOrder::AfterRoll, json!(["remove"])),
        ("remove", MigrateOrder::BeforeRoll, json!(["contract"])),
        ("contract", MigrateOrder::BeforeRoll, json!([])),
    ] {
        let mut world = started(json!({"approvals": approvals}), order);
        world.until(phase, |world| world.phase().name().word() == phase);
        if phase != "contract" {
            world.run();
        }
        let migrated = std::mem::take(&mut world.database);
        world.leading_ms += 60_000;
        world.join(3, 1);
        world.return_with(&node(3), 1);
        let last = world.run();
        let is_lost = last.waiting[&upgrade_id()].iter().any(|reason| reason.kind() == "schema-lost");
        assert!(is_lost && world.phase().name().word() == phase, "{phase}: {:?}", last.waiting);
        assert_eq!(world.versions(), [2, 2, 2, 1], "{phase}");
        world.database = migrated;
        let last = world.run();
        assert_eq!(world.versions(), [2; 4], "{phase}: {:?}", last.waiting);
    }
}

const UNFINISHED: &str = "migration 0001_it is of version 1, and the history does not show it";

/// An older copy, which was made before the upgrade before this one.
#[test]
fn lost_baseline_stops_each_phase_and_names_its_commands() {
    for phase in ["expand", "migrate", "roll", "remove", "contract"] {
        let mut world = started(json!({}), MigrateOrder::BeforeRoll);
        world.until(phase, |world| world.phase().name().word() == phase);
        let (versions, is_certified) = (world.versions(), world.certificate.is_some());
        world.database.unfinished = Some(UNFINISHED.to_owned());
        let last = world.run();
        let explained = last.waiting[&upgrade_id()][0].explained(Waits::Upgrade(&upgrade_id()));
        assert!(explained.blocked_on.contains(UNFINISHED), "{explained:?}");
        let again = "tidegate schema expand --to 1 --migrations DIR --from-env PANTRY, then tidegate schema migrate --to 1 --migrations DIR --from-env PANTRY";
        assert_eq!(
            (explained.kind.as_str(), explained.next_step.as_deref()),
            ("baseline-lost", Some(again)),
            "{phase}"
        );
        assert_eq!((world.phase().name().word(), world.versions()), (phase, versions));
        assert_eq!((world.really_in_service(), world.certificate.is_some()), (3, is_certified), "{phase}");
        world.database.unfinished = None;
        world.run();
        assert_eq!(world.phase(), Phase::Completed, "{phase}");
    }
}

#[test]
fn rollback_ends_over_a_lost_baseline() {
    let mut world = started(json!({}), MigrateOrder::BeforeRoll);
    world.until("the first wave has passed", |world| matches!(world.phase(), Phase::Roll { wave: 1 }));
    world.database.unfinished = Some(UNFINISHED.to_owned());
    world.run();
    assert_eq!(world.versions().iter().filter(|version| **version == 2).count(), 1);
    world.roll_back();
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
    assert_eq!(world.versions(), [1; 3]);
}

/// Rows are filled after the roll: who falls silent meanwhile is unknown, and nothing old is removed.
#[test]
fn remove_does_not_begin_over_one_that_fell_silent_in_migrate() {
    let mut world = started(json!({"approvals": ["remove"]}), MigrateOrder::AfterRoll);
    world.until("migrate", |world| world.phase().name().word() == "migrate");
    world.run();
    world.fall_silent(1);
    let approve = |world: &World| {
        ask::approve(world.store.fleet(), &world.moment(), &upgrade_id(), ApprovalPoint::Remove, &asker())
    };
    let refused = approve(&world).unwrap_err();
    assert!(refused.message.contains("no report from n1"), "{refused}");
    assert_eq!(world.phase().name().word(), "migrate");
    world.agents.get_mut(&node(1)).unwrap().alive = true;
    world.publish(&node(1));
    world.run();
    let commit = approve(&world).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn a_database_that_is_away_holds_drains_and_no_rollback() {
    let mut world = started(json!({}), MigrateOrder::BeforeRoll);
    world.until("the first wave has passed", |world| matches!(world.phase(), Phase::Roll { wave: 1 }));
    world.database.away = true;
    let last = world.run();
    let trouble =
        Reason::Schema(SchemaGate::SchemaTrouble { job: "look".into(), why: "connection refused".into() });
    assert_eq!(last.waiting[&upgrade_id()], [trouble]);
    assert_eq!(world.versions().iter().filter(|version| **version == 2).count(), 1);
    world.roll_back();
    world.run();
    assert_eq!((world.versions(), world.really_in_service()), (vec![1; 3], 3), "instances are rolled back");
    assert_eq!(world.phase().name().word(), "rolling-back", "undo waits for the database");
    world.database.away = false;
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
}

#[test]
fn the_database_is_looked_at_again_after_an_approval() {
    let mut world = started(json!({"approvals": ["roll"]}), MigrateOrder::BeforeRoll);
    let last = world.run();
    assert_eq!(
        last.waiting[&upgrade_id()],
        [Reason::Person(PersonGate::Approval { point: ApprovalPoint::Roll })]
    );
    world.database = Database::default();
    let word =
        ask::approve(world.store.fleet(), &world.moment(), &upgrade_id(), ApprovalPoint::Roll, &asker());
    assert!(world.store.commit(&word.unwrap()));
    world.events += 1;
    let last = world.run();
    assert_eq!((world.phase(), &last.waiting[&upgrade_id()][..]), (Phase::Migrate, &[lost("expand")][..]));
}

#[test]
fn a_wave_costs_one_look() {
    let mut world = started(json!({}), MigrateOrder::BeforeRoll);
    world.until_roll();
    let before = world.jobs.len();
    world.until("remove", |world| world.phase() == Phase::Remove);
    assert_eq!(world.jobs[before..], [SchemaJob::Look; 3], "three waves of one");
}

/// An older copy takes the place of the database while an instance is waited for at the end; this later it is well again.
fn replaced_in_the_last_wait(world: &mut World, older: Database, later_ms: u64) {
    world.set_unready(&node(1), true);
    let last = world.run();
    assert!(!world.phase().is_over(), "{:?}", last.waiting);
    world.database = older;
    world.leading_ms += later_ms;
    world.set_unready(&node(1), false);
    let last = world.run();
    assert!(world.phase().is_over(), "{:?}", last.waiting);
}

#[test]
fn rollback_looks_again_after_waiting_for_instances() {
    for (later_ms, is_undone) in [(999, false), (1_000, true)] {
        let mut world = started(json!({"approvals": ["remove"]}), MigrateOrder::BeforeRoll);
        world.run();
        world.roll_back();
        world.until("expand is undone", |world| !world.database.expanded);
        let older = Database { expanded: true, ..Database::default() };
        replaced_in_the_last_wait(&mut world, older, later_ms);
        assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
        assert_eq!(!world.database.expanded, is_undone, "after {later_ms} ms");
    }
}

#[test]
fn contract_looks_again_after_waiting_for_instances() {
    for (later_ms, is_contracted) in [(999, false), (1_000, true)] {
        let mut world = started(json!({}), MigrateOrder::BeforeRoll);
        world.until("it is contracted", |world| world.database.contracted);
        let older = Database { contracted: false, ..world.database.clone() };
        replaced_in_the_last_wait(&mut world, older, later_ms);
        assert_eq!(world.phase(), Phase::Completed);
        assert_eq!(world.database.contracted, is_contracted, "after {later_ms} ms");
    }
}
