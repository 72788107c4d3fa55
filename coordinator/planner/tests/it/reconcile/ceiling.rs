//! Ceilings that a reconciliation leaves: room for what may be in rotation, and for what a former store admitted.

use super::{apply, blank_in_mid_roll, disregard, elect, publish, testify, version, window};
use crate::sim::{Store, World, node, service, spec, upgrade_id};
use serde_json::json;
use tidegate_planner::ask::reconcile::Choices;
use tidegate_proto::record::maintenance::Maintenance;
use tidegate_proto::record::report::{Rotation, Step, Witness};
use tidegate_proto::record::window::Window;
use tidegate_proto::{Key, Revision, ServiceVersion};

/// Two instances obeyed the window [1, 1] of a store that is blank now, and n2 has joined the blank one at version 2.
fn with_a_newcomer(rotation: Rotation) -> World {
    let mut world = World::at_version_1(2);
    elect(&mut world, 1);
    let obeyed = Window { floor: version(1), ceiling: version(1), set_by: upgrade_id(), contracted: None };
    world.store.put(Key::Window(service()), obeyed);
    world.agents_step();
    testify(&mut world);
    world.store = Store::default();
    publish(&mut world);
    elect(&mut world, 9);
    world.join(2, 2);
    let report = &mut world.agents.get_mut(&node(2)).unwrap().report;
    (report.step, report.rotation) = (Step::Verifying, rotation);
    world.publish(&node(2));
    world
}

/// The schema may not have what its version uses.
#[test]
fn newcomer_out_of_rotation_raises_no_ceiling() {
    let mut world = with_a_newcomer(Rotation::Out);
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    assert!(refused.message.contains("n2: it runs version 2, outside the new window [1, 1]"), "{refused}");
    apply(&mut world, &disregard(&[2])).unwrap();
    assert_eq!(window(&world), Some((1, 1)));
    assert!(!world.admit(&node(2)), "its agent refuses it before it comes into rotation");
}

#[test]
fn newcomer_that_may_be_in_rotation_gets_room() {
    let not_out =
        [Rotation::In, Rotation::Leaving, Rotation::Returning, Rotation::Maintenance, Rotation::Unknown];
    for rotation in not_out {
        let mut world = with_a_newcomer(rotation);
        apply(&mut world, &Choices::default()).unwrap();
        assert_eq!(window(&world), Some((1, 2)), "{rotation:?}");
    }
}

/// Its agent hid it only a moment before, or a person hides it as well.
#[test]
fn refused_newcomer_that_is_hidden_raises_no_ceiling() {
    let refused_in = |rotation: Rotation| {
        let mut world = with_a_newcomer(rotation);
        let report = &mut world.agents.get_mut(&node(2)).unwrap().report;
        report.step = Step::Refused { reason: "above the ceiling".into() };
        report.probed = report.version.take();
        world.publish(&node(2));
        world
    };
    for rotation in [Rotation::Leaving, Rotation::Maintenance] {
        let mut world = refused_in(rotation);
        let refused = apply(&mut world, &Choices::default()).unwrap_err();
        let outside = "n2: it runs version 2, outside the new window [1, 1]";
        assert!(refused.message.contains(outside), "{rotation:?}: {refused}");
        apply(&mut world, &disregard(&[2])).unwrap();
        assert_eq!(window(&world), Some((1, 1)), "{rotation:?}");
    }
    let mut world = refused_in(Rotation::In);
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(window(&world), Some((1, 2)), "no disable-file keeps it out");
}

/// The roll had replaced three of four, and nothing is verified.
#[test]
fn applied_claim_gets_room_also_out_of_rotation() {
    let mut world = blank_in_mid_roll();
    for n in 0..4 {
        let report = &mut world.agents.get_mut(&node(n)).unwrap().report;
        (report.step, report.rotation) = (Step::Verifying, Rotation::Out);
        world.publish(&node(n));
    }
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(window(&world), Some((1, 2)));
}

fn up_to(ceiling: ServiceVersion) -> Window {
    Window { floor: version(1), ceiling, set_by: upgrade_id(), contracted: None }
}

/// Every agent obeys the window [1, 1], and the store is restored to before that was set.
fn loses_the_window_1_1(world: &mut World) {
    let backup = world.store.clone();
    world.store.put(Key::Window(service()), up_to(version(1)));
    world.agents_step();
    testify(world);
    world.store = backup;
    publish(world);
    elect(world, 9);
}

/// Two instances at version 1 under a window that a person had set, which was narrowed since.
fn narrowed_after_the_backup(ceiling: ServiceVersion) -> World {
    let mut world = World::at_version_1(2);
    elect(&mut world, 1);
    world.store.put(Key::Window(service()), up_to(ceiling));
    world.agents_step();
    loses_the_window_1_1(&mut world);
    world
}

/// An upgrade had narrowed the window before it expanded the schema, and the store has no record of that upgrade.
#[test]
fn ceiling_that_was_narrowed_since_the_backup_is_not_kept() {
    let mut world = narrowed_after_the_backup(version(2));
    assert_eq!(window(&world), Some((1, 2)));
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(window(&world), Some((1, 1)), "nothing runs version 2");
    world.join(2, 2);
    assert!(!world.admit(&node(2)), "the schema may not have what version 2 uses");
}

