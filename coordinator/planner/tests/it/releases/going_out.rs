//! What must hold before a release goes out by itself.

use super::fixture::{commits, stream};
use super::images::removing;
use crate::sim::World;
use serde_json::json;
use tidegate_planner::Reason;
use tidegate_planner::ask::release;
use tidegate_planner::gate::ReleaseGate;
use tidegate_proto::commit::Commit;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::{Key, Revision};

fn world() -> World {
    World::at_version_1(2)
}

#[test]
fn the_first_goes_out_and_the_next_supersedes_it() {
    let mut world = world();
    assert_eq!(world.release(9057, json!({"manifest": {"extensions": {}}})), 1);
    assert_eq!(world.release(9058, json!({})), 2);
    assert_eq!(world.status(1), ReleaseStatus::Superseded);
    assert!(world.release_record(1).unwrap().deployed_at.is_some(), "that it was deployed stays written");
}

#[test]
fn of_several_that_may_go_out_the_latest_does() {
    let mut world = world();
    for version in 1..=3 {
        world.create(version, json!({})).unwrap();
    }
    world.settle();
    assert_eq!(world.deployed(), Some(3));
    assert_eq!(
        [1, 2].map(|number| world.status(number)),
        [ReleaseStatus::Deprecated; 2],
        "nothing holds them"
    );
}

#[test]
fn waiting_release_lets_an_earlier_one_go_first() {
    let mut world = world();
    world.create(1, json!({})).unwrap();
    world.create(2, json!({"requires": {"pantry-api": 2}})).unwrap();
    let waiting = world.settle();
    assert_eq!(world.deployed(), Some(1));
    assert!(waiting[&2].iter().any(|reason| reason.kind() == "behind"), "{waiting:?}");
}

#[test]
fn an_approval_is_waited_for() {
    let mut world = world();
    world.configure(json!({"approval": "required"})).unwrap();
    world.create(1, json!({})).unwrap();
    let waiting = world.settle();
    assert_eq!(
        waiting[&1],
        [Reason::Release(ReleaseGate::ReleaseApproval {
            stream: stream(),
            revision: super::fixture::revision(1)
        })]
    );
    let reported = release::explain(world.store.fleet(), &world.moment(), &stream()).unwrap();
    let helps = reported.values().next().unwrap()[0].next_step.clone();
    assert_eq!(helps.as_deref(), Some("tidegate release approve 1 --stream compute"));
    let refused = world.promote(1, None).unwrap_err();
    assert!(refused.message.contains("approval"), "a promotion is no approval: {refused}");
    world.approve(1).unwrap();
    world.settle();
    assert_eq!(world.deployed(), Some(1));
    assert_eq!(world.release_record(1).unwrap().approved.as_ref().unwrap().who, "anna");
    assert!(world.approve(1).unwrap().commit.is_none(), "said again, it is so already");
}

#[test]
fn pin_to_what_was_not_approved_is_refused() {
    let mut world = world();
    world.release(1, json!({}));
    world.configure(json!({"approval": "required"})).unwrap();
    world.create(2, json!({})).unwrap();
    world.settle();
    let refused = world.pin("c1", 2).unwrap_err();
    assert!(refused.message.contains("requires a manual approval"), "{refused}");
    world.pin("c1", 1).unwrap();
    world.approve(2).unwrap();
    world.pin("c1", 2).unwrap();
}

#[test]
fn manual_wins_over_latest_and_is_gone_back_to() {
    let mut world = world();
    for version in 1..=3 {
        world.release(version, json!({}));
    }
    world.configure(json!({"strategy": {"manual": "release-2"}})).unwrap();
    world.settle();
    let deployed = world.release_record(4).unwrap();
    assert_eq!(
        (world.deployed(), deployed.tag.as_str()),
        (Some(4), "release-2"),
        "a new revision of the old body"
    );
    assert_eq!(deployed.rollback_of, Some(super::fixture::revision(2)));
    world.create(5, json!({})).unwrap();
    let waiting = world.settle();
    assert_eq!(waiting[&5], [Reason::Release(ReleaseGate::Manual { tag: "release-2".parse().unwrap() })]);
    for refused in [world.promote(5, None).unwrap_err(), world.go_back(3).unwrap_err()] {
        assert!(refused.message.contains("manual wins"), "{refused}");
    }
    world.configure(json!({})).unwrap();
    world.settle();
    assert_eq!(world.deployed(), Some(5));
    let unknown = world.configure(json!({"strategy": {"manual": "release-77"}})).unwrap_err();
    assert!(unknown.message.contains("keeps no release with this tag"), "{unknown}");
}

#[test]
fn manual_strategy_names_only_what_can_go_out() {
    let mut world = world();
    world.configure(json!({"rollback_window": "1h"})).unwrap();
    world.release(1, json!({}));
    world.create(2, json!({})).unwrap();
    world.release(3, json!({}));
    assert_eq!(world.status(2), ReleaseStatus::Superseded, "overtaken while it waited");
    let manual = |tag: &str| json!({"rollback_window": "1h", "strategy": {"manual": tag}});
    let refused = world.configure(manual("release-2")).unwrap_err();
    assert!(refused.message.contains("revision 2 of compute is superseded"), "{refused}");
    assert!(refused.message.contains("create the release again"), "{refused}");
    world.configure(manual("release-1")).unwrap();
    world.settle();
    assert_eq!((world.deployed(), world.release_record(4).unwrap().tag.as_str()), (Some(4), "release-1"));
}

