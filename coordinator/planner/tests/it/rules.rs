//! Guards that no story comes upon by itself: each is met with what it exists to refuse.

use crate::sim::{World, node, release, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::{self, Asker, StartRequest};
use tidegate_planner::gate::StoreGate;
use tidegate_planner::{Action, Plan, Reason, plan};
use tidegate_proto::commit::{Commit, Write};
use tidegate_proto::record::budget::Budget;
use tidegate_proto::record::upgrade::{Phase, RollbackStep};
use tidegate_proto::record::window::Window;
use tidegate_proto::{Key, NodeId, Revision, UpgradeId, Value};

fn request(id: &str) -> StartRequest {
    let asker = Asker { who: "op".into(), why: String::new(), accepts: Default::default() };
    StartRequest { id: id.parse().unwrap(), spec: spec(json!({})), schema: None, asker }
}

/// An upgrade that is about to take an instance out, and the plan that does it.
fn about_to_drain() -> (World, Plan) {
    let mut world = World::at_version_1(4);
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    for _ in 0..100 {
        let planned = plan(world.store.fleet(), &world.moment());
        if commits(&planned).any(takes_out) {
            return (world, planned);
        }
        world.turn();
        world.agents_step();
    }
    panic!("no instance was ever taken out; it is in {:?}", world.phase());
}

fn commits(planned: &Plan) -> impl Iterator<Item = &Commit> {
    planned.actions.iter().filter_map(|action| match action {
        Action::Commit(planned) => Some(&planned.commit),
        _ => None,
    })
}

fn takes_out(commit: &Commit) -> bool {
    commit.writes.iter().any(|write| matches!(write, Write::Put(Key::Budget(_), _)))
}

#[test]
fn as_many_stay_as_must_even_where_more_may_be_out() {
    let mut world = World::at_version_1(6);
    world.start(spec(json!({"strategy": "immediate", "max_unavailable": 4, "min_in_service": 5}))).unwrap();
    world.run();
    assert_eq!((world.phase(), world.min_seen_in_service), (Phase::Completed, 5));
}

#[test]
fn no_more_are_out_than_may_be_even_where_fewer_must_stay() {
    let mut world = World::at_version_1(6);
    world.start(spec(json!({"strategy": "immediate", "max_unavailable": 2, "min_in_service": 1}))).unwrap();
    world.run();
    assert_eq!((world.phase(), world.min_seen_in_service), (Phase::Completed, 4));
}

#[test]
fn plan_on_an_older_budget_takes_no_instance_out() {
    let (mut world, planned) = about_to_drain();
    let taken = Budget { term: world.term.term.clone(), taken: 1 };
    world.store.put(Key::Budget(service()), taken);
    for commit in commits(&planned).filter(|commit| takes_out(commit)) {
        assert!(!world.store.commit(commit), "another decision about the capacity came first");
    }
}

#[test]
fn pause_beats_a_planned_drain() {
    let (mut world, planned) = about_to_drain();
    // The event of the pause has a number of its own: the upgrade's record decides.
    world.events += 10;
    let asker = Asker { who: "op".into(), why: "wait a moment".into(), accepts: Default::default() };
    let pause = ask::pause(world.store.fleet(), &world.moment(), &upgrade_id(), &asker).unwrap();
    assert!(world.store.commit(&pause));
    for commit in commits(&planned) {
        assert!(!world.store.commit(commit), "it was planned before the pause");
    }
}

#[test]
fn of_two_upgrades_asked_for_at_once_one_begins() {
    let mut world = World::at_version_1(3);
    let both = ["u1", "u2"].map(|id| ask::start(world.store.fleet(), &world.moment(), request(id)).unwrap());
    assert!(world.store.commit(&both[0]));
    assert!(!world.store.commit(&both[1]), "the lock of the service was taken meanwhile");
}

#[test]
fn id_of_an_ended_upgrade_starts_no_other() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    world.roll_back();
    world.run();
    assert!(matches!(world.phase(), Phase::Failed { .. }), "{:?}", world.phase());
    let starts = |id: &str| ask::start(world.store.fleet(), &world.moment(), request(id));
    assert!(starts("u2").is_ok());
    let refused = starts("u1").unwrap_err();
    assert!(refused.message.starts_with("there is an upgrade u1 already: choose another ID"), "{refused}");
}