#[test]
fn narrowed_ceiling_leaves_room_for_what_obeyed_the_lost_one() {
    let mut world = narrowed_after_the_backup(version(3));
    let report = &mut world.agents.get_mut(&node(0)).unwrap().report;
    (report.version, report.step, report.rotation) = (Some(version(2)), Step::Verifying, Rotation::Out);
    world.publish(&node(0));
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(window(&world), Some((1, 2)), "the lost window had admitted version 2");
}

/// Its version URL lies, or its code was replaced beside its agent: the schema has nothing of that version.
#[test]
fn version_that_no_store_admitted_raises_no_ceiling() {
    let mut world = narrowed_after_the_backup(version(2));
    let report = &mut world.agents.get_mut(&node(0)).unwrap().report;
    (report.probed, report.version, report.never_admitted) = (Some(version(7)), None, true);
    world.publish(&node(0));
    let refused = apply(&mut world, &Choices::default()).unwrap_err();
    assert!(refused.message.contains("n0: it runs version 7, outside the new window [1, 1]"), "{refused}");
    let mut other = world.clone();
    apply(&mut other, &disregard(&[0])).unwrap();
    assert_eq!(window(&other), Some((1, 1)));
    let report = &mut world.agents.get_mut(&node(0)).unwrap().report;
    (report.probed, report.version, report.never_admitted) = (None, Some(version(1)), false);
    world.publish(&node(0));
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(window(&world), Some((1, 1)), "it answers the version that was admitted again");
}

/// Its version probe fails, and requests reach it.
fn serves_at_an_unknown_version(world: &mut World, n: usize) {
    let report = &mut world.agents.get_mut(&node(n)).unwrap().report;
    (report.version, report.probed, report.rotation) = (None, None, Rotation::In);
    (report.step, report.nothing_runs) = (Step::Serving, false);
    world.publish(&node(n));
}

#[test]
fn disregarded_unknown_version_gets_room_in_known_window() {
    let mut world = narrowed_after_the_backup(version(2));
    serves_at_an_unknown_version(&mut world, 0);
    apply(&mut world, &disregard(&[0])).unwrap();
    assert_eq!(window(&world), Some((1, 2)), "the store's window may have admitted it");
    let mut world = with_a_newcomer(Rotation::In);
    serves_at_an_unknown_version(&mut world, 2);
    apply(&mut world, &disregard(&[2])).unwrap();
    assert_eq!(window(&world), Some((1, 1)), "no window admitted more than that");
}

#[test]
fn window_without_ceiling_is_not_closed_by_a_reconciliation() {
    let mut world = narrowed_after_the_backup(ServiceVersion::MAX);
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(window(&world), Some((1, ServiceVersion::MAX.get())));
}

/// The former store had rolled it back; this one rolls, and its instances are to become version 2.
#[test]
fn ceiling_of_an_upgrade_that_rolls_is_kept() {
    let mut world = World::at_version_1(3);
    elect(&mut world, 1);
    world.start(spec(json!({"min_in_service": 1}))).unwrap();
    world.until_roll();
    loses_the_window_1_1(&mut world);
    assert_eq!(window(&world), Some((1, 2)));
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(window(&world), Some((1, 2)));
}

/// Two nodes of another service obeyed a former store. Of this service nothing is claimed: the agent of n0 has lost its
/// journal, and has refused version 2 by the window [1, 1] of the store.
fn refused_without_a_claim(rotation: Rotation, never_admitted: bool) -> World {
    let mut world = World::at_version_1(2);
    elect(&mut world, 9);
    world.store.put(Key::Window(service()), up_to(version(1)));
    let mut claims = world.agents[&node(0)].report.clone();
    let term = Some("former".parse().unwrap());
    claims.witness = Witness { term, floor: Some(version(1)), reconciled: Revision::ABSENT };
    for n in [0, 1] {
        world.store.put(Key::Report("worker".parse().unwrap(), node(n)), claims.clone());
    }
    let report = &mut world.agents.get_mut(&node(0)).unwrap().report;
    (report.version, report.rotation) = (Some(version(2)), rotation);
    report.step = Step::Refused { reason: "above the ceiling".into() };
    report.never_admitted = never_admitted;
    world.publish(&node(0));
    world
}

#[test]
fn what_serves_without_a_claim_gets_room() {
    let mut world = refused_without_a_claim(Rotation::In, false);
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(window(&world), Some((1, 2)), "the lost store may have admitted it");
    let outside = "n0: it runs version 2, outside the new window [1, 1]";
    let no_room = [(Rotation::Out, false), (Rotation::Leaving, false), (Rotation::In, true)];
    for (rotation, never_admitted) in no_room {
        let mut world = refused_without_a_claim(rotation, never_admitted);
        let refused = apply(&mut world, &Choices::default()).unwrap_err();
        assert!(refused.message.contains(outside), "{refused}");
        apply(&mut world, &disregard(&[0])).unwrap();
        assert_eq!(window(&world), Some((1, 1)), "{rotation:?}");
    }
}

/// Requests go on there, and the cordon cannot be lifted before the plan is applied.
#[test]
fn what_serves_on_a_cordoned_node_gets_room() {
    let mut world = refused_without_a_claim(Rotation::In, false);
    let word = Maintenance { who: "op".into(), why: "disk".into(), at: Default::default() };
    world.store.put(Key::Maintenance(node(0)), word);
    apply(&mut world, &Choices::default()).unwrap();
    assert_eq!(window(&world), Some((1, 2)), "the lost store may have admitted it");
}
