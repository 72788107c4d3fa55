//! A rollback that waits for its image: what others ask meanwhile, and what follows where it fails.

use super::fixture::{asker, reported, stream};
use super::images::{removing, with_prewarm};
use crate::sim::{World, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::release;
use tidegate_planner::gate::Waits;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::task::Outcome;
use tidegate_proto::record::window::Window;
use tidegate_proto::{Key, ServiceVersion, Value};

fn failed() -> Outcome {
    Outcome::Failed { why: "manifest unknown".into() }
}

fn with_approval() -> serde_json::Value {
    let mut settings = with_prewarm();
    settings["approval"] = json!("required");
    settings
}

impl World {
    /// Revision 5 is deployed, revision 6 waits for an approval, and revision 7 goes back to revision 1.
    fn returning_over_a_waiting_one() -> Self {
        let mut world = Self::with_first_removed();
        world.configure(with_approval()).unwrap();
        world.create(6, json!({})).unwrap();
        world.go_back(1).unwrap();
        world.settle();
        assert_eq!((world.deployed(), world.status(7)), (Some(5), ReleaseStatus::Pending));
        world
    }

    fn prewarm_fails(&mut self) {
        assert!(self.each_hook("prewarm-", failed()) > 0);
        self.settle();
    }
}

#[test]
fn promote_of_a_returning_release_is_refused() {
    let mut world = World::with_first_removed();
    world.go_back(1).unwrap();
    world.settle();
    for fraction in [None, Some(0.5)] {
        let refused = world.promote(6, fraction).unwrap_err();
        assert!(refused.message.contains("rollback 1 --stream compute --no-prewarm"), "{refused}");
    }
    assert_eq!(world.deployed(), Some(5));
}

#[test]
fn pin_to_a_returning_release_is_refused() {
    let mut world = World::with_first_removed();
    world.pin("c2", 4).unwrap();
    world.go_back(1).unwrap();
    world.settle();
    let refused = world.pin("c1", 6).unwrap_err();
    assert!(refused.message.contains("its image"), "{refused}");
    world.settle_warmed();
    assert_eq!(world.deployed(), Some(6));
    world.pin("c1", 6).unwrap();
    assert_eq!(world.status(4), ReleaseStatus::Superseded, "its pin holds it");
}

#[test]
fn pin_to_an_overtaken_rollback_is_refused() {
    let mut world = World::with_first_removed();
    let mut settings = with_prewarm();
    settings["rollback_window"] = json!("1h");
    world.configure(settings).unwrap();
    world.go_back(1).unwrap();
    world.settle();
    world.create(7, json!({})).unwrap();
    world.promote(7, None).unwrap();
    world.settle();
    assert_eq!((world.deployed(), world.status(6)), (Some(7), ReleaseStatus::Superseded));
    let refused = world.pin("c1", 6).unwrap_err();
    assert!(refused.message.contains("its image may be gone"), "{refused}");
    assert!(refused.message.contains("rollback 1 --stream compute --why …`"), "{refused}");
    world.go_back(1).unwrap();
    world.settle_warmed();
    assert_eq!(world.deployed(), Some(8));
    world.pin("c1", 8).unwrap();
}

#[test]
fn failed_rollback_lets_nothing_before_it_go_out() {
    let mut world = World::returning_over_a_waiting_one();
    world.prewarm_fails();
    assert_eq!(world.status(7), ReleaseStatus::Error);
    world.approve(6).unwrap();
    let waiting = world.settle();
    assert_eq!(world.deployed(), Some(5), "what was deployed stays");
    let why = waiting[&6].iter().find(|reason| reason.kind() == "rolls-back").expect("it says why");
    assert_eq!(
        why.to_string(),
        "revision 7, a rollback, failed, and no earlier release goes out automatically"
    );
    let helps = why.explained(Waits::Release(&stream(), super::fixture::revision(6))).next_step.unwrap();
    assert_eq!(helps, "tidegate release retry 7 --stream compute");
    // A later release that waits changes nothing about that.
    world.create(8, json!({})).unwrap();
    world.settle();
    world.settle_warmed();
    assert_eq!((world.deployed(), world.status(7)), (Some(5), ReleaseStatus::Error));
    // A person decides.
    world.retry(7).unwrap();
    world.settle_warmed();
    assert_eq!((world.deployed(), world.status(6)), (Some(7), ReleaseStatus::Deprecated));
}

#[test]
fn person_promotes_a_release_before_a_failed_rollback() {
    let mut world = World::returning_over_a_waiting_one();
    world.approve(6).unwrap();
    world.prewarm_fails();
    world.promote(6, None).unwrap();
    world.settle();
    assert_eq!(world.deployed(), Some(6));
}

#[test]
fn failed_rollback_holds_the_canary() {
    let mut world = World::with_first_removed();
    world.create(6, json!({"canary": {"fraction": 1, "promote_after": 1}})).unwrap();
    world.settle_warmed();
    world.go_back(1).unwrap();
    world.settle();
    world.prewarm_fails();
    world.signal(6, "c1", true).unwrap();
    world.settle();
    assert_eq!((world.deployed(), world.status(6)), (Some(5), ReleaseStatus::Canary));
}

#[test]
fn second_rollback_gives_the_first_up_also_where_it_fails() {
    let mut world = World::with_first_removed();
    world.go_back(1).unwrap();
    world.settle();
    world.go_back(2).unwrap();
    world.settle();
    let second = |world: &World| {
        let hooks = world.hooks("prewarm-").into_iter();
        hooks
            .filter(|(.., tag, _)| tag.as_str() == "release-2")
            .map(|(node, id, ..)| (node, id))
            .collect::<Vec<_>>()
    };
    let asked = second(&world);
    assert_eq!(asked.len(), 1);
    for (node, id) in asked {
        let result =
            tidegate_proto::record::task::TaskResult::new(failed(), tidegate_proto::record::Timestamp(0));
        world.store.put(Key::TaskResult(node, id), result);
    }
    world.settle();
    world.settle_warmed();
    assert_eq!((world.deployed(), world.status(7)), (Some(5), ReleaseStatus::Error));
    world.retry(7).unwrap();
    world.settle_warmed();
    assert_eq!((world.deployed(), world.status(6)), (Some(7), ReleaseStatus::Deprecated));
}

#[test]
fn later_release_goes_out_and_overtakes_a_returning_one() {
    let mut world = World::with_first_removed();
    world.go_back(1).unwrap();
    world.settle();
    world.create(7, json!({})).unwrap();
    world.settle_warmed();
    assert_eq!(world.deployed(), Some(7));
    assert!(world.stream().pending.is_empty());
    assert!(world.release_record(6).unwrap().deployed_at.is_none());
}

#[test]
fn manual_strategy_that_is_set_meanwhile_wins() {
    let mut world = World::with_first_removed();
    world.go_back(1).unwrap();
    world.settle();
    let mut manual = with_prewarm();
    manual["strategy"] = json!({"manual": "release-5"});
    world.configure(manual).unwrap();
    world.settle_warmed();
    assert_eq!((world.deployed(), world.status(6)), (Some(5), ReleaseStatus::Pending));
    let waiting = world.settle();
    assert_eq!(waiting[&6][0].kind(), "manual", "{waiting:?}");
}

#[test]
fn image_stays_removed_when_removal_hook_is_unset() {
    let mut world = World::with_first_removed();
    world.configure(json!({"minimum_available": 2})).unwrap();
    world.settle();
    let refused = world.go_back(1).unwrap_err();
    assert!(refused.message.contains("no prewarm hook"), "{refused}");
    assert!(refused.message.contains("--no-prewarm"), "{refused}");
    let mut prewarm = with_prewarm();
    prewarm.as_object_mut().unwrap().remove("removal");
    world.configure(prewarm).unwrap();
    world.go_back(1).unwrap();
    world.settle();
    assert_eq!((world.deployed(), world.hooks("prewarm-").len()), (Some(5), 1));
    world.settle_warmed();
    assert_eq!(world.deployed(), Some(6));
}

#[test]
fn unset_prewarm_hook_fails_rollback_and_names_no_prewarm() {
    let mut world = World::with_first_removed();
    world.go_back(1).unwrap();
    world.settle();
    world.configure(removing()).unwrap();
    world.settle();
    assert_eq!((world.deployed(), world.status(6)), (Some(5), ReleaseStatus::Error));
    let because = world.release_record(6).unwrap().record.body.because;
    assert!(because.contains("no longer has a prewarm hook"), "{because}");
    assert!(because.contains("rollback 1 --stream compute --no-prewarm"), "{because}");
}

#[test]
fn returning_release_is_warmed_up_once_across_leaders() {
    let mut world = World::with_first_removed();
    world.go_back(1).unwrap();
    world.elect(2);
    world.settle();
    let ordered = world.hooks("prewarm-");
    world.elect(3);
    world.settle();
    assert_eq!(world.hooks("prewarm-"), ordered, "nothing is ordered again");
    world.each_hook("prewarm-", Outcome::Succeeded);
    world.elect(4);
    world.settle();
    assert_eq!(world.deployed(), Some(6));
    let waits = |value: &Value| matches!(value, Value::Event(event) if event.body.to.contains("waits until its image"));
    assert_eq!(
        world.store.keys.values().filter(|(value, ..)| waits(value)).count(),
        1,
        "its history says so"
    );
}

#[test]
fn returning_release_is_held_behind_a_floor_that_fell_meanwhile() {
    let mut world = World::at_version_1(1);
    world.configure(with_prewarm()).unwrap();
    set_floor(&mut world, "storage", 2);
    for version in 1..=5 {
        let change = if version == 1 { json!({"requires": {"storage": 2}}) } else { json!({}) };
        world.create(version, change).unwrap();
        world.settle_warmed();
    }
    assert!(world.each_hook("remove-", Outcome::Succeeded) > 0);
    world.settle();
    world.go_back(1).unwrap();
    world.settle();
    set_floor(&mut world, "storage", 1);
    world.each_hook("prewarm-", Outcome::Succeeded);
    let waiting = world.settle();
    assert_eq!((world.deployed(), world.status(6)), (Some(5), ReleaseStatus::Pending));
    assert_eq!(waiting[&6][0].kind(), "floor", "{waiting:?}");
    set_floor(&mut world, "storage", 2);
    world.settle();
    assert_eq!((world.deployed(), world.status(6)), (Some(6), ReleaseStatus::Deployed));
}

fn set_floor(world: &mut World, service: &str, floor: i64) {
    let version = |number| ServiceVersion::new(number).unwrap();
    let window =
        Window { floor: version(floor), ceiling: version(2), set_by: upgrade_id(), contracted: None };
    world.store.put(Key::Window(service.parse().unwrap()), window);
}

/// Revision 3 is deployed, revision 1 requires 16 services, and so many removals of its image wait for agents.
fn with_unclaimed_removals(count: usize) -> World {
    let mut world = World::at_version_1(1);
    world.configure(removing()).unwrap();
    let services: Vec<String> = (0..16).map(|n| format!("storage-{n}")).collect();
    services.iter().for_each(|service| set_floor(&mut world, service, 2));
    let requires: serde_json::Value = services.iter().map(|service| (service.clone(), json!(2))).collect();
    world.release(1, json!({ "requires": requires }));
    for version in 2..=3 {
        world.release(version, json!({}));
    }
    let (_, id, _) = world.unclaimed_removals().pop().unwrap();
    let ordered = world.store.keys[&Key::Task("n7".parse().unwrap(), id.clone())].0.clone();
    for node in 100..99 + count {
        world.store.put(Key::Task(format!("n{node}").parse().unwrap(), id.clone()), ordered.clone());
    }
    assert_eq!(world.unclaimed_removals().len(), count);
    world
}

/// The removals of the image of revision 1 that an agent may still begin.
fn left(world: &World) -> usize {
    world.unclaimed_removals().into_iter().filter(|(.., tag)| tag.as_str() == "release-1").count()
}

#[test]
fn rollback_without_prewarm_withdraws_removals_at_once() {
    let mut world = with_unclaimed_removals(71);
    // The store asserts that a transaction has at most 128 operations a side.
    world.go_back_with(1, false).unwrap();
    assert_eq!((world.deployed(), left(&world)), (Some(4), 0));
}

#[test]
fn emergency_waits_until_turns_have_withdrawn_what_does_not_fit() {
    let mut world = with_unclaimed_removals(200);
    world.go_back_with(1, false).unwrap();
    assert!(world.go_back_with(1, false).unwrap().commit.is_none(), "that is under way");
    let mut turns = 0;
    while world.deployed() != Some(4) {
        assert_eq!((world.deployed(), turns < 20), (Some(3), true), "{:?}", world.settle());
        assert!(world.hooks("prewarm-").is_empty());
        world.turn();
        turns += 1;
    }
    assert_eq!(left(&world), 0, "an agent could still begin one");
}

#[test]
fn rollback_without_prewarm_fails_if_removal_has_started() {
    let mut world = with_unclaimed_removals(200);
    world.go_back_with(1, false).unwrap();
    let (node, id, _) = world.unclaimed_removals().pop().unwrap();
    world.store.put(Key::TaskResult(node.clone(), id), reported(&node, Outcome::Claimed));
    world.settle();
    assert_eq!((world.deployed(), world.status(4)), (Some(3), ReleaseStatus::Error));
    let because = world.release_record(4).unwrap().record.body.because;
    assert!(because.contains(&format!("runs on {node}")), "{because}");
}

#[test]
fn emergency_beside_the_order_of_a_removal_is_planned_again() {
    let mut world = World::at_version_1(1);
    world.configure(removing()).unwrap();
    for version in 1..=2 {
        world.release(version, json!({}));
    }
    world.create(3, json!({})).unwrap();
    world.turn();
    assert_eq!((world.status(1), left(&world)), (ReleaseStatus::Deprecated, 0), "no removal is ordered yet");
    let (target, seen) = (world.release_record(1).unwrap(), world.stream().at);
    let (fleet, moment) = (world.store.fleet(), world.moment());
    let asked = release::roll_back(fleet, &moment, &stream(), &target, false, &asker("it is bad")).unwrap();
    // Its event has a number of its own, and the order does not rewrite the stream.
    world.events += 10;
    world.turn();
    assert_eq!((world.stream().at, left(&world)), (seen, 1));
    assert!(!world.store.commit(&asked.commit.unwrap()), "its image could be removed");
    world.go_back_with(1, false).unwrap();
    assert_eq!((world.deployed(), left(&world)), (Some(4), 0));
}
