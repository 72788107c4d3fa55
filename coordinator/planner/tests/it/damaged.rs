//! A record that cannot be read costs what its own instance costs: it is named, and the others go on.

use crate::sharing::runs_scheduler;
use crate::sim::{World, node, release, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::{self, Asker, Gone, Refusal};
use tidegate_planner::{Action, Fleet, Known, Moment, Plan, Reason, plan};
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::maintenance::Maintenance;
use tidegate_proto::record::need::Need;
use tidegate_proto::record::report::Rotation;
use tidegate_proto::record::task::{Outcome, TaskResult};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase};
use tidegate_proto::record::window::Window;
use tidegate_proto::record::{Malformed, Timestamp};
use tidegate_proto::spec::Spec;
use tidegate_proto::{Commit, InstanceId, Key, Revision, Value, Write};

fn assert_is_among(reasons: &[Reason], key: &Key) {
    let record = format!("the record {key} ");
    assert!(reasons.iter().any(|reason| reason.to_string().contains(&record)), "{reasons:?}");
}

fn assert_named(planned: &Plan, key: &Key) {
    assert_is_among(&planned.waiting[&upgrade_id()], key);
}

fn shared_with_scheduler() -> Spec {
    let schema =
        json!({"database": {"from_env": "PANTRY"}, "migrations": "pantry", "shared_with": {"scheduler": 2}});
    spec(json!({"min_in_service": 1, "schema": schema}))
}

/// It can be read again, and the upgrade goes on.
fn restored(world: &mut World) -> Phase {
    world.store.rebuild();
    world.run();
    world.phase()
}

#[test]
fn damaged_directive_holds_no_order_of_its_batch() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    world.until("the old code is removed", |world| world.phase() == Phase::Remove);
    let key = Key::Directive(service(), node(1));
    world.store.spoil(&key);
    let last = world.run();
    assert_named(&last, &key);
    assert_eq!(world.phase(), Phase::Remove);
    for other in [0, 2] {
        let pantry = world.store.fleet().service(&service()).unwrap();
        let directive = pantry.get(&node(other)).unwrap().directive.as_ref().unwrap();
        assert_eq!(directive.releases, [release(2)], "n{other}");
    }
    assert_eq!(restored(&mut world), Phase::Completed);
}

#[test]
fn others_roll_beside_a_damaged_directive() {
    let mut world = World::at_version_1(4);
    let change = json!({"strategy": "immediate", "max_unavailable": 2, "min_in_service": 1});
    world.start(spec(change)).unwrap();
    world.until_roll();
    let key = Key::Directive(service(), node(1));
    world.store.spoil(&key);
    let last = world.run();
    assert_named(&last, &key);
    assert_eq!(world.versions(), [2, 1, 2, 2]);
    assert_eq!(restored(&mut world), Phase::Completed);
}

#[test]
fn node_with_a_damaged_cordon_is_kept_out_alone() {
    let mut world = World::at_version_1(4);
    let change = json!({"strategy": "immediate", "max_unavailable": 2, "min_in_service": 1});
    world.start(spec(change)).unwrap();
    world.until_roll();
    let key = Key::Maintenance(node(1));
    let cordon = Maintenance { who: "op".into(), why: "a disk".into(), at: Timestamp(0) };
    world.store.put(key.clone(), cordon);
    world.store.spoil(&key);
    let last = world.run();
    assert_named(&last, &key);
    assert_eq!(world.versions(), [2, 1, 2, 2]);
    world.store.keys.remove(&key);
    assert_eq!(restored(&mut world), Phase::Completed);
}

#[test]
fn others_go_back_beside_a_damaged_directive() {
    let mut world = World::at_version_1(4);
    world.start(spec(json!({"min_in_service": 1, "max_unavailable": 2}))).unwrap();
    world.until("one is replaced", |world| world.versions().contains(&2));
    let pantry = world.store.fleet().service(&service()).unwrap();
    let is_untouched = |n: &usize| {
        let instance = pantry.get(&node(*n)).unwrap();
        instance.is_in_service() && instance.known() == Known::At(release(1).version)
    };
    let key = Key::Directive(service(), node((0..4).find(is_untouched).unwrap()));
    world.roll_back();
    world.store.spoil(&key);
    let last = world.run();
    assert_named(&last, &key);
    assert_eq!(world.versions(), [1; 4]);
    assert!(matches!(world.phase(), Phase::RollingBack { .. }), "{:?}", world.phase());
    let ended = restored(&mut world);
    assert!(matches!(ended, Phase::RolledBack { .. }), "{ended:?}");
}

/// A roll in which one instance at a time may be out.
fn three_of_which_two_must_stay() -> World {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"strategy": "immediate", "max_unavailable": 1, "min_in_service": 2}))).unwrap();
    world.until_roll();
    world
}

