//! A plan in which the version that an instance runs is not known.

use super::{apply, blank_in_mid_roll, window};
use crate::sim::{World, node, service, spec};
use serde_json::json;
use tidegate_planner::ask::reconcile::Choices;
use tidegate_planner::gate::preflight;
use tidegate_proto::Key;

/// A restored store has a record as it was while it could not be read: a person has to learn which.
#[test]
fn unreadable_record_of_an_instance_is_named_by_the_plan() {
    let mut world = blank_in_mid_roll();
    let keys = [Key::Directive(service(), node(2)), Key::Decommission(service(), node(2))];
    keys.iter().for_each(|key| world.store.spoil(key));
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    for key in &keys {
        assert!(refused.message.contains(&format!("the record {key} is not UTF-8")), "{refused}");
    }
    world.store.rebuild();
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(window(&world), Some((1, 2)));
}

#[test]
fn unreadable_record_of_an_instance_is_named_by_preflight() {
    let mut world = World::at_version_1(3);
    let key = Key::Directive(service(), node(2));
    world.store.spoil(&key);
    let found = preflight::findings(world.store.fleet(), &spec(json!({})), None);
    let named = found.iter().find(|finding| finding.what.contains(&format!("the record {key} is not UTF-8")));
    assert!(named.is_some_and(|finding| finding.blocks), "{found:?}");
}
