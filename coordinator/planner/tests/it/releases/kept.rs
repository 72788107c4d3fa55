//! What is kept, why, and what is collected.

use crate::sim::World;
use serde_json::json;
use tidegate_planner::stream::retention::{Keep, kept};
use tidegate_proto::record::task::Outcome;

fn statuses(world: &World) -> Vec<&'static str> {
    world.releases().map(|release| release.status.word()).collect()
}

#[test]
fn three_are_kept_counting_the_deployed_one() {
    let mut world = World::at_version_1(1);
    for version in 1..=5 {
        world.release(version, json!({}));
    }
    assert_eq!(statuses(&world), ["deprecated", "deprecated", "superseded", "superseded", "deployed"]);
    assert_eq!(world.stream().heads().count(), 3, "what is collected is history only");
}

#[test]
fn every_revision_that_was_once_deployed_can_be_gone_back_to() {
    let mut world = World::at_version_1(1);
    for version in 1..=30 {
        world.release(version, json!({}));
    }
    for revision in 1..=29 {
        let asked = world.go_back(revision).unwrap_or_else(|refused| panic!("{revision}: {refused}"));
        world.settle();
        assert_eq!(world.deployed(), asked.revision.map(|back| back.get()));
        assert_eq!(
            world.release_record(world.deployed().unwrap()).unwrap().record.body.version.get(),
            revision
        );
    }
}

#[test]
fn pinned_running_or_recent_releases_are_kept_with_cause() {
    let mut world = World::at_version_1(1);
    world.configure(json!({"minimum_available": 1, "rollback_window": "1h"})).unwrap();
    for version in 1..=4 {
        world.release(version, json!({}));
        if version == 1 {
            world.pin("c1", 1).unwrap();
        }
    }
    world.run_computes(&[("release-2", 12)]).unwrap();
    world.wait(3_600_000);
    world.settle();
    assert_eq!(statuses(&world), ["superseded", "superseded", "deprecated", "deployed"]);
    let why = |number| kept(world.stream())[&super::fixture::revision(number)].clone();
    assert_eq!(why(1), [Keep::Pinned { first: "c1".parse().unwrap(), count: 1 }]);
    assert_eq!(why(2), [Keep::Running { count: 12 }]);
    assert_eq!(why(4), [Keep::Deployed]);
    world.unpin("c1").unwrap();
    world.run_computes(&[("release-4", 12)]).unwrap();
    world.settle();
    assert_eq!(statuses(&world), ["deprecated", "deprecated", "deprecated", "deployed"]);
}

#[test]
fn canary_needs_no_room_for_itself() {
    let mut world = World::at_version_1(1);
    world.configure(json!({"minimum_available": 64})).unwrap();
    for version in 1..=64 {
        world.release(version, json!({}));
    }
    world.create(65, json!({"canary": {"fraction": 1, "promote_after": 1}})).unwrap();
    world.settle();
    world.signal(65, "c1", true).unwrap();
    let waiting = world.settle();
    assert_eq!(world.deployed(), Some(65), "{waiting:?}");
    assert_eq!(world.stream().kept.len(), 63);
}

#[test]
fn images_that_are_not_removed_are_named_and_retried() {
    let mut world = World::at_version_1(1);
    let removal = json!({"hook": "drop-image", "nodes": ["n7"]});
    world.configure(json!({"minimum_available": 1, "removal": removal})).unwrap();
    for version in 1..=65 {
        world.release(version, json!({}));
    }
    assert_eq!(world.each_hook("remove-", Outcome::Failed { why: "busy".into() }), 64);
    // As many as may wait.
    for version in 66..=97 {
        world.create(version, json!({})).unwrap();
    }
    let waiting = world.settle();
    assert_eq!(
        waiting[&66][0].to_string(),
        "64 superseded releases are kept, which is the maximum; the images of 64 are still to be removed"
    );
    assert_eq!(waiting[&1][0].kind(), "task-failed", "it names the retry");
    world.retry(1).unwrap();
    world.settle();
    assert_eq!(world.each_hook("remove-", Outcome::Succeeded), 1);
    world.settle();
    assert_eq!(world.deployed(), Some(66));
}

#[test]
fn the_stream_has_the_same_size_however_long_its_history() {
    let mut world = World::at_version_1(1);
    let mut sizes = Vec::new();
    for version in 101..=160 {
        world.release(version, json!({}));
        sizes.push(tidegate_proto::Value::from(world.stream().record.clone()).encode().len());
    }
    // From here on each revision that is kept has two digits.
    let settled = &sizes[12..];
    assert!(settled.iter().all(|size| *size == settled[0]), "{settled:?}");
}