#[test]
fn a_hop_does_not_begin_before_the_one_before_it_has_ended() {
    let mut world = World::at_version_1(3);
    let set_by: UpgradeId = "u0".parse().unwrap();
    let (floor, ceiling) = (release(1).version, release(2).version);
    world.store.put(Key::Window(service()), Window { floor, ceiling, set_by, contracted: None });
    for n in (0..3).map(node) {
        world.return_with(&n, 2);
        let artifacts = &mut world.agents.get_mut(&n).unwrap().report.abilities.artifacts;
        artifacts.push(release(3).tag);
        world.publish(&n);
    }
    let mut next = request("u1");
    (next.spec.from, next.spec.to) = (ceiling, release(3).version);
    next.spec.release.tag = release(3).tag;
    let refused = ask::start(world.store.fleet(), &world.moment(), next).unwrap_err();
    assert!(refused.message.contains("has not completed"), "{refused}");
    assert!(!refused.message.contains(';'), "nothing else is in its way: {refused}");
}

#[test]
fn start_after_the_hop_has_completed_says_where_the_service_is() {
    for (at, words) in [(2, "is at version 2 already"), (3, "is at version 3, not at `from` (1)")] {
        let mut world = World::at_version_1(3);
        let version = release(at).version;
        let set_by: UpgradeId = "u0".parse().unwrap();
        let window = Window { floor: version, ceiling: version, set_by, contracted: None };
        world.store.put(Key::Window(service()), window);
        let refused = ask::start(world.store.fleet(), &world.moment(), request("u1")).unwrap_err();
        assert!(refused.message.contains(words), "{refused}");
        assert!(!refused.message.contains("has not completed"), "{refused}");
    }
}

#[test]
fn a_record_that_cannot_be_read_stops_what_depends_on_it() {
    let (world, _) = about_to_drain();
    let key = Key::Window(service());
    let mut fleet = world.store.fleet().clone();
    fleet.put(key.clone(), Value::decode(&key, b"\xff garbage").map(|_| unreachable!()), Revision(9_999));
    let planned = plan(&fleet, &world.moment());
    assert!(planned.actions.is_empty(), "{:?}", planned.actions);
    let reasons = &planned.waiting[&upgrade_id()];
    assert!(
        matches!(&reasons[..], [Reason::Store(StoreGate::Unreadable { key: named, .. })] if *named == key.to_string()),
        "{reasons:?}"
    );
}

#[test]
fn instance_whose_report_cannot_be_read_is_not_ordered_out() {
    for rolls_back in [false, true] {
        let mut world = World::at_version_1(3);
        world.start(spec(json!({"min_in_service": 2, "max_unavailable": 1}))).unwrap();
        world.until_roll();
        if rolls_back {
            world.until("one is replaced", |world| world.versions().contains(&2));
            let asker = Asker { who: "op".into(), why: "regret".into(), accepts: Default::default() };
            let turned = ask::roll_back(world.store.fleet(), &world.moment(), &upgrade_id(), &asker).unwrap();
            assert!(world.store.commit(&turned));
            world.events += 1;
        }
        let lasts = world.agents.keys().next_back().unwrap().clone();
        let key = Key::Report(service(), lasts.clone());
        for _ in 0..20 {
            let ordered =
                world.store.fleet().service(&service()).and_then(|s| s.get(&lasts)?.directive.clone());
            if ordered.is_some_and(|directive| directive.disposition.takes_out()) {
                break;
            }
            let planned = plan(&spoilt(&world, &key), &world.moment());
            let directive = Key::Directive(service(), lasts.clone());
            let takes_it_out = |write: &Write| matches!(write, Write::Put(key, Value::Directive(d)) if *key == directive && d.body.disposition.takes_out());
            for commit in commits(&planned) {
                assert!(
                    !commit.writes.iter().any(takes_it_out),
                    "it may serve, as far as is known: {commit:?}"
                );
            }
            world.turn();
            world.agents_step();
        }
    }
}