/// Its agent obeys the restored directive as a new order, and takes the instance out where it is unhealthy then.
#[test]
fn no_unhealthy_one_is_drained_beside_a_damaged_directive() {
    let mut world = three_of_which_two_must_stay();
    let serves_new = |world: &World, n: usize| {
        let pantry = world.store.fleet().service(&service()).unwrap();
        pantry.get(&node(n)).unwrap().serves(&release(2))
    };
    world.until("one serves the new version", |world| (0..3).any(|n| serves_new(world, n)));
    let moved = (0..3).find(|n| serves_new(&world, *n)).unwrap();
    let (key, other) = (Key::Directive(service(), node(moved)), node((moved + 1) % 3));
    world.store.spoil(&key);
    world.set_unready(&other, true);
    let last = world.run();
    assert_named(&last, &key);
    assert!(world.agents.values().all(|agent| agent.report.rotation == Rotation::In));
    world.set_unready(&other, false);
    assert_eq!(restored(&mut world), Phase::Completed);
}

#[test]
fn drain_is_withdrawn_beside_a_damaged_directive() {
    let mut world = three_of_which_two_must_stay();
    let disposition = |world: &World, n: usize| {
        let pantry = world.store.fleet().service(&service()).unwrap();
        let directive = pantry.get(&node(n)).unwrap().directive.as_ref();
        directive.map(|directive| directive.disposition.clone())
    };
    let is_drained = |world: &World, n: usize| disposition(world, n) == Some(Disposition::Drain);
    world.until("one is drained", |world| (0..3).any(|n| is_drained(world, n)));
    let drained = (0..3).find(|n| is_drained(&world, *n)).unwrap();
    let key = Key::Directive(service(), node((drained + 1) % 3));
    world.store.spoil(&key);
    world.turn();
    assert_eq!(disposition(&world, drained), Some(Disposition::Serve { returning: true }));
    let last = world.run();
    assert_named(&last, &key);
    assert_eq!(restored(&mut world), Phase::Completed);
}

/// It has a window that admits every version, as far as is known: it would be given another one.
#[test]
fn damaged_window_of_a_sharing_service_is_not_absent() {
    let mut world = World::at_version_1(2);
    runs_scheduler(&mut world, 1);
    let key = Key::Window("scheduler".parse().unwrap());
    world.store.put(key.clone(), Window::open("other".parse().unwrap()));
    world.start_with_schema(shared_with_scheduler(), MigrateOrder::BeforeRoll);
    world.until("it stages", |world| world.phase() == Phase::Stage);
    world.store.spoil(&key);
    let last = world.run();
    assert_named(&last, &key);
    assert_eq!(world.phase(), Phase::Stage);
    assert_ne!(restored(&mut world), Phase::Stage);
}

/// The rollback ends with the window of before, whose floor is lower: as far as releases leave it.
#[test]
fn rollback_does_not_end_over_a_damaged_need() {
    let mut world = World::at_version_1(0);
    (0..3).for_each(|n| world.join(n, 2));
    let key = Key::Need(service());
    world.store.put(key.clone(), Need::default());
    let target = json!({"tag": release(3).tag, "sha256": release(3).sha256});
    world.start(spec(json!({"from": 2, "to": 3, "release": target}))).unwrap();
    world.until_roll();
    world.roll_back();
    world.store.spoil(&key);
    let last = world.run();
    assert_named(&last, &key);
    assert!(matches!(world.phase(), Phase::RollingBack { .. }), "{:?}", world.phase());
    let ended = restored(&mut world);
    assert!(matches!(ended, Phase::RolledBack { .. }), "{ended:?}");
}

#[test]
fn release_names_the_damaged_need_that_holds_it() {
    let mut world = World::at_version_1(1);
    world.release(1, json!({"requires": {"pantry-api": 1}}));
    world.create(2, json!({"requires": {"pantry-api": 1}})).unwrap();
    let key = Key::Need(service());
    world.store.spoil(&key);
    let waiting = world.settle();
    assert_is_among(&waiting[&2], &key);
    assert_eq!(world.deployed(), Some(1));
    world.store.rebuild();
    world.settle();
    assert_eq!(world.deployed(), Some(2));
}

