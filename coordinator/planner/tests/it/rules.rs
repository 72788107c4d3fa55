//! Guards that no story comes upon by itself: each is met with what it exists to refuse.

use crate::sim::{World, node, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::{self, Asker, StartRequest};
use tidegate_planner::gate::StoreGate;
use tidegate_planner::{Action, Plan, Reason, plan};
use tidegate_proto::commit::{Commit, Write};
use tidegate_proto::record::budget::Budget;
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::record::window::Window;
use tidegate_proto::{Key, Revision, UpgradeId, Value};

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
fn a_hop_does_not_begin_before_the_one_before_it_has_ended() {
    let mut world = World::at_version_1(3);
    let set_by: UpgradeId = "u0".parse().unwrap();
    let (floor, ceiling) = (crate::sim::release(1).version, crate::sim::release(2).version);
    world.store.put(Key::Window(service()), Window { floor, ceiling, set_by, contracted: None });
    for n in (0..3).map(node) {
        world.return_with(&n, 2);
        let artifacts = &mut world.agents.get_mut(&n).unwrap().report.abilities.artifacts;
        artifacts.push(crate::sim::release(3).tag);
        world.publish(&n);
    }
    let mut next = request("u1");
    (next.spec.from, next.spec.to) = (ceiling, crate::sim::release(3).version);
    next.spec.release.tag = crate::sim::release(3).tag;
    let refused = ask::start(world.store.fleet(), &world.moment(), next).unwrap_err();
    assert!(refused.message.contains("has not completed"), "{refused}");
    assert!(!refused.message.contains(';'), "nothing else is in its way: {refused}");
}

#[test]
fn start_after_the_hop_has_completed_says_where_the_service_is() {
    for (at, words) in [(2, "is at version 2 already"), (3, "is at version 3, not at `from` (1)")] {
        let mut world = World::at_version_1(3);
        let version = crate::sim::release(at).version;
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
    let key = Key::Maintenance(node(3));
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