/// The first to roll was replaced and the others have not begun, when the upgrade is rolled back.
fn rolled_back_after_the_first() -> (World, NodeId) {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"min_in_service": 2, "max_unavailable": 1}))).unwrap();
    let serves = |world: &World| {
        let pantry = world.store.fleet().service(&service()).unwrap();
        let first = pantry.instances().find(|instance| instance.serves(&release(2)));
        first.map(|instance| instance.node.clone())
    };
    world.until("one serves the new version", |world| serves(world).is_some());
    let moved = serves(&world).unwrap();
    world.roll_back();
    let goes_back = |phase: Phase| matches!(phase, Phase::RollingBack { step: RollbackStep::Move, .. });
    world.until("instances go back", |world| goes_back(world.phase()));
    (world, moved)
}

fn is_ordered(planned: &Plan, node: &NodeId) -> bool {
    let key = Key::Directive(service(), node.clone());
    let orders_it = |write: &Write| matches!(write, Write::Put(to, _) if *to == key);
    commits(planned).any(|commit| commit.writes.iter().any(orders_it))
}

/// It has obeyed the order of the roll, and may serve, as far as is known: it is not out of rotation by evidence.
#[test]
fn rollback_orders_nothing_of_one_whose_report_is_unreadable() {
    let (world, moved) = rolled_back_after_the_first();
    assert!(is_ordered(&plan(world.store.fleet(), &world.moment()), &moved));
    let report = Key::Report(service(), moved.clone());
    let inventory = Key::Inventory(service(), moved.clone());
    let mut silent = spoilt(&world, &inventory);
    silent.delete(&report);
    let contradicting = spoilt(&contradicted_by(&world, &moved), &inventory);
    let unheard = [(&report, spoilt(&world, &report)), (&inventory, silent), (&inventory, contradicting)];
    for (key, fleet) in unheard {
        let planned = plan(&fleet, &world.moment());
        assert!(!is_ordered(&planned, &moved), "{:?}", planned.actions);
        let reasons = &planned.waiting[&upgrade_id()];
        let record = format!("the record {key} ");
        assert!(reasons.iter().any(|reason| reason.to_string().contains(&record)), "{reasons:?}");
    }
}

/// What contradicts the store counts as silent, also where a record of it cannot be read.
#[test]
fn contradicting_one_with_unreadable_record_is_not_replaced() {
    let (world, moved) = rolled_back_after_the_first();
    let other = (0..3).map(node).find(|node| *node != moved).unwrap();
    let contradicted = contradicted_by(&world, &other);
    for key in [Key::Inventory(service(), other.clone()), Key::Decommission(service(), other.clone())] {
        let planned = plan(&spoilt(&contradicted, &key), &world.moment());
        assert!(!is_ordered(&planned, &other), "{key}: {:?}", planned.actions);
    }
}

/// The agent on this node obeyed a term that the store does not know.
fn contradicted_by(world: &World, node: &NodeId) -> World {
    let mut world = world.clone();
    world.agents.get_mut(node).unwrap().report.witness.term = Some("of-another-store".parse().unwrap());
    world.publish(node);
    world
}

/// The fleet with this record spoilt.
fn spoilt(world: &World, key: &Key) -> tidegate_planner::Fleet {
    let mut fleet = world.store.fleet().clone();
    fleet.put(key.clone(), Value::decode(key, b"\xff garbage").map(|_| unreachable!()), Revision(9_999));
    fleet
}

#[test]
fn an_upgrade_whose_own_record_or_lock_cannot_be_read_says_so() {
    let (world, _) = about_to_drain();
    for key in [Key::Upgrade(upgrade_id()), Key::Active(service())] {
        let planned = plan(&spoilt(&world, &key), &world.moment());
        assert!(planned.actions.is_empty(), "{:?}", planned.actions);
        let reasons = planned.waiting.get(&upgrade_id()).map_or(&[][..], Vec::as_slice);
        assert!(
            matches!(reasons, [Reason::Store(StoreGate::Unreadable { key: named, .. })] if *named == key.to_string()),
            "{key}: {reasons:?}"
        );
    }
}

#[test]
fn unreadable_lock_or_window_blocks_start() {
    let world = World::at_version_1(3);
    for key in [Key::Active(service()), Key::Window(service())] {
        let refused = ask::start(&spoilt(&world, &key), &world.moment(), request("u1")).unwrap_err();
        assert!(refused.message.contains("nothing is started over it"), "{refused}");
    }
}
