//! An upgrade whose new version uses the form that the upgrade of another service makes of a shared schema: while that form
//! is missing, or is being taken away, its roll drains no instance.

use super::scheduler;
use crate::sim::{World, binding, node, release, service, spec, upgrade_id};
use serde_json::json;
use std::collections::BTreeMap;
use tidegate_planner::gate::{MissingForm, SchemaGate, Waits, preflight};
use tidegate_planner::{Action, LookedFor, Plan, Reason, SchemaFacts, SchemaJob, plan};
use tidegate_proto::commit::{Commit, Write};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::active::Active;
use tidegate_proto::record::schema::Schema;
use tidegate_proto::record::upgrade::{
    MigrateOrder, Pause, Phase, PhaseName, PhaseTime, RollbackStep, SchemaBinding,
};
use tidegate_proto::value::ActiveSchema;
use tidegate_proto::{Digest, Key, UpgradeId};

fn of_scheduler() -> UpgradeId {
    "of-scheduler".parse().unwrap()
}

/// An upgrade with this id, of a service that shares its schema with ours, is in this phase.
fn is_in(world: &mut World, id: &UpgradeId, phase: Phase, form_left: bool) {
    let mut body = world.upgrade().unwrap().clone();
    let schema =
        json!({"database": {"from_env": "PANTRY"}, "migrations": "pantry", "shared_with": {"pantry-api": 2}});
    body.spec.service = scheduler();
    body.spec.schema = Some(serde_json::from_value(schema).unwrap());
    body.schema = Some(SchemaBinding { form_left, ..binding(MigrateOrder::BeforeRoll) });
    let left =
        [PhaseName::Preflight, PhaseName::Stage, PhaseName::Expand, PhaseName::Migrate, PhaseName::Roll];
    let left = left.into_iter().take_while(|left| *left != phase.name());
    body.timetable = left.map(|phase| PhaseTime { phase, ms: 0 }).collect();
    body.phase = phase;
    world.store.put(Key::Upgrade(id.clone()), body);
}

/// The upgrade of the other service is in this phase.
fn other_is_in(world: &mut World, phase: Phase) {
    is_in(world, &of_scheduler(), phase, false);
}

/// The other service is upgraded once more, which is in this phase now.
fn is_made_again(world: &mut World, phase: Phase, form_left: bool) {
    let id: UpgradeId = "again".parse().unwrap();
    is_in(world, &id, phase, form_left);
    let services: BTreeMap<_, _> =
        [(scheduler(), release(2).version), ("pantry-api".parse().unwrap(), release(2).version)].into();
    let migrations = Digest::of(b"migrations");
    let schema = Schema { services, contracted: BTreeMap::new(), migrations, upgrade: id };
    world.store.put(Key::Schema("s1".parse().unwrap()), schema);
}

fn rolling_back() -> Phase {
    Phase::RollingBack { from: PhaseName::Remove, step: RollbackStep::Move, because: "regret".into() }
}

fn rolled_back() -> Phase {
    Phase::RolledBack { because: "regret".into() }
}

fn waits(missing: MissingForm) -> Reason {
    let (upgrade, version) = (of_scheduler(), release(2).version);
    Reason::Schema(SchemaGate::SharedForm { upgrade, version, missing, rollback_path: true })
}

/// Three instances at version 1, and an upgrade in the roll that has drained none.
fn in_the_roll() -> World {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    world.until_roll();
    world
}

