//! Ceilings that a reconciliation leaves: room for what may be in rotation, and for what a former store admitted.

use super::{apply, blank_in_mid_roll, disregard, elect, publish, testify, version, window};
use crate::sim::{Store, World, node, service, upgrade_id};
use tidegate_planner::ask::reconcile::Choices;
use tidegate_proto::Key;
use tidegate_proto::record::report::{Rotation, Step};
use tidegate_proto::record::window::Window;

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
