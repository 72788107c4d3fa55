//! Faults of the network between agents, coordinators and the store.

use super::undo::Undo;
use crate::simulate::line::{Line, Weather};
use crate::simulate::world::World;

pub(super) fn each_line(world: &World, change: impl Fn(&Line)) {
    world.agents.iter().flatten().for_each(|agent| change(&agent.line));
    world.coordinators.iter().flatten().for_each(|one| change(&one.line));
}

/// Requests and answers of all lines are lost or late.
pub(super) fn degrade(world: &World) -> Vec<Undo> {
    let weather = Weather { lost_requests: 5, lost_answers: 5, late: 30, late_ms: 1500 };
    each_line(world, |line| line.set_weather(weather));
    world.auditor.note_network(true, world.testbed.now());
    vec![Undo::Weather]
}

pub(super) fn restore(world: &World) {
    each_line(world, |line| line.set_weather(Weather::default()));
    world.auditor.note_network(false, world.testbed.now());
}

pub(super) fn cut_agent(world: &World, node: usize) -> Vec<Undo> {
    if let Some(agent) = &world.agents[node] {
        world.testbed.state().facts.agents_cut.insert(node, u64::MAX);
        agent.line.set_cut(true);
    }
    vec![Undo::AgentLine(node)]
}

pub(super) fn reconnect_agent(world: &World, node: usize) {
    if let Some(agent) = &world.agents[node] {
        let now = world.testbed.now();
        world.testbed.state().facts.reconnected(node, now);
        agent.line.set_cut(false);
    }
}

pub(super) fn cut_coordinator(world: &World, n: usize) -> Vec<Undo> {
    let n = n % world.coordinators.len();
    world.coordinators[n].iter().for_each(|one| one.line.set_cut(true));
    vec![Undo::CoordinatorLine(n)]
}

/// What the watches of coordinators are sent does not arrive; what coordinators write does.
pub(super) fn hang_watches(world: &World) -> Vec<Undo> {
    world.coordinators.iter().flatten().for_each(|one| one.line.set_watch_hangs(true));
    vec![Undo::Watches]
}

pub(super) fn let_watches_go_on(world: &World) {
    world.coordinators.iter().flatten().for_each(|one| one.line.set_watch_hangs(false));
}

/// Some requests of all lines arrive twice.
pub(super) fn repeat_requests(world: &World) -> Vec<Undo> {
    each_line(world, |line| line.set_repeats(true));
    vec![Undo::Requests]
}

pub(super) fn let_requests_arrive_once(world: &World) {
    each_line(world, |line| line.set_repeats(false));
}

pub(super) fn end_streams(world: &World) -> Vec<Undo> {
    each_line(world, Line::reset);
    Vec::new()
}
