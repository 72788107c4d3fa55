//! What is out of rotation is replaced without budget. It may come back before its agent obeys, and then it is not taken
//! out beyond capacity.

use crate::sim::{World, node, release, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::Action;
use tidegate_planner::ask::{self, Asker};
use tidegate_proto::record::directive::{Directive, Disposition};
use tidegate_proto::record::report::{Health, Rotation, Step};
use tidegate_proto::record::upgrade::{Phase, RollbackStep};
use tidegate_proto::{Commit, InstanceId, Key, Precondition, Revision, Value, Write};

/// A roll of four instances; three must stay in service. The third is in maintenance, and it is ordered to be replaced.
fn replacing_what_a_person_keeps_out() -> World {
    let mut world = World::at_version_1(4);
    let change = json!({"strategy": "immediate", "max_unavailable": 1, "min_in_service": 3});
    world.start(spec(change)).unwrap();
    world.until_roll();
    set_rotation(&mut world, 2, Rotation::Maintenance);
    until_ordered(&mut world, 2);
    world
}

/// Turns until the third is to be replaced with this version; its agent has not seen that.
fn until_ordered(world: &mut World, version: u32) {
    let of_version = |d: &Directive| matches!(&d.disposition, Disposition::Replace { release } if release.version.get() == version);
    let is_ordered = |world: &World| directive(world, 2).as_ref().is_some_and(of_version);
    for _ in 0..100 {
        world.turn();
        if is_ordered(world) {
            return;
        }
        world.agents_step();
    }
    panic!("it is not ordered: {:?}", directive(world, 2));
}

fn set_rotation(world: &mut World, n: usize, rotation: Rotation) {
    let agent = world.agents.get_mut(&node(n)).unwrap();
    (agent.report.rotation, agent.idle) = (rotation, None);
    world.publish(&node(n));
}

fn directive(world: &World, n: usize) -> Option<Directive> {
    let instance = world.store.fleet().service(&service())?.get(&node(n))?;
    instance.directive.as_ref().map(|stored| stored.record.body.clone())
}

/// The person lets it in and another one fails, so that all others must stay; its agent reads the order then. How many are
/// in service from there on, at least.
fn comes_back_beside_a_failure(world: &mut World) -> usize {
    set_rotation(world, 2, Rotation::In);
    world.set_unready(&node(0), true);
    world.min_seen_in_service = usize::MAX;
    world.agent_step(&node(2));
    world.run();
    world.min_seen_in_service
}

#[test]
fn instance_that_came_back_is_not_replaced_without_budget() {
    let mut world = replacing_what_a_person_keeps_out();
    assert_eq!(comes_back_beside_a_failure(&mut world), 3, "three serve, and three must");
    assert_eq!(world.versions()[2], 1);
    world.set_unready(&node(0), false);
    world.run();
    assert_eq!((world.phase(), world.min_seen_in_service), (Phase::Completed, 3));
}

#[test]
fn instance_recovering_in_drain_needs_budget_to_replace() {
    for steps in 1..3 {
        let mut world = replacing_what_a_person_keeps_out();
        for _ in 0..steps {
            world.act(&node(2));
        }
        let step = world.agents[&node(2)].report.step.clone();
        assert!(matches!(step, Step::Draining | Step::Drained { .. }), "{step:?}");
        assert_eq!(comes_back_beside_a_failure(&mut world), 3, "{step:?}");
        world.set_unready(&node(0), false);
        world.run();
        assert_eq!((world.phase(), world.min_seen_in_service), (Phase::Completed, 3), "{step:?}");
    }
}

#[test]
fn declined_replacement_is_planned_again_within_the_budget() {
    let mut world = replacing_what_a_person_keeps_out();
    set_rotation(&mut world, 2, Rotation::In);
    world.agent_step(&node(2));
    let instance = world.store.fleet().service(&service()).unwrap().get(&node(2)).unwrap().clone();
    assert!(instance.has_declined() && instance.is_in_service() && !instance.is_under_order());
    world.until("it is drained", |world| {
        directive(world, 2).is_some_and(|d| d.disposition == Disposition::Drain && !d.presumes_out)
    });
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

/// Turns until one is to be drained; its agent has not seen that. Which one, and the revision of the order.
fn until_drained(world: &mut World) -> (usize, Revision) {
    for _ in 0..100 {
        world.turn();
        let fleet = world.store.fleet().service(&service()).unwrap();
        let drained = (0..4).find_map(|n| {
            let directive = fleet.get(&node(n))?.directive.as_ref()?;
            (directive.disposition == Disposition::Drain).then_some((n, directive.at))
        });
        if let Some(drained) = drained {
            return drained;
        }
        world.agents_step();
    }
    panic!("none is drained");
}

/// A roll of four instances; three must stay in service, and one is to be drained. Which one, and the revision of the order.
fn with_one_to_drain() -> (World, usize, Revision) {
    let mut world = World::at_version_1(4);
    let change = json!({"strategy": "immediate", "max_unavailable": 1, "min_in_service": 3});
    world.start(spec(change)).unwrap();
    let (n, at) = until_drained(&mut world);
    (world, n, at)
}

/// Its agent says that it declines the order of this revision.
fn declines(world: &mut World, n: usize, at: Revision) {
    let report = &mut world.agents.get_mut(&node(n)).unwrap().report;
    (report.generation, report.declined) = (at, true);
    world.publish(&node(n));
}

/// The journal of its agent was lost, and the order is older than the new one.
#[test]
fn declined_drain_is_planned_again_within_the_budget() {
    let (mut world, n, at) = with_one_to_drain();
    assert!(world.admit(&node(n)), "its version is the one before");
    declines(&mut world, n, at);
    let instance = world.store.fleet().service(&service()).unwrap().get(&node(n)).unwrap().clone();
    assert!(instance.has_declined() && instance.is_in_service() && !instance.is_under_order());
    world.run();
    assert_eq!((world.phase(), world.min_seen_in_service), (Phase::Completed, 3));
    assert_eq!(world.versions(), [2; 4]);
}

/// Its agent was admitted before each order, and says that it declines it: no journal was lost.
#[test]
fn drain_that_only_a_liar_declines_is_not_ordered_again() {
    let (mut world, n, first) = with_one_to_drain();
    let last = |world: &World| world.store.keys[&Key::Directive(service(), node(n))].1;
    for _ in 0..5 {
        let at = Revision(last(&world));
        declines(&mut world, n, at);
        world.turn();
    }
    assert_eq!(Revision(last(&world)), first, "it is out by its order");
    world.stalled_ms = 10 * 60 * 1000;
    world.turn();
    assert!(matches!(world.phase(), Phase::RollingBack { .. }), "{:?}", world.phase());
}

/// It names no admission. The first decline may be of an agent whose journal was lost.
#[test]
fn second_decline_without_an_admission_is_not_believed() {
    let (mut world, n, first) = with_one_to_drain();
    world.agents.get_mut(&node(n)).unwrap().admitted = 0;
    let mut orders = vec![first];
    for _ in 0..5 {
        let at = Revision(world.store.keys[&Key::Directive(service(), node(n))].1);
        declines(&mut world, n, at);
        orders.push(at);
        world.turn();
    }
    orders.dedup();
    assert_eq!(orders.len(), 2, "it is out by the second order: {orders:?}");
    world.stalled_ms = 10 * 60 * 1000;
    world.turn();
    assert!(matches!(world.phase(), Phase::RollingBack { .. }), "{:?}", world.phase());
}

/// It has declined twice, and gets the same order with other releases.
#[test]
fn unbelieved_decline_is_named_by_the_next_order() {
    let (mut world, n, first) = with_one_to_drain();
    world.agents.get_mut(&node(n)).unwrap().admitted = 0;
    declines(&mut world, n, first);
    world.turn();
    let mut body = directive(&world, n).unwrap();
    assert!(body.after_decline && body.disposition == Disposition::Drain, "{body:?}");
    body.releases.clear();
    let second = world.store.put(Key::Directive(service(), node(n)), body);
    declines(&mut world, n, Revision(second));
    world.turn();
    let third = directive(&world, n).unwrap();
    assert!(!third.releases.is_empty(), "{third:?}");
    assert!(third.after_decline, "its agent has read an order: {third:?}");
}

/// Its agent has obeyed the order after the one that it declined, which has failed. Its journal may be lost after the retry.
#[test]
fn retry_of_what_was_obeyed_follows_no_decline() {
    let (mut world, n, first) = with_one_to_drain();
    world.agents.get_mut(&node(n)).unwrap().admitted = 0;
    declines(&mut world, n, first);
    world.turn();
    assert!(directive(&world, n).unwrap().after_decline);
    let report = &mut world.agents.get_mut(&node(n)).unwrap().report;
    report.generation = Revision(world.store.keys[&Key::Directive(service(), node(n))].1);
    report.declined = false;
    report.step = Step::Failed { at: "draining".into(), reason: "requests could not be counted".into() };
    world.publish(&node(n));
    let asker = Asker { who: "op".into(), why: "again".into(), accepts: Default::default() };
    let commit = ask::retry(world.store.fleet(), &world.moment(), &upgrade_id(), &node(n), &asker).unwrap();
    assert!(world.store.commit(&commit));
    assert!(!directive(&world, n).unwrap().after_decline);
}

/// What the agent reports of its rotation and what it sees are not the same.
#[test]
fn order_declined_by_what_is_reported_out_rests_a_while() {
    let mut world = replacing_what_a_person_keeps_out();
    let last = |world: &World| Revision(world.store.keys[&Key::Directive(service(), node(2))].1);
    let first = last(&world);
    declines(&mut world, 2, first);
    for passed in [0, 4_999] {
        world.declined_ms = [(InstanceId::new(service(), node(2)), passed)].into();
        let (_, plan) = world.turn();
        assert_eq!(last(&world), first, "{passed} ms");
        assert!(plan.waiting[&upgrade_id()].iter().any(|reason| reason.kind() == "declined"), "{plan:?}");
    }
    world.declined_ms = [(InstanceId::new(service(), node(2)), 5_000)].into();
    world.turn();
    assert!(last(&world) > first);
}

#[test]
fn another_is_replaced_while_one_rests_after_a_decline() {
    let mut world = replacing_what_a_person_keeps_out();
    let first = Revision(world.store.keys[&Key::Directive(service(), node(2))].1);
    declines(&mut world, 2, first);
    set_rotation(&mut world, 3, Rotation::Maintenance);
    world.declined_ms = [(InstanceId::new(service(), node(2)), 0)].into();
    world.turn();
    let replaces = |d: &Directive| matches!(d.disposition, Disposition::Replace { .. });
    assert!(directive(&world, 3).is_some_and(|d| replaces(&d)), "{:?}", directive(&world, 3));
}

#[test]
fn instance_that_is_out_again_after_it_declined_is_replaced() {
    let mut world = replacing_what_a_person_keeps_out();
    set_rotation(&mut world, 2, Rotation::In);
    world.agent_step(&node(2));
    set_rotation(&mut world, 2, Rotation::Maintenance);
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
}

#[test]
fn order_on_the_way_back_presumes_what_the_former_one_did() {
    let mut world = replacing_what_a_person_keeps_out();
    let asker = Asker { who: "op".into(), why: "wrong".into(), accepts: Default::default() };
    let commit = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker).unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    until_ordered(&mut world, 1);
    assert_eq!(comes_back_beside_a_failure(&mut world), 3);
    world.set_unready(&node(0), false);
    world.run();
    assert!(matches!(world.phase(), Phase::RolledBack { .. }), "{:?}", world.phase());
}

/// The planned commit that gives an instance the disposition that it has once more.
fn restated(world: &World, n: usize) -> Option<Commit> {
    let held = directive(world, n)?.disposition;
    let restates_it = |write: &Write| match write {
        Write::Put(Key::Directive(_, of), Value::Directive(directive)) => {
            *of == node(n) && directive.body.disposition == held
        }
        _ => false,
    };
    let plan = tidegate_planner::plan(world.store.fleet(), &world.moment());
    plan.actions.iter().find_map(|action| match action {
        Action::Commit(planned) => {
            planned.commit.writes.iter().any(restates_it).then(|| planned.commit.clone())
        }
        _ => None,
    })
}

/// It was replaced in the roll and has crashed since; a supervisor may start it again before its agent obeys.
#[test]
fn restated_replacement_presumes_it_out_without_capacity() {
    for presumes in [false, true] {
        let mut world = World::at_version_1(3);
        world.start(spec(json!({"max_unavailable": 1, "min_in_service": 2}))).unwrap();
        world.until("the old code is removed", |world| world.phase() == Phase::Remove);
        let report = &mut world.agents.get_mut(&node(1)).unwrap().report;
        (report.version, report.health) = (None, Health::Unhealthy);
        set_rotation(&mut world, 1, Rotation::Unknown);
        if presumes {
            set_rotation(&mut world, 0, Rotation::Out);
        }
        let restated = restated(&world, 1).expect("its directive names the releases of the roll");
        let is_of_budget = |held: &Precondition| matches!(held, Precondition::At(Key::Budget(_), _));
        assert!(restated.when.iter().any(is_of_budget), "{:?}", restated.when);
        assert!(world.store.commit(&restated));
        assert_eq!(directive(&world, 1).unwrap().presumes_out, presumes);
    }
}

/// It was replaced in the roll and fell silent. It reports again between the plan and the commit.
#[test]
fn restated_replacement_takes_out_none_that_reports_again() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    world.until("the old code is removed", |world| world.phase() == Phase::Remove);
    world.fall_silent(1);
    let restated = restated(&world, 1).expect("its directive names the releases of the roll");
    world.agents.get_mut(&node(1)).unwrap().alive = true;
    world.publish(&node(1));
    assert!(!world.store.commit(&restated), "it is in service");
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(directive(&world, 1).unwrap().disposition, Disposition::Serve { returning: false });
}