#[test]
fn roll_waits_while_another_upgrade_rolls_back_its_form() {
    let mut world = in_the_roll();
    other_is_in(&mut world, rolling_back());
    assert_eq!(world.run().waiting[&upgrade_id()], [waits(MissingForm::RollingBack)]);
    assert_eq!((world.versions(), world.min_seen_in_service), (vec![1; 3], 3), "nothing was drained");
    // The form was left in place.
    is_in(&mut world, &of_scheduler(), rolled_back(), true);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn drained_instance_returns_once_its_form_is_rolled_back() {
    let mut world = in_the_roll();
    world.until("one is drained", |world| world.really_in_service() == 2);
    other_is_in(&mut world, rolling_back());
    world.run();
    assert_eq!((world.versions(), world.really_in_service()), (vec![1; 3], 3));
}

#[test]
fn roll_goes_on_once_the_form_is_made_again() {
    let mut world = in_the_roll();
    other_is_in(&mut world, rolled_back());
    let last = world.run();
    assert_eq!(last.waiting[&upgrade_id()], [waits(MissingForm::RolledBack)]);
    let explained = last.waiting[&upgrade_id()][0].explained(Waits::Upgrade(&upgrade_id()));
    assert_eq!(explained.next_step.as_deref(), Some("tidegate upgrade rollback u1 --why …"));
    for phase in [Phase::Stage, Phase::Expand, Phase::Migrate, rolled_back()] {
        is_made_again(&mut world, phase.clone(), false);
        world.run();
        assert_eq!(world.versions(), [1; 3], "{phase:?}");
    }
    is_made_again(&mut world, rolled_back(), true);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

/// It may have taken the form away, or be about to.
#[test]
fn unreadable_upgrade_of_a_shared_schema_holds_the_roll() {
    for (phase, has_lock) in [(rolling_back(), true), (rolled_back(), false)] {
        let mut world = in_the_roll();
        is_made_again(&mut world, phase.clone(), false);
        let upgrade: UpgradeId = "again".parse().unwrap();
        if has_lock {
            let lock = ActiveSchema(Active { upgrade: upgrade.clone() });
            world.store.put(Key::ActiveSchema("s1".parse().unwrap()), lock);
        }
        let key = Key::Upgrade(upgrade);
        world.store.spoil(&key);
        let last = world.run();
        let reasons = &last.waiting[&upgrade_id()];
        assert!(reasons.iter().any(|reason| reason.to_string().contains(&key.to_string())), "{reasons:?}");
        assert_eq!((world.versions(), world.min_seen_in_service), (vec![1; 3], 3), "{phase:?}");
        world.store.rebuild();
        is_made_again(&mut world, rolled_back(), true);
        world.run();
        assert_eq!(world.phase(), Phase::Completed);
    }
}

/// It belongs to no service that shares a schema with ours, or was over when our upgrade was started.
#[test]
fn unreadable_upgrade_of_no_shared_form_holds_no_roll() {
    for shares in [false, true] {
        let mut world = World::at_version_1(3);
        world.start(spec(json!({}))).unwrap();
        is_in(&mut world, &of_scheduler(), Phase::Completed, false);
        if shares {
            is_made_again(&mut world, Phase::Completed, false);
            world.store.put(Key::Active(service()), Active { upgrade: upgrade_id() });
        }
        world.store.spoil(&Key::Upgrade(of_scheduler()));
        world.run();
        assert_eq!(world.phase(), Phase::Completed, "a schema is shared: {shares}");
    }
}

#[test]
fn rollback_before_the_form_was_made_holds_no_roll() {
    let mut world = in_the_roll();
    let because = "regret".to_owned();
    let phase = Phase::RollingBack { from: PhaseName::Expand, step: RollbackStep::Move, because };
    other_is_in(&mut world, phase);
    let mut body = world.store.fleet().upgrade(&of_scheduler()).unwrap().record.body.clone();
    body.timetable.retain(|part| !matches!(part.phase, PhaseName::Migrate | PhaseName::Roll));
    world.store.put(Key::Upgrade(of_scheduler()), body);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn roll_waits_while_a_database_lacks_the_shared_form() {
    let whole = SchemaFacts { expanded: true, filled: true, ..SchemaFacts::default() };
    let unfilled = SchemaFacts { filled: false, ..whole.clone() };
    let without_baseline = SchemaFacts { unfinished: Some("0001_it".to_owned()), ..whole.clone() };
    let unclaimed = SchemaFacts { unclaimed: true, ..SchemaFacts::default() };
    let trouble = Some("connection refused".to_owned());
    let away = SchemaFacts { trouble, ..SchemaFacts::default() };
    let remove = || Phase::Remove;
    let roll = || Phase::Roll { wave: 0 };
    for (phase, is_seen, facts, is_held) in [
        (remove(), true, SchemaFacts::default(), true),
        (remove(), true, unfilled.clone(), true),
        (remove(), false, unclaimed.clone(), true),
        (remove(), true, without_baseline, true),
        (remove(), true, whole.clone(), false),
        // The fill that runs has looked since.
        (remove(), true, SchemaFacts { filled_before_job: Some(false), ..whole.clone() }, true),
        (remove(), true, SchemaFacts { filled_before_job: Some(true), ..unfilled.clone() }, false),
        (remove(), false, away, false),
        (roll(), true, unfilled, true),
        (roll(), true, whole, false),
        // It has not made the form yet: our new version may run on the former one.
        (Phase::Expand, false, unclaimed, false),
    ] {
        let mut world = in_the_roll();
        other_is_in(&mut world, phase.clone());
        let other = world.store.fleet().upgrade(&of_scheduler()).unwrap();
        let looked_for = is_seen.then(|| LookedFor::of(other));
        let mut moment = world.moment();
        moment.schemas.insert(of_scheduler(), SchemaFacts { looked_for, ..facts.clone() });
        let waiting = plan(world.store.fleet(), &moment).waiting;
        assert_eq!(
            waiting[&upgrade_id()].contains(&waits(MissingForm::Lost)),
            is_held,
            "{phase:?}: {facts:?}"
        );
    }
}

/// Another leader has not looked at the database of that upgrade yet, or the last look failed.
#[test]
fn roll_waits_until_the_database_of_its_form_is_seen() {
    let mut world = in_the_roll();
    other_is_in(&mut world, Phase::Roll { wave: 0 });
    world.store.put(Key::Active(scheduler()), Active { upgrade: of_scheduler() });
    let last = world.run();
    let is_named = |reasons: &[Reason], why: &str| {
        let why = format!("of upgrade of-scheduler: {why}");
        reasons.iter().any(|reason| reason.to_string().contains(&why))
    };
    assert!(is_named(&last.waiting[&upgrade_id()], "it is being looked at"), "{:?}", last.waiting);
    assert_eq!((world.versions(), world.min_seen_in_service), (vec![1; 3], 3), "nothing was drained");
    let looked_for = Some(LookedFor::of(world.store.fleet().upgrade(&of_scheduler()).unwrap()));
    let seen = SchemaFacts { looked_for, expanded: true, filled: true, ..SchemaFacts::default() };
    let away = SchemaFacts { trouble: Some("connection refused".to_owned()), ..SchemaFacts::default() };
    for (facts, is_held) in [(away, true), (seen, false)] {
        let mut moment = world.moment();
        moment.schemas.insert(of_scheduler(), facts);
        let waiting = plan(world.store.fleet(), &moment).waiting;
        assert_eq!(is_named(&waiting[&upgrade_id()], ""), is_held, "{waiting:?}");
    }
}

/// One of its instances is unhealthy, and is not moved before that look.
#[test]
fn wait_for_the_database_of_its_form_is_no_stall() {
    let mut world = in_the_roll();
    other_is_in(&mut world, Phase::Roll { wave: 0 });
    world.store.put(Key::Active(scheduler()), Active { upgrade: of_scheduler() });
    world.set_unready(&node(0), true);
    world.run();
    let written = |world: &World| world.store.keys[&Key::Upgrade(upgrade_id())].1;
    let before = written(&world);
    world.stalled_ms = 5_000;
    world.turn();
    assert!(written(&world) > before, "the count begins again");
    assert_eq!(world.upgrade().unwrap().stalled_ms, 0);
}

/// The job had looked at the database before it began; a look that fails, by contrast, is none.
#[test]
fn failed_job_on_the_database_of_its_form_holds_no_roll() {
    let trouble = Some("a row breaks a constraint".to_owned());
    for (phase, filled_before_job, is_held) in [
        (Phase::Migrate, Some(false), false),
        (Phase::Remove, Some(true), false),
        (Phase::Remove, Some(false), true),
        (Phase::Remove, None, true),
    ] {
        let mut world = in_the_roll();
        other_is_in(&mut world, phase.clone());
        world.store.put(Key::Active(scheduler()), Active { upgrade: of_scheduler() });
        let mut moment = world.moment();
        let facts = SchemaFacts { trouble: trouble.clone(), filled_before_job, ..SchemaFacts::default() };
        moment.schemas.insert(of_scheduler(), facts);
        let waiting = plan(world.store.fleet(), &moment).waiting;
        let names_it = |reason: &Reason| reason.to_string().contains("upgrade of-scheduler");
        assert_eq!(waiting[&upgrade_id()].iter().any(names_it), is_held, "{phase:?}: {waiting:?}");
    }
}

/// An instance that was away comes back at the former version after the last wave.
#[test]
fn straggler_is_not_moved_while_its_form_is_not_seen() {
    let mut world = in_the_roll();
    world.until("it removes", |world| world.phase() == Phase::Remove);
    other_is_in(&mut world, Phase::Roll { wave: 0 });
    world.store.put(Key::Active(scheduler()), Active { upgrade: of_scheduler() });
    let names_it = |plan: &Plan| {
        let mut reasons = plan.waiting.get(&upgrade_id()).into_iter().flatten();
        reasons.any(|reason| reason.to_string().contains("the database of upgrade of-scheduler"))
    };
    let before = plan(world.store.fleet(), &world.moment());
    let look = Action::Schema { upgrade: of_scheduler(), job: SchemaJob::Look };
    assert!(before.actions.contains(&look), "{:?}", before.actions);
    assert!(!names_it(&before), "no instance is to be moved: {:?}", before.waiting);

    // Every instance gets its last directive, so that none is to be replaced any more.
    world.turn();
    world.fall_silent(1);
    world.return_with(&node(1), 1);
    let last = world.run();
    assert!(names_it(&last), "{:?}", last.waiting);
    assert_eq!(world.versions(), [2, 1, 2]);
    let is_order = |write: &Write| matches!(write, Write::Put(Key::Directive(_, n), _) if *n == node(1));
    for (expanded, is_held) in [(false, true), (true, false)] {
        let looked_for = Some(LookedFor::of(world.store.fleet().upgrade(&of_scheduler()).unwrap()));
        let seen = SchemaFacts { looked_for, expanded, filled: true, ..SchemaFacts::default() };
        let mut moment = world.moment();
        moment.schemas.insert(of_scheduler(), seen);
        let planned = plan(world.store.fleet(), &moment);
        assert_eq!(names_it(&planned), is_held, "{:?}", planned.waiting);
        let orders =
            |action: &Action| matches!(action, Action::Commit(it) if it.commit.writes.iter().any(is_order));
        assert_eq!(planned.actions.iter().any(orders), !is_held, "{:?}", planned.actions);
    }
}

/// It waits in remove, for instances or for a person, and the roll goes by its database.
#[test]
fn database_is_looked_at_again_for_another_roll() {
    let looks = |world: &World, leading_ms: u64| {
        let other = world.store.fleet().upgrade(&of_scheduler()).unwrap();
        let looked_for = Some(LookedFor::of(other));
        let seen = SchemaFacts { looked_for, expanded: true, filled: true, ..SchemaFacts::default() };
        let mut moment = world.moment();
        moment.leading_ms = leading_ms;
        moment.schemas.insert(of_scheduler(), seen);
        let look = Action::Schema { upgrade: of_scheduler(), job: SchemaJob::Look };
        plan(world.store.fleet(), &moment).actions.contains(&look)
    };
    let other_is_active = |world: &mut World| {
        world.store.put(Key::Active(scheduler()), Active { upgrade: of_scheduler() });
        other_is_in(world, Phase::Remove);
    };
    let mut early = World::at_version_1(3);
    early.start(spec(json!({}))).unwrap();
    other_is_active(&mut early);
    assert!(!looks(&early, 60_000), "no roll goes by it yet");
    let mut world = in_the_roll();
    other_is_active(&mut world);
    assert!(!looks(&world, 59_999), "the last look is recent");
    assert!(looks(&world, 60_000));
    let mut body = world.store.fleet().upgrade(&of_scheduler()).unwrap().record.body.clone();
    body.paused = Some(Pause { who: "op".into(), why: "lunch".into(), at: Timestamp(0) });
    world.store.put(Key::Upgrade(of_scheduler()), body);
    assert!(looks(&world, 60_000), "also while it is paused");
    other_is_in(&mut world, Phase::Expand);
    assert!(!looks(&world, 60_000), "it has not made the form yet");
}

#[test]
fn form_that_was_left_in_place_blocks_no_preflight() {
    let mut world = World::at_version_1(2);
    world.start(spec(json!({}))).unwrap();
    for form_left in [false, true] {
        is_in(&mut world, &of_scheduler(), rolled_back(), form_left);
        let found = preflight::findings(world.store.fleet(), &spec(json!({})), None);
        let stays = found.iter().any(|f| f.blocks && f.what.contains("has taken away the form"));
        assert_eq!(stays, !form_left, "{found:?}");
    }
}

/// Also by a dry run, for which nothing is started yet.
#[test]
fn preflight_names_an_unreadable_upgrade_of_the_schema() {
    let key = Key::Upgrade("again".parse().unwrap());
    for is_started in [false, true] {
        let mut world = World::at_version_1(2);
        world.start(spec(json!({}))).unwrap();
        is_made_again(&mut world, rolling_back(), false);
        let lock = ActiveSchema(Active { upgrade: "again".parse().unwrap() });
        world.store.put(Key::ActiveSchema("s1".parse().unwrap()), lock);
        if !is_started {
            assert!(world.store.commit(&Commit::new().delete(Key::Active(service()))));
        }
        world.store.spoil(&key);
        let found = preflight::findings(world.store.fleet(), &spec(json!({})), None);
        let names_it = found.iter().any(|f| f.blocks && f.what.contains(&key.to_string()));
        assert!(names_it, "started: {is_started}: {found:?}");
    }
}
