//! A share of starts first.

use super::fixture::stream;
use crate::sim::World;
use serde_json::json;
use tidegate_planner::release::canary::{StartRule, start};
use tidegate_proto::Key;
use tidegate_proto::key::SignalSubject;
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::signal::Signal;

/// Revision 1 deployed, revision 2 in canary.
fn in_canary(canary: serde_json::Value) -> World {
    let mut world = World::at_version_1(1);
    world.release(1, json!({}));
    world.create(2, json!({"canary": canary})).unwrap();
    world.settle();
    assert_eq!(world.status(2), ReleaseStatus::Canary);
    world
}

fn starts(world: &World) -> Vec<u64> {
    let stream = world.stream();
    let of = |n: usize| {
        start(&super::fixture::stream(), stream, &format!("c{n}").parse().unwrap())
            .unwrap()
            .head
            .release
            .revision
            .get()
    };
    (0..1_000).map(of).collect()
}

fn share(starts: &[u64]) -> usize {
    starts.iter().filter(|revision| **revision == 2).count()
}

#[test]
fn a_share_of_starts_uses_it_and_rising_only_adds() {
    let mut world = in_canary(json!({"fraction": 0.05}));
    let few = starts(&world);
    assert!((20..=80).contains(&share(&few)), "{}", share(&few));
    assert_eq!(few, starts(&world), "the same compute gets the same answer");
    world.promote(2, Some(0.5)).unwrap();
    let more = starts(&world);
    assert!((400..=600).contains(&share(&more)), "{}", share(&more));
    assert!(few.iter().zip(&more).all(|(few, more)| *few != 2 || *more == 2), "rising only adds");
    world.promote(2, None).unwrap();
    assert_eq!((world.deployed(), share(&starts(&world))), (Some(2), 1_000));
}

#[test]
fn release_goes_out_after_enough_success_signals() {
    let mut world = in_canary(json!({"fraction": 0.1, "promote_after": 2, "tolerate": 1}));
    world.signal(2, "c15", true).unwrap();
    assert!(world.signal(2, "c15", true).unwrap().commit.is_none(), "signalled again, nothing changes");
    world.signal(2, "c25", false).unwrap();
    let waiting = world.settle();
    assert_eq!(
        waiting[&2][0].to_string(),
        "1 computes signalled success and 2 are needed; 1 signalled failure and 1 are tolerated"
    );
    world.signal(2, "c25", true).unwrap();
    world.settle();
    assert_eq!(world.deployed(), Some(2), "the last word of a compute stands");
    let words = world.store.keys.keys().filter(|key| matches!(key, Key::Signal(..)));
    assert_eq!(words.count(), 0, "signals are forgotten once it is decided");
    let late = world.signal(2, "z", false).unwrap_err();
    assert!(late.message.contains("not in canary"), "{late}");
}

#[test]
fn damaged_signal_is_replaced_by_the_next_one() {
    let mut world = in_canary(json!({"fraction": 0.1, "promote_after": 1}));
    world.signal(2, "c15", false).unwrap();
    let key = world.store.keys.keys().find(|key| matches!(key, Key::Signal(..))).unwrap().clone();
    world.store.spoil(&key);
    world.signal(2, "c15", true).unwrap();
    world.settle();
    assert_eq!(world.deployed(), Some(2));
}

#[test]
fn canary_is_withdrawn_beyond_budget_and_at_its_deadline() {
    let mut world = in_canary(json!({"fraction": 0.1, "promote_after": 2, "tolerate": 1}));
    world.signal(2, "c15", false).unwrap();
    world.settle();
    assert_eq!(world.status(2), ReleaseStatus::Canary, "one failure is tolerated");
    world.signal(2, "c25", false).unwrap();
    world.settle();
    assert_eq!((world.status(2), world.deployed()), (ReleaseStatus::Error, Some(1)));
    assert_eq!(share(&starts(&world)), 0);
    let mut world = in_canary(json!({"fraction": 0.1, "promote_after": 2, "deadline": "1h"}));
    world.signal(2, "c15", true).unwrap();
    world.wait(3_599_000);
    world.settle();
    world.elect(2);
    assert_eq!(world.status(2), ReleaseStatus::Canary);
    world.wait(1_000);
    world.settle();
    let withdrawn = world.release_record(2).unwrap();
    assert!(withdrawn.because.contains("unmeasured is not success"), "{}", withdrawn.because);
}

