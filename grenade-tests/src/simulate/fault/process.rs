//! Faults of the processes of agents and coordinators.

use super::undo::Undo;
use crate::simulate::agent::{Agent, IMPOSTOR};
use crate::simulate::coordinator::{Coordinator, TTL};
use crate::simulate::gate::Passage;
use crate::simulate::world::World;
use std::time::Duration;

pub(super) fn kill_coordinator(world: &mut World, n: usize) -> Vec<Undo> {
    let n = n % world.coordinators.len();
    world.coordinators[n].take().into_iter().for_each(Coordinator::kill);
    vec![Undo::StartCoordinator(n)]
}

pub(super) fn stall_coordinator(world: &mut World, n: usize) -> Vec<Undo> {
    let (n, now) = (n % world.coordinators.len(), world.testbed.now());
    if let Some(one) = &mut world.coordinators[n] {
        // One that is stopped already was stopped earlier.
        one.stopped_at = one.leads().map(|_| now).or(one.stopped_at);
        one.gate.set(Passage::Stalled);
    }
    vec![Undo::ThawCoordinator(n)]
}

pub(super) fn resume_coordinator(world: &mut World, n: usize) {
    let now = world.testbed.now();
    let Some(one) = &mut world.coordinators[n] else { return };
    one.gate.set(Passage::Open);
    // One that was stopped for longer leads no more, and the next leader was not stopped.
    if let Some(since) = one.stopped_at.take().filter(|since| Duration::from_millis(now - since) < TTL) {
        world.auditor.note_stop(since, now);
    }
}

pub(super) fn kill_agent(world: &mut World, node: usize) -> Vec<Undo> {
    let now = world.testbed.now();
    world.testbed.state().facts.agent_ended(node, now);
    world.agents[node].take().into_iter().for_each(Agent::kill);
    vec![Undo::StartAgent(node)]
}

pub(super) fn stall_agent(world: &World, node: usize) -> Vec<Undo> {
    let now = world.testbed.now();
    let mut state = world.testbed.state();
    state.facts.forget_seen(node, now);
    state.facts.agents_stalled.insert(node, u64::MAX);
    drop(state);
    world.agents[node].iter().for_each(|agent| agent.gate.set(Passage::Stalled));
    vec![Undo::ThawAgent(node)]
}

/// Where another process was started meanwhile, or an earlier fault of this kind has ended, it was not stopped until now.
pub(super) fn resume_agent(world: &World, node: usize) {
    if world.agents[node].as_ref().is_some_and(|agent| agent.gate.is_open()) {
        return;
    }
    let now = world.testbed.now();
    world.testbed.state().facts.agents_stalled.insert(node, now);
    world.agents[node].iter().for_each(|agent| agent.gate.set(Passage::Open));
}

/// Kills an agent whose journals are gone when it is started again; it has its nonce still, as where a person moved away
/// damaged ones.
pub(super) fn lose_journal(world: &mut World, node: usize) -> Vec<Undo> {
    let undo = kill_agent(world, node);
    erase_journals(world, node);
    undo
}

/// The journals of a node are gone, whose agent does not run.
pub(super) fn erase_journals(world: &mut World, node: usize) {
    let lost = world.services_on(node).into_iter().map(|service| (service, node));
    world.without_journal.extend(lost);
    let mut state = world.testbed.state();
    state.disks[node].files.retain(|path, _| !path.starts_with("/var/agent"));
    state.facts.journals_lost.insert(node, u64::MAX);
}

/// Kills an agent; from then on something else writes false records in its place.
pub(super) fn replace_by_byzantine(world: &mut World, node: usize) -> Vec<Undo> {
    world.agents[node].take().into_iter().for_each(Agent::kill);
    let now = world.testbed.now();
    let mut state = world.testbed.state();
    state.facts.forget_seen(node, now);
    state.facts.byzantine.insert(node, u64::MAX);
    state.facts.agents_away.insert(node, u64::MAX);
    drop(state);
    world.byzantine.insert(node);
    vec![Undo::Liar(node)]
}

pub(super) fn start_second_agent(world: &mut World, node: usize) -> Vec<Undo> {
    // It runs on the same machine.
    if world.off.contains(&node) {
        return Vec::new();
    }
    world.start_impostor(node);
    vec![Undo::Impostor(node)]
}

pub(super) fn end_second_agent(world: &mut World, node: usize) {
    world.impostors[node].take().into_iter().for_each(Agent::kill);
    let now = world.testbed.now();
    world.testbed.state().facts.second_ended.insert(node, now);
    // The right agent takes the other one's disable-file for a person's, so a person removes it.
    let names_it = |text: &[u8]| text.windows(IMPOSTOR.len()).any(|part| part == IMPOSTOR.as_bytes());
    for service in world.services_on(node) {
        world.testbed.removed_by_person((service, node), names_it);
    }
}
