//! The three patterns, and what ends them.

use super::edge::group;
use crate::sim::{World, node};
use serde_json::json;
use std::collections::BTreeSet;
use tidegate_proto::record::Malformed;
use tidegate_proto::record::group::{ExposedPage, UpdateOutcome};
use tidegate_proto::{Key, MetadataGeneration, NodeId};

/// A group of `nodes` instances that all have generation 1.
fn with_a_document(nodes: usize) -> World {
    let mut world = World::at_version_1(nodes);
    world.set(1, json!({"service": "pantry-api"})).unwrap();
    assert_eq!(world.all_serve(), vec![Some(1); nodes]);
    world
}

fn signal_all(world: &mut World, nodes: &BTreeSet<NodeId>) {
    nodes.iter().for_each(|node| drop(world.signal_metadata(node, true, None).unwrap()));
}

#[test]
fn immediate_is_the_default_and_waits_for_no_signal() {
    let mut world = with_a_document(3);
    world.set(2, json!({})).unwrap();
    assert_eq!(world.all_serve(), vec![Some(2); 3]);
    assert!(world.group().update.is_none());
    assert!(world.rest().is_empty());
    assert!(world.set(2, json!({})).unwrap().commit.is_none(), "it is so already");
    assert_eq!(world.documents(), [1, 2].into(), "the former one is kept");
    world.set(3, json!({})).unwrap();
    assert_eq!(world.documents(), [2, 3].into());
}

#[test]
fn rolling_exposes_the_next_after_each_signal() {
    let mut world = with_a_document(4);
    world.set(2, json!({"pattern": "rolling"})).unwrap();
    let mut before = BTreeSet::new();
    for count in 1..=4 {
        let reasons = world.rest();
        let exposed = world.exposed_to(2);
        assert_eq!(exposed.len(), count);
        assert!(exposed.is_superset(&before), "no instance is taken back");
        let fresh: BTreeSet<_> = exposed.difference(&before).cloned().collect();
        let name = fresh.first().unwrap();
        assert_eq!(reasons[0].to_string(), format!("batch {count}/4: no signal yet from {name}"));
        let hidden = (0..4).map(node).find(|n| !exposed.contains(n));
        if let Some(hidden) = hidden {
            let refused = world.signal_metadata(&hidden, true, None).unwrap_err();
            assert!(refused.message.contains("is not exposed"), "{refused}");
        }
        signal_all(&mut world, &fresh);
        before = exposed;
    }
    assert!(world.rest().is_empty());
    assert_eq!(world.group().current.unwrap().generation.get(), 2);
    assert_eq!(world.group().last.as_ref().unwrap().outcome, UpdateOutcome::Finished);
    assert!(world.is_tidy());
    assert_eq!(world.documents(), [1, 2].into());
    let reported = world.events_of_group();
    assert_eq!(reported.len(), 6, "{reported:#?}");
    assert!(
        reported[1].contains("generation 2 at batch 1/4 for 4 of the instances of pantry-api (anna)"),
        "{reported:#?}"
    );
    assert!(reported[5].contains("generation 2 is served to all (coordinator)"), "{reported:#?}");
}

#[test]
fn canary_grows_as_heat_has_it() {
    let mut world = with_a_document(100);
    world.set(2, json!({"pattern": "canary"})).unwrap();
    let mut sizes = Vec::new();
    let mut before = BTreeSet::new();
    while world.group().update.is_some() {
        world.rest();
        let exposed = world.exposed_to(2);
        let fresh: BTreeSet<_> = exposed.difference(&before).cloned().collect();
        sizes.push(fresh.len());
        signal_all(&mut world, &fresh);
        before = exposed;
        world.turn();
    }
    assert_eq!(sizes, [1, 1, 5, 20, 73]);
}

#[test]
fn a_failure_returns_all_to_the_former_document() {
    let mut world = with_a_document(4);
    world.set(2, json!({"pattern": "rolling", "batch": 2})).unwrap();
    world.rest();
    let exposed: Vec<_> = world.exposed_to(2).into_iter().collect();
    world.signal_metadata(&exposed[0], true, None).unwrap();
    world.signal_metadata(&exposed[1], false, Some("hook")).unwrap();
    world.rest();
    assert_eq!(world.all_serve(), vec![Some(1); 4]);
    let last = world.group().last.clone().unwrap();
    assert_eq!(last.outcome, UpdateOutcome::Returned);
    assert!(
        last.because.contains(&format!("1 of 4 instances failed and 0 are tolerated: {} (hook)", exposed[1]))
    );
    assert!(world.is_tidy());
    let again = world.set(2, json!({"pattern": "rolling"})).unwrap();
    assert_eq!(again.generation.unwrap().get(), 3, "it may be tried again, under another number");
    assert_eq!(world.documents(), [1, 3].into());
}