#[test]
fn the_next_one_waits_for_the_canary_and_a_rollback_does_not() {
    let mut world = in_canary(json!({"fraction": 0.1}));
    world.create(3, json!({})).unwrap();
    assert_eq!(world.settle()[&3][0].kind(), "canary-busy");
    world.go_back(1).unwrap();
    assert_eq!([2, 3].map(|number| world.status(number)), [ReleaseStatus::Superseded; 2]);
    assert_eq!(world.deployed(), Some(4));
    world.check_releases();
}

#[test]
fn canary_waits_for_an_approval_that_is_asked_for_later() {
    let mut world = in_canary(json!({"fraction": 1, "promote_after": 1}));
    let refused = world.approve(2).unwrap_err();
    assert!(refused.message.contains("asks for no approval"), "{refused}");
    world.configure(json!({"approval": "required"})).unwrap();
    let kinds = |world: &mut World| -> Vec<&'static str> {
        world.settle()[&2].iter().map(tidegate_planner::Reason::kind).collect()
    };
    assert_eq!(kinds(&mut world), ["canary-open", "release-approval"]);
    world.signal(2, "c1", true).unwrap();
    assert_eq!(kinds(&mut world), ["release-approval"]);
    let refused = world.promote(2, None).unwrap_err();
    assert!(refused.message.contains("requires a manual approval"), "{refused}");
    world.approve(2).unwrap();
    world.settle();
    assert_eq!(world.deployed(), Some(2));
}

#[test]
fn where_nothing_is_deployed_there_is_no_canary() {
    let mut world = World::at_version_1(1);
    world.configure(json!({"canary": {"fraction": 0.1}})).unwrap();
    world.release(1, json!({}));
    world.create(2, json!({})).unwrap();
    world.settle();
    assert_eq!(world.status(2), ReleaseStatus::Canary, "the stream's settings apply to the next one");
}

#[test]
fn a_pinned_compute_starts_with_its_own() {
    let mut world = in_canary(json!({"fraction": 1}));
    world.pin("c1", 1).unwrap();
    let stream_now = world.stream();
    let by = |compute: &str| {
        let start = start(&stream(), stream_now, &compute.parse().unwrap()).unwrap();
        (start.head.release.revision.get(), start.by)
    };
    assert_eq!((by("c1"), by("c2")), ((1, StartRule::Pinned), (2, StartRule::Canary)));
    assert!(world.store.fleet().stream(&stream()).is_some());
    world.unpin("c1").unwrap();
    assert_eq!(start(&stream(), world.stream(), &"c1".parse().unwrap()).unwrap().by, StartRule::Canary);
}

#[test]
fn signal_of_a_compute_outside_the_share_does_not_count() {
    let mut world = in_canary(json!({"fraction": 0.1, "promote_after": 1}));
    let before = world.store.revision;
    let outside = world.signal(2, "c1", true).unwrap_err();
    assert!(outside.message.contains("c1 is not within the share"), "{outside}");
    world.pin("c15", 1).unwrap();
    let pinned = world.signal(2, "c15", true).unwrap_err();
    assert!(pinned.message.contains("c15 is not within the share"), "it starts with revision 1: {pinned}");
    world.settle();
    assert_eq!((world.store.revision, world.status(2)), (before + 1, ReleaseStatus::Canary));
    world.signal(2, "c25", true).unwrap();
    world.settle();
    assert_eq!(world.deployed(), Some(2));
}

#[test]
fn canary_that_began_before_places_were_salted_keeps_its_share() {
    let mut world = in_canary(json!({"fraction": 0.3}));
    let salted = starts(&world);
    let mut former = world.stream().record.body.clone();
    former.canary.as_mut().unwrap().salted = false;
    world.store.put(Key::Stream(stream()), former);
    let unsalted = starts(&world);
    assert_ne!(salted, unsalted);
    world.promote(2, Some(0.6)).unwrap();
    let more = starts(&world);
    assert!(unsalted.iter().zip(&more).all(|(few, more)| *few != 2 || *more == 2), "rising only adds");
}

