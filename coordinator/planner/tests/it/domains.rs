//! Instances of several failure domains that are out already: they hold each other no longer than one is replaced.

use crate::sim::{World, node, service, spec};
use serde_json::json;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Health, Rotation, Step};
use tidegate_proto::record::upgrade::Phase;

/// Four instances in the zones a, b, c and a. Those named never become ready at version 1.
fn ill_at_1(ill: &[usize], change: serde_json::Value) -> World {
    let mut world = World::at_version_1(4);
    for n in ill {
        world.agents.get_mut(&node(*n)).unwrap().ill_at = Some(1);
        world.set_unready(&node(*n), false);
    }
    world.start(spec(change)).unwrap();
    world.until_roll();
    world
}

fn is_ordered_to_drain(world: &World, n: usize) -> bool {
    let instance = world.store.fleet().service(&service()).unwrap().get(&node(n)).unwrap();
    instance.directive.as_ref().is_some_and(|directive| directive.disposition == Disposition::Drain)
}

fn is_in(world: &World, n: usize) -> bool {
    world.agents[&node(n)].report.rotation == Rotation::In
}

/// Two of one zone are ordered to drain, and then one of them is admitted without its label.
fn drained_with_and_without_a_label() -> World {
    let change =
        json!({"strategy": "immediate", "max_unavailable": 3, "min_in_service": 1, "failure_domain": "zone"});
    let mut world = ill_at_1(&[0, 3], change);
    world.until("both are ordered to drain", |world| {
        is_ordered_to_drain(world, 0) && is_ordered_to_drain(world, 3)
    });
    world.agents.get_mut(&node(3)).unwrap().zone = String::new();
    world.admit(&node(3));
    world.publish(&node(3));
    world
}

#[test]
fn drained_instances_of_two_domains_do_not_hold_each_other() {
    let mut world = drained_with_and_without_a_label();
    for _ in 0..100 {
        world.turn();
        world.agents_step();
        if is_in(&world, 0) && is_in(&world, 3) {
            break;
        }
        assert!(is_in(&world, 1) && is_in(&world, 2), "none of another domain is taken out beside them");
        let replaced = [0, 3].iter().filter(|n| {
            matches!(world.agents[&node(**n)].report.step, Step::Verifying | Step::Replacing | Step::Stopped)
        });
        assert!(replaced.count() <= 1, "one at a time");
    }
    let last = world.run();
    assert_eq!(world.phase(), Phase::Completed, "{:?}", last.waiting);
}

#[test]
fn instance_already_out_is_replaced_while_drained_one_waits() {
    for domain in [json!({}), json!({"failure_domain": "zone"})] {
        let mut change = json!({"strategy": "immediate", "max_unavailable": 1, "min_in_service": 2});
        change.as_object_mut().unwrap().extend(domain.as_object().unwrap().clone());
        let mut world = ill_at_1(&[0], change);
        world.until("the first is ordered to drain", |world| is_ordered_to_drain(world, 0));
        let agent = world.agents.get_mut(&node(1)).unwrap();
        agent.idle = None;
        (agent.report.health, agent.report.rotation, agent.report.step) =
            (Health::Unhealthy, Rotation::Out, Step::Stopped);
        world.publish(&node(1));
        let last = world.run();
        assert_eq!(world.phase(), Phase::Completed, "{domain}: {:?}", last.waiting);
    }
}

#[test]
fn drained_instance_waits_while_other_domain_is_silent() {
    let mut world = drained_with_and_without_a_label();
    world.fall_silent(1);
    world.run();
    assert_eq!(world.versions()[0], 1, "the silent one may be back at any time");
}
