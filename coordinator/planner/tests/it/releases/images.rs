//! Images are kept and removed by tag: several revisions may bear one.

use super::fixture::reported;
use crate::sim::World;
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use tidegate_proto::record::release::ReleaseStatus;
use tidegate_proto::record::task::Outcome;
use tidegate_proto::{Key, NodeId, ReleaseTag, TaskId, Value};

/// Two are kept; what is collected is removed from n7.
pub(super) fn removing() -> Json {
    json!({"minimum_available": 2, "removal": {"hook": "drop-image", "nodes": ["n7"]}})
}

pub(super) fn with_prewarm() -> Json {
    let mut settings = removing();
    settings["prewarm"] = json!({"hook": "pull-image", "nodes": ["n7"]});
    settings
}

impl World {
    /// Every removal in the store that no agent has claimed, with its tag.
    pub(crate) fn unclaimed_removals(&self) -> Vec<(NodeId, TaskId, ReleaseTag)> {
        let hooks = self.hooks("remove-");
        hooks
            .into_iter()
            .filter(|(.., outcome)| outcome.is_none())
            .map(|(node, id, tag, _)| (node, id, tag))
            .collect()
    }

    /// Every task whose name begins so.
    pub(crate) fn hooks(&self, begins: &str) -> Vec<(NodeId, TaskId, ReleaseTag, Option<Outcome>)> {
        let outcome = |node: &NodeId, id: &TaskId| match self
            .store
            .keys
            .get(&Key::TaskResult(node.clone(), id.clone()))
        {
            Some((Value::TaskResult(record), ..)) => Some(record.body.outcome.clone()),
            _ => None,
        };
        let of = |(key, (value, ..)): (&Key, &(Value, _, _))| match (key, value) {
            (Key::Task(node, id), Value::Task(task)) if id.as_str().starts_with(begins) => {
                Some((node.clone(), id.clone(), task.body.release.tag.clone(), outcome(node, id)))
            }
            _ => None,
        };
        self.store.keys.iter().filter_map(of).collect()
    }

    /// The agents' part: every hook of that kind has this outcome.
    pub(crate) fn each_hook(&mut self, begins: &str, outcome: Outcome) -> usize {
        let open = |had: &Option<Outcome>| matches!(had, None | Some(Outcome::Claimed));
        let hooks: Vec<_> = self.hooks(begins).into_iter().filter(|(.., had)| open(had)).collect();
        for (node, id, ..) in &hooks {
            let result = reported(node, outcome.clone());
            self.store.put(Key::TaskResult(node.clone(), id.clone()), result);
        }
        hooks.len()
    }

    /// Settles while every prewarm hook succeeds.
    pub(crate) fn settle_warmed(&mut self) {
        self.settle();
        while self.each_hook("prewarm-", Outcome::Succeeded) > 0 {
            self.settle();
        }
    }

    /// Four more releases, so that the first is collected and its image removed.
    pub(crate) fn with_first_removed() -> Self {
        let mut world = Self::at_version_1(1);
        world.configure(with_prewarm()).unwrap();
        for version in 1..=5 {
            world.create(version, json!({})).unwrap();
            world.settle_warmed();
        }
        assert_eq!(world.each_hook("remove-", Outcome::Succeeded), 3);
        world.settle();
        assert_eq!((world.status(1), world.deployed()), (ReleaseStatus::Deprecated, Some(5)));
        world
    }

    /// The tags that anything but a collected release holds.
    fn held_tags(&self) -> BTreeSet<ReleaseTag> {
        let Some(stream) = self.store.fleet().stream(&super::fixture::stream()) else {
            return BTreeSet::new();
        };
        let live = stream.heads().filter(|head| head.release.status != ReleaseStatus::Deprecated);
        let running =
            stream.running.iter().filter(|(_, running)| running.count > 0).map(|(tag, _)| tag.clone());
        let manual = stream.settings.strategy.manual.clone();
        live.map(|head| head.release.tag.clone()).chain(running).chain(manual).collect()
    }

