//! Faults of whole nodes and of their disks.

use super::process::erase_journals;
use super::undo::Undo;
use crate::simulate::agent::Agent;
use crate::simulate::world::World;

pub(super) fn fill_disk(world: &World, node: usize) -> Vec<Undo> {
    let now = world.testbed.now();
    let mut state = world.testbed.state();
    state.disks[node].full = true;
    state.facts.forget_seen(node, now);
    state.facts.disks_full.insert(node, u64::MAX);
    vec![Undo::Disk(node)]
}

pub(super) fn slow_disk(world: &World, node: usize) -> Vec<Undo> {
    world.testbed.state().disks[node].slow_ms = 700;
    vec![Undo::Disk(node)]
}

pub(super) fn repair_disk(world: &World, node: usize) {
    let now = world.testbed.now();
    let mut state = world.testbed.state();
    if state.disks[node].full {
        state.facts.disks_full.insert(node, now);
    }
    (state.disks[node].full, state.disks[node].slow_ms) = (false, 0);
}

/// Agent and services of a node lose their power.
pub(super) fn switch_off(world: &mut World, node: usize) -> Vec<Undo> {
    let now = world.testbed.now();
    world.testbed.state().facts.agent_ended(node, now);
    let agents = world.agents[node].take().into_iter().chain(world.impostors[node].take());
    agents.for_each(Agent::kill);
    world.testbed.end_boot(node);
    for service in world.services_on(node) {
        world.testbed.loses_power((service, node));
    }
    world.off.insert(node);
    vec![Undo::Boot(node)]
}

/// A node that two faults switched off is on again with the end of the first; that of the second changes nothing.
pub(super) fn boot(world: &mut World, node: usize) {
    if !world.off.remove(&node) {
        return;
    }
    world.left.remove(&node);
    for service in world.services_on(node) {
        world.testbed.boots((service, node));
    }
    world.start_agent(node);
}

/// Reinstalls every node that is on, each with the releases that ran there last: no agent has its journal afterwards.
pub(super) fn reinstall_all(world: &mut World) -> Vec<Undo> {
    let is_on = |node: &usize| !world.off.contains(node) && !world.services_on(*node).is_empty();
    let nodes: Vec<usize> = (0..world.agents.len()).filter(is_on).collect();
    let mut undo = Vec::new();
    for node in nodes {
        undo.extend(switch_off(world, node));
        erase_journals(world, node);
        for service in world.services_on(node) {
            world.testbed.change((service, node), |slot, _| slot.came_with.clone_from(&slot.last));
        }
    }
    undo
}

/// Moves a node to another zone, which restarts its agent.
pub(super) fn relabel(world: &mut World, node: usize) -> Vec<Undo> {
    let zone = if world.scenario.zones[node] == "a" { "b" } else { "a" };
    world.scenario.zones[node] = zone.to_owned();
    let up = world.agents[node].take();
    let was_up = up.is_some();
    up.into_iter().for_each(Agent::kill);
    if was_up {
        world.start_agent(node);
    }
    Vec::new()
}