#[test]
fn tolerated_failures_continue_and_last_signal_counts() {
    let mut world = with_a_document(4);
    let terms = json!({"pattern": "rolling", "batch": 2, "tolerate": "25%", "expected": ["busy"]});
    world.set(2, terms).unwrap();
    world.rest();
    let first: Vec<_> = world.exposed_to(2).into_iter().collect();
    world.signal_metadata(&first[0], false, Some("busy")).unwrap();
    world.signal_metadata(&first[1], false, None).unwrap();
    world.rest();
    assert_eq!(world.exposed_to(2).len(), 4, "one in four is tolerated, and being busy is expected");
    let rest: Vec<_> = world.exposed_to(2).into_iter().filter(|node| !first.contains(node)).collect();
    world.signal_metadata(&rest[0], true, None).unwrap();
    world.signal_metadata(&first[1], true, None).unwrap();
    world.signal_metadata(&rest[1], false, Some("hook")).unwrap();
    world.rest();
    assert_eq!(world.all_serve(), vec![Some(2); 4], "the first failure was taken back");
    let last = world.group().last.clone().unwrap();
    assert_eq!(
        last.because,
        "2 of 4 instances signalled success; 1 failed, which is tolerated; 1 failed as expected"
    );
}

#[test]
fn late_failure_signal_still_returns_all() {
    let mut world = with_a_document(3);
    world.set(2, json!({"pattern": "rolling"})).unwrap();
    world.rest();
    let first = world.exposed_to(2).pop_first().unwrap();
    world.signal_metadata(&first, true, None).unwrap();
    world.rest();
    assert_eq!(world.exposed_to(2).len(), 2);
    world.signal_metadata(&first, false, None).unwrap();
    world.rest();
    assert_eq!(world.all_serve(), vec![Some(1); 3]);
}

#[test]
fn missing_signal_is_a_failure_that_may_be_expected() {
    for (expected, goes_on) in [(json!([]), false), (json!(["timeout"]), true)] {
        let mut world = with_a_document(2);
        let terms = json!({"pattern": "rolling", "timeout": "1m", "expected": expected});
        world.set(2, terms).unwrap();
        world.rest();
        world.pass(59_999);
        world.rest();
        assert_eq!(world.exposed_to(2).len(), 1);
        world.pass(1);
        world.rest();
        assert_eq!(world.exposed_to(2).len(), if goes_on { 2 } else { 0 });
        if !goes_on {
            let last = world.group().last.clone().unwrap();
            assert!(last.because.contains("(timeout: no signal within 1m)"), "{}", last.because);
            continue;
        }
        world.pass(60_000);
        world.rest();
        let last = world.group().last.clone().unwrap();
        assert_eq!(last.outcome, UpdateOutcome::Returned);
        assert!(last.because.contains("unmeasured is not success"), "{}", last.because);
    }
}

#[test]
fn the_count_outlives_the_leader_that_counted() {
    let mut world = with_a_document(2);
    world.set(2, json!({"pattern": "rolling", "timeout": "1m"})).unwrap();
    for term in 2..=12 {
        world.rest();
        assert_eq!(world.exposed_to(2).len(), 1);
        world.pass(5_000);
        world.turn();
        world.group_uncounted.clear();
        world.elect(term);
    }
    world.pass(5_000);
    world.rest();
    assert_eq!(world.group().last.as_ref().unwrap().outcome, UpdateOutcome::Returned);
}

#[test]
fn a_batch_is_watched_for_as_long_as_was_asked() {
    let mut world = with_a_document(2);
    world.set(2, json!({"pattern": "rolling", "pause": "10s"})).unwrap();
    world.rest();
    let first = world.exposed_to(2);
    signal_all(&mut world, &first);
    let reasons = world.rest();
    assert_eq!(reasons[0].kind(), "soaking", "{reasons:?}");
    world.pass(10_000);
    world.rest();
    assert_eq!(world.exposed_to(2).len(), 2);
}

#[test]
fn second_update_is_refused_unless_it_is_the_same() {
    let mut world = with_a_document(2);
    let asked = json!({"pattern": "rolling"});
    world.set(2, asked.clone()).unwrap();
    assert!(world.set(2, asked).unwrap().commit.is_none());
    for (x, change) in [(3, json!({})), (2, json!({"pattern": "canary"})), (2, json!({"instances": ["n0"]}))]
    {
        let refused = world.set(x, change).unwrap_err();
        assert!(refused.message.contains("one update runs at a time"), "{refused}");
    }
    world.cancel().unwrap();
    assert_eq!(world.all_serve(), vec![Some(1); 2]);
    assert_eq!(world.group().last.as_ref().unwrap().outcome, UpdateOutcome::Cancelled);
    assert!(world.cancel().unwrap().commit.is_none());
    world.set(3, json!({})).unwrap();
    assert_eq!(world.all_serve(), vec![Some(3); 2]);
}