/// Its image is being removed. A rollback to it is refused while another tag is named.
#[test]
fn refused_manual_tag_names_a_rollback_that_is_possible() {
    let mut world = world();
    world.configure(removing()).unwrap();
    for version in 1..=3 {
        world.release(version, json!({}));
    }
    let manual = |tag: &str| {
        let mut settings = removing();
        settings["strategy"] = json!({"manual": tag});
        settings
    };
    world.configure(manual("release-3")).unwrap();
    let refused = world.configure(manual("release-1")).unwrap_err();
    assert!(refused.message.contains("unset strategy.manual, then roll back to it first"), "{refused}");
    assert!(world.go_back(1).unwrap_err().message.contains("manual wins"));
    world.configure(removing()).unwrap();
    let refused = world.configure(manual("release-1")).unwrap_err();
    assert!(refused.message.contains("is deprecated; roll back to it first"), "{refused}");
}

#[test]
fn without_latest_and_manual_a_person_promotes() {
    let mut world = world();
    world.configure(json!({"strategy": {"latest": false}})).unwrap();
    world.create(1, json!({})).unwrap();
    assert_eq!(world.settle()[&1], [Reason::Release(ReleaseGate::NoStrategy)]);
    world.promote(1, None).unwrap();
    assert_eq!(world.deployed(), Some(1));
}

#[test]
fn release_goes_out_after_its_healthy_time() {
    let mut world = world();
    world.configure(json!({"availability": {"min_healthy_time": "10s", "healthy_deadline": "60s"}})).unwrap();
    world.create(1, json!({})).unwrap();
    assert_eq!(world.settle()[&1][0].kind(), "not-available");
    world.answers(1, true).unwrap();
    world.wait(9_000);
    world.settle();
    world.answers(1, false).unwrap();
    world.answers(1, true).unwrap();
    world.wait(9_000);
    world.settle();
    assert_eq!(world.deployed(), None, "a break begins the healthy time again");
    world.elect(2);
    world.wait(1_000);
    world.settle();
    assert_eq!(world.deployed(), Some(1), "a new leader goes on from the stored count");
}

#[test]
fn release_not_answering_in_time_fails_and_can_be_retried() {
    let mut world = world();
    world
        .configure(json!({"approval": "required", "availability": {"min_healthy_time": "10s", "healthy_deadline": "60s"}}))
        .unwrap();
    world.create(1, json!({})).unwrap();
    world.settle();
    world.wait(3_600_000);
    world.settle();
    assert_eq!(world.status(1), ReleaseStatus::Pending, "waiting for a person never counts as failure");
    world.approve(1).unwrap();
    world.settle();
    world.wait(59_999);
    world.settle();
    assert_eq!(world.status(1), ReleaseStatus::Pending);
    world.wait(1);
    world.settle();
    let failed = world.release_record(1).unwrap();
    assert_eq!(failed.status, ReleaseStatus::Error);
    assert!(failed.because.contains("did not answer for 10s"), "{}", failed.because);
    assert!(world.create(1, json!({})).unwrap().commit.is_none(), "the same request is the same release");
    world.retry(1).unwrap();
    world.answers(1, true).unwrap();
    world.settle();
    world.wait(10_000);
    world.settle();
    assert_eq!(world.deployed(), Some(1));
}

#[test]
fn trial_ends_where_availability_is_no_longer_asked() {
    let mut world = world();
    let availability = json!({"min_healthy_time": "10s", "healthy_deadline": "60s"});
    world.configure(json!({"availability": availability})).unwrap();
    world.create(1, json!({})).unwrap();
    assert_eq!(world.settle()[&1][0].kind(), "not-available");
    world.configure(json!({"approval": "required"})).unwrap();
    assert_eq!(world.settle()[&1][0].kind(), "release-approval");
    assert!(!world.stream().pending[0].on_trial, "its count would be stored every few seconds");
    world.wait(3_600_000);
    world.settle();
    world.configure(json!({"approval": "required", "availability": availability})).unwrap();
    world.approve(1).unwrap();
    assert_eq!(world.settle()[&1][0].kind(), "not-available");
    assert_eq!(world.status(1), ReleaseStatus::Pending, "waiting for a person never counts as failure");
}

#[test]
fn plan_from_before_a_rollback_deploys_nothing() {
    let mut world = world();
    for version in 1..=2 {
        world.release(version, json!({}));
    }
    world.create(3, json!({})).unwrap();
    let planned: Vec<Commit> = commits(&world);
    assert!(!planned.is_empty());
    // The event of the rollback has a number of its own: the stream's record decides.
    world.events += 10;
    world.go_back(1).unwrap();
    for commit in &planned {
        assert!(!world.store.commit(commit), "it was planned before the rollback");
    }
    world.check_releases();
    assert_eq!(world.deployed(), Some(4));
}

#[test]
fn a_stream_that_cannot_be_read_stands_still() {
    let mut world = world();
    world.create(1, json!({})).unwrap();
    let mut fleet = world.store.fleet().clone();
    let key = Key::Stream(stream());
    let unreadable = tidegate_proto::Value::decode(&key, b"\xff").map(|_| unreachable!());
    fleet.put(key, unreadable, Revision(9_999));
    assert!(tidegate_planner::plan(&fleet, &world.moment()).actions.is_empty());
    let request = super::fixture::request(2, json!({}));
    let refused =
        release::create(&fleet, &world.moment(), &stream(), None, &request, &super::fixture::asker(""));
    assert!(refused.unwrap_err().message.contains("streams/compute is not UTF-8"));
}