impl World {
    /// What an earlier version stored of a compute, whatever it started with.
    fn stored_signal(&mut self, compute: &str, success: bool) {
        let subject = SignalSubject::Release(stream(), super::fixture::revision(2));
        let (why, who) = (String::new(), "ci".to_owned());
        let word = Signal { generation: None, success, failure: None, why, who, at: Timestamp(0) };
        self.store.put(Key::Signal(subject, compute.parse().unwrap()), word);
    }

    /// The names of the first computes that are within the share, or are not.
    fn computes(&self, within: bool) -> Vec<String> {
        let of = |n: usize| format!("c{n}");
        let is_within = |id: &String| {
            start(&stream(), self.stream(), &id.parse().unwrap()).unwrap().by == StartRule::Canary
        };
        (0..200).map(of).filter(|id| is_within(id) == within).take(3).collect()
    }

    fn counted(&mut self) -> String {
        self.settle()[&2][0].to_string()
    }
}

#[test]
fn stored_signal_of_a_compute_outside_the_share_does_not_count() {
    for salted in [true, false] {
        let mut world = in_canary(json!({"fraction": 0.1, "promote_after": 1}));
        let mut record = world.stream().record.body.clone();
        record.canary.as_mut().unwrap().salted = salted;
        world.store.put(Key::Stream(stream()), record);
        for (compute, success) in world.computes(false).iter().zip([true, true, false]) {
            world.stored_signal(compute, success);
        }
        let none = "0 computes signalled success and 1 are needed; 0 signalled failure and 0 are tolerated";
        assert_eq!(world.counted(), none);
        world.elect(2);
        world.store.rebuild();
        assert_eq!(world.counted(), none, "nor for a new leader that reads the store");
        let within = world.computes(true);
        world.stored_signal(&within[0], true);
        world.settle();
        assert_eq!(world.deployed(), Some(2));
    }
}

#[test]
fn stored_failure_within_the_share_counts() {
    let mut world = in_canary(json!({"fraction": 0.1, "promote_after": 2}));
    let within = world.computes(true);
    world.stored_signal(&within[0], false);
    world.settle();
    assert_eq!((world.deployed(), world.status(2)), (Some(1), ReleaseStatus::Error));
}

#[test]
fn pin_takes_back_a_success_and_no_failure() {
    let mut world = in_canary(json!({"fraction": 0.1, "promote_after": 2, "tolerate": 1}));
    let within = world.computes(true);
    for (compute, success) in within.iter().zip([true, false]) {
        world.signal(2, compute, success).unwrap();
        world.pin(compute, 1).unwrap();
    }
    assert_eq!(
        world.counted(),
        "0 computes signalled success and 2 are needed; 1 signalled failure and 1 are tolerated"
    );
}

#[test]
fn canary_that_manual_strategy_replaces_is_superseded() {
    let mut world = in_canary(json!({"fraction": 0.5}));
    world.pin("c1", 2).unwrap();
    let canary = json!({"fraction": 0.5});
    world.create(3, json!({"canary": canary})).unwrap();
    world.create(3, json!({"canary": canary, "requires": {"pantry-api": 1}})).unwrap();
    world.configure(json!({"strategy": {"manual": "release-3"}})).unwrap();
    let waiting = world.settle();
    assert_eq!((world.status(4), world.status(2)), (ReleaseStatus::Canary, ReleaseStatus::Superseded));
    let pinned = start(&stream(), world.stream(), &"c1".parse().unwrap()).unwrap();
    assert_eq!((pinned.head.release.revision.get(), pinned.by), (2, StartRule::Pinned));
    assert_eq!(waiting[&3][0].kind(), "canary-busy", "one canary at a time: {waiting:?}");
    world.unpin("c1").unwrap();
    world.settle();
    assert_eq!(world.status(2), ReleaseStatus::Deprecated, "it is collected like any other");
}