    /// What the open hooks do to the images.
    fn carry_out(&self, present: &mut BTreeSet<ReleaseTag>) {
        for (_, id, tag, had) in self.hooks("") {
            match had {
                Some(Outcome::Succeeded | Outcome::Failed { .. }) => {}
                _ if id.as_str().starts_with("remove-") => drop(present.remove(&tag)),
                _ => drop(present.insert(tag)),
            }
        }
    }

    fn no_held_image_is_removed(&self) {
        let held = self.held_tags();
        for (_, id, tag) in self.unclaimed_removals() {
            assert!(!held.contains(&tag), "{id} would remove {tag}, which is held");
        }
    }
}

#[test]
fn image_of_the_deployed_tag_is_not_removed_after_a_rollback() {
    let mut world = World::at_version_1(1);
    world.configure(with_prewarm()).unwrap();
    for version in [1, 2] {
        world.create(version, json!({})).unwrap();
        world.settle_warmed();
    }
    world.go_back(1).unwrap();
    world.settle_warmed();
    assert_eq!(world.deployed(), Some(3));
    assert_eq!(world.status(1), ReleaseStatus::Deprecated, "the revision is history");
    assert!(world.hooks("remove-").is_empty(), "its image is what revision 3 runs");
    // Once the last revision with the tag is collected, the image is removed.
    for version in [3, 4] {
        world.create(version, json!({})).unwrap();
        world.settle_warmed();
    }
    let tags: BTreeSet<String> =
        world.unclaimed_removals().into_iter().map(|(.., tag)| tag.to_string()).collect();
    assert_eq!(tags, ["release-1", "release-2"].map(String::from).into());
}

#[test]
fn rollback_to_a_removed_image_warms_it_up_first() {
    let mut world = World::with_first_removed();
    world.create(6, json!({})).unwrap();
    world.go_back(1).unwrap();
    let waiting = world.settle();
    assert_eq!((world.deployed(), world.status(7)), (Some(5), ReleaseStatus::Pending));
    assert!(waiting[&7][0].to_string().contains("pull-image"), "{waiting:?}");
    assert_eq!(waiting[&6][0].kind(), "rolls-back", "what waits is overtaken: {waiting:?}");
    let refused = world.promote(6, None).unwrap_err();
    assert!(refused.message.contains("revision 7 rolls back"), "{refused}");
    assert!(world.go_back(1).unwrap().commit.is_none(), "that is under way");
    world.settle_warmed();
    assert_eq!((world.deployed(), world.status(6)), (Some(7), ReleaseStatus::Deprecated));
}

#[test]
fn failed_image_warm_up_of_rollback_keeps_deployed_release() {
    let mut world = World::with_first_removed();
    world.go_back(1).unwrap();
    world.settle();
    world.each_hook("prewarm-", Outcome::Failed { why: "manifest unknown".into() });
    world.settle();
    assert_eq!((world.deployed(), world.status(6)), (Some(5), ReleaseStatus::Error));
    let because = world.release_record(6).unwrap().record.body.because;
    assert!(because.contains("manifest unknown") && because.contains("--no-prewarm"), "{because}");
    world.retry(6).unwrap();
    world.settle_warmed();
    assert_eq!(world.deployed(), Some(6));
}

#[test]
fn rollback_to_removed_image_without_hook_is_refused() {
    let mut world = World::at_version_1(1);
    world.configure(removing()).unwrap();
    for version in 1..=5 {
        world.release(version, json!({}));
    }
    let refused = world.go_back(1).unwrap_err();
    assert!(refused.message.contains("no prewarm hook"), "{refused}");
    assert!(refused.message.contains("rollback 1 --stream compute --no-prewarm"), "{refused}");
    world.go_back_with(1, false).unwrap();
    assert_eq!(world.deployed(), Some(6));
}

#[test]
fn emergency_does_not_wait_for_the_image() {
    let mut world = World::with_first_removed();
    world.go_back(1).unwrap();
    world.settle();
    world.go_back_with(1, false).unwrap();
    world.settle();
    assert_eq!((world.deployed(), world.status(6)), (Some(7), ReleaseStatus::Deprecated));
}