#[test]
fn first_document_is_rolled_and_named_nodes_are_members() {
    let mut world = World::at_version_1(0);
    let missing = world.set(1, json!({"pattern": "rolling"})).unwrap_err();
    assert!(missing.message.contains("say who belongs"), "{missing}");
    let without = world.set(1, json!({"service": "other"})).unwrap_err();
    assert!(without.message.contains("no instance of other"), "{without}");
    let named = json!({"pattern": "rolling", "instances": ["i-1", "i-2"]});
    world.set(1, named).unwrap();
    world.rest();
    let names: [NodeId; 2] = ["i-1", "i-2"].map(|name| name.parse().unwrap());
    let served: BTreeSet<_> = names.iter().map(|name| world.serves(name)).collect();
    assert_eq!(served, [None, Some(1)].into());
    let first = names.iter().find(|name| world.serves(name).is_some()).unwrap();
    let stranger = world.signal_metadata(&"i-3".parse().unwrap(), true, None).unwrap_err();
    assert!(stranger.message.contains("has no instance i-3"), "{stranger}");
    world.signal_metadata(first, false, None).unwrap();
    world.rest();
    assert!(names.iter().all(|name| world.serves(name).is_none()), "there was nothing before");
    world.set(2, json!({"instances": ["i-1"]})).unwrap();
    let other = world.set(2, json!({"instances": ["i-2"]})).unwrap();
    assert!(other.commit.is_some() && world.group().latest.get() == 2, "other members, the same document");
}

#[test]
fn decommissioned_instance_does_not_block_update() {
    let mut world = with_a_document(2);
    world.set(2, json!({"pattern": "rolling"})).unwrap();
    world.rest();
    world.join(2, 1);
    assert_eq!(world.serves(&node(2)), Some(1));
    let late = world.signal_metadata(&node(2), true, None).unwrap_err();
    assert!(late.message.contains("came after"), "{late}");
    let first = world.exposed_to(2).pop_first().unwrap();
    world
        .store
        .commit(&tidegate_proto::Commit::new().delete(Key::Report(crate::sim::service(), first.clone())));
    let asker = super::edge::asker("burnt down");
    let commit = tidegate_planner::ask::decommission(
        world.store.fleet(),
        &world.moment(),
        &tidegate_proto::InstanceId::new(crate::sim::service(), first),
        Default::default(),
        &asker,
    )
    .unwrap();
    assert!(world.store.commit(&commit));
    world.events += 1;
    world.rest();
    let second = world.exposed_to(2);
    assert!(!second.is_empty(), "it went on");
    let second: BTreeSet<_> = second.into_iter().filter(|n| *n != node(2)).collect();
    for n in second {
        drop(world.signal_metadata(&n, true, None));
    }
    world.rest();
    assert_eq!(world.serves(&node(2)), Some(2), "it is served to all now");
}

#[test]
fn unreadable_page_stops_the_update_and_serves_no_document() {
    let mut world = with_a_document(2);
    world.set(2, json!({"pattern": "rolling"})).unwrap();
    world.rest();
    let key = Key::Exposed(group(), 0);
    let fleet_of = |world: &World| world.store.fleet().clone();
    let mut fleet = fleet_of(&world);
    fleet.put(key.clone(), Err(Malformed::Encoding), fleet.revision());
    let stored = fleet.group(&group()).unwrap();
    let served = tidegate_planner::metadata::document_of(&fleet, &group(), stored, &node(0));
    assert!(served.is_err(), "it may have generation 2 already: {served:?}");
    let planned = tidegate_planner::plan(&fleet, &world.moment());
    assert!(planned.actions.is_empty());
    assert_eq!(planned.groups[&group()][0].to_string(), "the record exposed/edge/000000 is not UTF-8");
    let mut fleet = fleet_of(&world);
    let page = ExposedPage { generation: MetadataGeneration::new(9).unwrap(), members: Default::default() };
    fleet.put(key, Ok(page.into()), fleet.revision());
    assert_eq!(tidegate_planner::plan(&fleet, &world.moment()).groups[&group()][0].kind(), "unreadable");
}

#[test]
fn plan_made_before_a_cancel_exposes_no_instance() {
    let mut world = with_a_document(3);
    world.set(2, json!({"pattern": "rolling"})).unwrap();
    world.rest();
    let first = world.exposed_to(2);
    signal_all(&mut world, &first);
    // Events that are not numbered alike do not refuse one another: the group's record alone must.
    let mut moment = world.moment();
    moment.next_event += 10;
    let planned = tidegate_planner::plan(world.store.fleet(), &moment);
    world.cancel().unwrap();
    for action in planned.actions {
        let tidegate_planner::Action::Commit(planned) = action else { continue };
        assert!(!world.store.commit(&planned.commit), "{} was carried out", planned.what);
    }
    assert_eq!(world.all_serve(), vec![Some(1); 3]);
}