/// The agent may have claimed the removal: the release waits for its result, and the stream goes on.
#[test]
fn damaged_result_of_a_removal_holds_its_release_alone() {
    let mut world = World::at_version_1(1);
    let removal = json!({"hook": "drop-image", "nodes": ["n7"]});
    world.configure(json!({"minimum_available": 2, "removal": removal})).unwrap();
    for version in 1..=3 {
        world.release(version, json!({"branch": format!("b{version}")}));
    }
    let (node, id, _) = world.unclaimed_removals().pop().unwrap();
    let key = Key::TaskResult(node, id);
    world.store.put(key.clone(), TaskResult::new(Outcome::Claimed, Timestamp(0)));
    world.store.spoil(&key);
    world.create(1, json!({"branch": "b1", "manifest": {"extensions": {"x": "1"}}})).unwrap();
    let waiting = world.settle();
    assert_is_among(&waiting[&4], &key);
    assert_eq!(world.deployed(), Some(3));
}

/// Each of these requests would compare the record as absent, and say that another commit was first; or say that an instance
/// does not count any more, which counts as long as its directive cannot be read.
#[test]
fn request_over_a_damaged_record_names_its_key() {
    type Request = fn(&Fleet, &Moment, &Asker) -> Result<Commit, Refusal>;
    let cordon: Request = |fleet, moment, asker| ask::cordon(fleet, moment, &node(1), asker);
    let uncordon: Request = |fleet, moment, asker| ask::uncordon(fleet, moment, &node(1), asker);
    let retry: Request = |fleet, moment, asker| ask::retry(fleet, moment, &upgrade_id(), &node(1), asker);
    let stopped: Request =
        |fleet, moment, asker| ask::retry_stopped(fleet, moment, &upgrade_id(), &node(1), asker);
    let decommission: Request = |fleet, moment, asker| {
        ask::decommission(fleet, moment, &InstanceId::new(service(), node(1)), Gone::default(), asker)
    };
    let mut world = World::at_version_1(3);
    world.start(spec(json!({}))).unwrap();
    world.until_roll();
    let asker = Asker { who: "op".into(), why: "it is broken".into(), accepts: Default::default() };
    let cases = [
        (Key::Maintenance(node(1)), cordon),
        (Key::Maintenance(node(1)), uncordon),
        (Key::Directive(service(), node(1)), retry),
        (Key::Directive(service(), node(1)), stopped),
        (Key::Report(service(), node(1)), decommission),
        (Key::Inventory(service(), node(1)), decommission),
        (Key::Directive(service(), node(1)), decommission),
        (Key::Decommission(service(), node(1)), decommission),
    ];
    for (key, request) in cases {
        let mut fleet = world.store.fleet().clone();
        fleet.put(key.clone(), Err(Malformed::Encoding), Revision(9_999));
        let refused = request(&fleet, &world.moment(), &asker).unwrap_err();
        assert!(refused.message.contains(&format!("the record {key} ")), "{refused}");
    }
}

/// Each record that there is, but for the history, in each turn of an upgrade beside a release stream.
#[test]
fn no_plan_compares_an_unreadable_record_as_absent() {
    for rolls_back in [false, true] {
        let mut world = World::at_version_1(3);
        world.release(1, json!({"requires": {"pantry-api": 1}}));
        runs_scheduler(&mut world, 2);
        world.start_with_schema(shared_with_scheduler(), MigrateOrder::BeforeRoll);
        let mut goes_back = rolls_back;
        for _ in 0..100 {
            let records = world.store.keys.iter().filter(|(key, _)| !matches!(key, Key::Event(..)));
            for (key, (_, at, _)) in records {
                let mut fleet = world.store.fleet().clone();
                fleet.put(key.clone(), Err(Malformed::Encoding), Revision(*at));
                for action in plan(&fleet, &world.moment()).actions {
                    let Action::Commit(planned) = action else { continue };
                    assert_eq!(fleet.unreadable_in(&planned.commit), None, "{}", planned.what);
                }
            }
            if goes_back && world.versions().contains(&2) {
                goes_back = false;
                world.roll_back();
            }
            world.turn();
            world.agents_step();
        }
    }
}

/// It counts as out by its order, and may be back in service: no commit can compare its report.
#[test]
fn declared_stop_beside_a_damaged_report_presumes_it_out() {
    let mut world = World::at_version_1(3);
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    let is_out = |world: &World| (0..3).find(|n| world.agents[&node(*n)].report.rotation != Rotation::In);
    world.until("one is taken out", |world| is_out(world).is_some());
    let out = node(is_out(&world).unwrap());
    world.store.spoil(&Key::Report(service(), out.clone()));
    let asker = Asker { who: "op".into(), why: "it has ended".into(), accepts: Default::default() };
    let (fleet, moment) = (world.store.fleet(), world.moment());
    let commit = ask::retry_stopped(fleet, &moment, &upgrade_id(), &out, &asker).unwrap();
    let presumes_out = |write: &Write| matches!(write, Write::Put(Key::Directive(..), Value::Directive(directive)) if directive.body.presumes_out);
    assert!(commit.writes.iter().any(presumes_out), "{:?}", commit.writes);
}