#[test]
fn waiting_rollback_ends_by_return_to_deployed_release() {
    let mut world = World::with_first_removed();
    world.go_back(1).unwrap();
    world.go_back(5).unwrap();
    world.settle();
    assert_eq!((world.deployed(), world.status(6)), (Some(7), ReleaseStatus::Deprecated));
    assert!(world.release_record(7).unwrap().record.body.rollback_of.is_some());
}

#[test]
fn waiting_rollback_holds_canary_without_approval_or_trial() {
    let mut world = World::with_first_removed();
    world.create(6, json!({"canary": {"fraction": 1, "promote_after": 1}})).unwrap();
    world.settle_warmed();
    assert_eq!(world.status(6), ReleaseStatus::Canary);
    let mut strict = with_prewarm();
    strict["approval"] = json!("required");
    strict["canary"] = json!({"fraction": 0.1});
    strict["availability"] = json!({"min_healthy_time": "1m", "healthy_deadline": "1h"});
    world.configure(strict).unwrap();
    world.go_back(1).unwrap();
    world.signal(6, "c1", true).unwrap();
    let waiting = world.settle();
    assert!(waiting[&6].iter().any(|reason| reason.kind() == "rolls-back"), "{waiting:?}");
    world.settle_warmed();
    assert_eq!((world.deployed(), world.status(6)), (Some(7), ReleaseStatus::Deprecated));
}

#[test]
fn commit_needing_image_withdraws_unclaimed_removal() {
    let mut world = World::at_version_1(1);
    world.configure(removing()).unwrap();
    for version in 1..=3 {
        world.release(version, json!({"branch": format!("b{version}")}));
    }
    assert_eq!(world.unclaimed_removals().len(), 1);
    world.create(1, json!({"branch": "b1", "manifest": {"extensions": {"x": "1"}}})).unwrap();
    assert!(world.unclaimed_removals().is_empty(), "before any turn");
    world.settle();
    assert_eq!(world.deployed(), Some(4));
}

#[test]
fn many_removals_are_withdrawn_before_release_goes_out() {
    let mut world = World::at_version_1(1);
    world.configure(removing()).unwrap();
    for version in 1..=3 {
        world.release(version, json!({"branch": format!("b{version}")}));
    }
    let (_, id, _) = world.unclaimed_removals().pop().unwrap();
    let ordered = world.store.keys[&Key::Task("n7".parse().unwrap(), id.clone())].0.clone();
    for node in 100..300 {
        world.store.put(Key::Task(format!("n{node}").parse().unwrap(), id.clone()), ordered.clone());
    }
    world.create(1, json!({"branch": "b1", "manifest": {"extensions": {"x": "1"}}})).unwrap();
    assert!(!world.unclaimed_removals().is_empty(), "they do not fit");
    for _ in 0..20 {
        if world.deployed() == Some(4) {
            break;
        }
        assert_eq!(world.deployed(), Some(3));
        world.turn();
        if world.deployed() == Some(4) {
            assert!(world.unclaimed_removals().is_empty(), "an agent could still begin one");
        }
    }
    assert_eq!(world.deployed(), Some(4));
}

#[test]
fn claimed_removal_blocks_release_until_image_is_prewarmed() {
    let mut world = World::at_version_1(1);
    world.configure(with_prewarm()).unwrap();
    for version in 1..=3 {
        world.create(version, json!({"branch": format!("b{version}")})).unwrap();
        world.settle_warmed();
    }
    world.each_hook("remove-", Outcome::Claimed);
    world.create(1, json!({"branch": "b1", "manifest": {"extensions": {"x": "1"}}})).unwrap();
    let waiting = world.settle();
    assert_eq!(waiting[&4][0].to_string(), "hook drop-image runs on n7");
    assert!(world.hooks("prewarm-").is_empty(), "nothing is pulled while the removal runs");
    let refused = world.promote(4, None).unwrap_err();
    assert!(refused.message.contains("hook drop-image runs on n7"), "{refused}");
    let refused = world.pin("c1", 4).unwrap_err();
    assert!(refused.message.contains("hook drop-image runs on n7"), "{refused}");
    world.each_hook("remove-", Outcome::Succeeded);
    world.settle();
    assert_eq!((world.deployed(), world.hooks("prewarm-").len()), (Some(3), 1));
    world.settle_warmed();
    assert_eq!(world.deployed(), Some(4));
}