/// The journal of its agent was lost, and it declines its order between the plan and the commit.
#[test]
fn restated_drain_takes_out_none_that_declines_it() {
    let (mut world, n, _) = with_one_to_drain();
    let mut body = directive(&world, n).unwrap();
    body.releases.clear();
    let first = Revision(world.store.put(Key::Directive(service(), node(n)), body));
    assert!(world.admit(&node(n)), "its version is the one before");
    let restated = restated(&world, n).expect("its directive lacks the releases of the roll");
    declines(&mut world, n, first);
    assert!(!world.store.commit(&restated), "it is in service");
    world.run();
    assert_eq!((world.phase(), world.min_seen_in_service), (Phase::Completed, 3));
}

/// Its agent was cut off before it read the order, so it may serve. Nothing runs on another one.
#[test]
fn restated_drain_of_a_silent_one_presumes_it_out() {
    for presumes in [false, true] {
        let (mut world, n, _) = with_one_to_drain();
        let mut body = directive(&world, n).unwrap();
        body.releases.clear();
        world.store.put(Key::Directive(service(), node(n)), body);
        world.fall_silent(n);
        if presumes {
            let dead = (n + 1) % 4;
            let report = &mut world.agents.get_mut(&node(dead)).unwrap().report;
            (report.version, report.health) = (None, Health::Unhealthy);
            set_rotation(&mut world, dead, Rotation::Unknown);
        }
        let restated = restated(&world, n).expect("its directive lacks the releases of the roll");
        assert!(world.store.commit(&restated));
        assert_eq!(directive(&world, n).unwrap().presumes_out, presumes);
    }
}

