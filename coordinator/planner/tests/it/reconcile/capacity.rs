//! What serves outside a reconciled window is drained only where the store has an upgrade of the service: its spec says how
//! many must stay, and may have been lost with the former store.

use super::contracted::reconciled;
use super::version;
use crate::outside::{in_rotation, put_back};
use crate::sim::{World, service, spec};
use serde_json::json;
use tidegate_planner::plan;
use tidegate_proto::Key;
use tidegate_proto::record::upgrade::Phase;
use tidegate_proto::record::window::Window;

/// No upgrade is known, and the window does not admit what the last instance runs.
fn with_one_outside() -> World {
    let mut world = World::at_version_1(3);
    let set_by = "reconciliation".parse().unwrap();
    let window = Window { floor: version(1), ceiling: version(1), set_by, contracted: None };
    world.store.put(Key::Window(service()), window);
    put_back(&mut world, 2, 2);
    world
}

/// Its agent was away when the store was reconciled with what the others run.
#[test]
fn one_outside_stays_where_its_capacity_was_lost() {
    let mut world = with_one_outside();
    world.store.put(Key::Reconciliation, reconciled());
    world.run();
    assert_eq!(in_rotation(&world), 3, "it is not known how many must stay");
    let fleet = world.store.fleet();
    let said = plan::outside(fleet, fleet.service(&service()).unwrap()).unwrap().to_string();
    assert!(said.contains("no instance is drained, because the store was reconciled"), "{said}");
}

#[test]
fn one_outside_is_drained_where_nothing_was_lost() {
    let mut world = with_one_outside();
    world.run();
    assert_eq!(in_rotation(&world), 2, "without an upgrade one may be out");
}

#[test]
fn one_outside_is_drained_by_an_upgrade_after_the_loss() {
    let mut world = World::at_version_1(3);
    world.store.put(Key::Reconciliation, reconciled());
    world.start(spec(json!({"min_in_service": 2}))).unwrap();
    world.run();
    assert_eq!(world.phase(), Phase::Completed);
    put_back(&mut world, 2, 1);
    world.run();
    assert_eq!(in_rotation(&world), 2, "the last upgrade says how many must stay");
}