#[test]
fn emergency_is_refused_while_an_agent_removes_the_image() {
    let mut world = World::at_version_1(1);
    world.configure(with_prewarm()).unwrap();
    for version in 1..=3 {
        world.create(version, json!({})).unwrap();
        world.settle_warmed();
    }
    for state in [Outcome::Claimed, Outcome::Unknown { why: "the machine was rebooted".into() }] {
        world.each_hook("remove-", state);
        let refused = world.go_back_with(1, false).unwrap_err();
        assert!(refused.message.contains("drop-image"), "{refused}");
        assert!(refused.message.contains("on n7"), "{refused}");
        assert_eq!(world.deployed(), Some(3));
    }
}

#[derive(Debug, Clone)]
enum Happening {
    Turn,
    Create(u64, u32),
    GoBack(u64),
    Pin(u64),
    Unpin,
    Running(u64),
    Manual(Option<u64>),
    Retry(u64),
    /// Agents report an outcome of every hook.
    Agents(Outcome),
}

fn happening() -> impl Strategy<Value = Happening> {
    let outcome = prop_oneof![
        Just(Outcome::Claimed),
        Just(Outcome::Succeeded),
        Just(Outcome::Succeeded),
        Just(Outcome::Failed { why: "busy".into() }),
    ];
    prop_oneof![
        6 => Just(Happening::Turn),
        4 => (1..5u64, 0..3u32).prop_map(|(version, manifest)| Happening::Create(version, manifest)),
        3 => (1..12u64).prop_map(Happening::GoBack),
        1 => (1..12u64).prop_map(Happening::Pin),
        1 => Just(Happening::Unpin),
        1 => (1..5u64).prop_map(Happening::Running),
        1 => prop::option::of(1..5u64).prop_map(Happening::Manual),
        1 => (1..12u64).prop_map(Happening::Retry),
        4 => outcome.prop_map(Happening::Agents),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn no_removal_is_ordered_of_an_image_that_anything_holds(happenings in prop::collection::vec(happening(), 10..120)) {
        let mut world = World::at_version_1(1);
        world.configure(with_prewarm()).unwrap();
        let mut present = BTreeSet::new();
        for happening in happenings {
            match happening {
                Happening::Turn => drop(world.settle()),
                Happening::Create(version, manifest) => {
                    let change = json!({"branch": format!("b{version}"), "manifest": {"extensions": {"n": manifest.to_string()}}});
                    drop(world.create(version, change));
                }
                Happening::GoBack(number) if world.release_record(number).is_some() => drop(world.go_back(number)),
                Happening::GoBack(_) => {}
                Happening::Pin(number) => drop(world.pin("c1", number)),
                Happening::Unpin => drop(world.unpin("c1")),
                Happening::Running(version) => drop(world.run_computes(&[(&format!("release-{version}"), 1)])),
                Happening::Manual(version) => {
                    let mut settings = with_prewarm();
                    if let Some(version) = version {
                        settings["strategy"] = json!({"manual": format!("release-{version}")});
                    }
                    drop(world.configure(settings));
                }
                Happening::Retry(number) => drop(world.retry(number)),
                Happening::Agents(outcome) => {
                    if outcome == Outcome::Succeeded {
                        world.carry_out(&mut present);
                    }
                    world.each_hook("", outcome);
                }
            }
            let deployed = world.deployed().map(|number| world.release_record(number).unwrap().record.body.tag);
            assert!(deployed.is_none_or(|tag| present.contains(&tag)), "its image is there");
            world.no_held_image_is_removed();
        }
        world.each_hook("", Outcome::Succeeded);
        world.settle_warmed();
        world.no_held_image_is_removed();
    }
}
