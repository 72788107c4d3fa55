//! A record that cannot be read costs what its own instance costs: it is named, and the others go on.

use crate::sim::{World, node, release, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::{Known, Plan};
use tidegate_proto::Key;
use tidegate_proto::record::upgrade::Phase;

fn assert_named(planned: &Plan, key: &Key) {
    let record = format!("the record {key} ");
    let reasons = &planned.waiting[&upgrade_id()];
    assert!(reasons.iter().any(|reason| reason.to_string().contains(&record)), "{reasons:?}");
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