/// It was replaced in the roll, and its report cannot be read: it may be in service.
#[test]
fn replacement_is_not_restated_while_its_report_is_unreadable() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    world.until("the old code is removed", |world| world.phase() == Phase::Remove);
    world.store.spoil(&Key::Report(service(), node(1)));
    assert_eq!(restated(&world, 1), None);
    world.store.rebuild();
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    assert_eq!(directive(&world, 1).unwrap().disposition, Disposition::Serve { returning: false });
}

/// It fell silent under its order of the roll. In the rollback its admission comes back before its report does.
#[test]
fn order_given_once_more_in_a_rollback_names_its_release() {
    let is_replaced_with = |world: &World, version: i64| {
        let wanted = Disposition::Replace { release: release(version) };
        directive(world, 1).is_some_and(|directive| directive.disposition == wanted)
    };
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    world.until("it is to be replaced", |world| is_replaced_with(world, 2));
    world.fall_silent(1);
    world.roll_back();
    world.decommission(1);
    let removes = |phase| matches!(phase, Phase::RollingBack { step: RollbackStep::Lower, .. });
    world.until("the new code is removed", |world| removes(world.phase()));
    world.agents.get_mut(&node(1)).unwrap().release = release(1);
    assert!(world.admit(&node(1)));
    world.turn();
    assert!(is_replaced_with(&world, 1), "{:?}", directive(&world, 1));
}
