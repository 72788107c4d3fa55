//! Starts people in the upgrade that a fault is drawn for.

use super::desk::Desk;
use crate::simulate::accepting::OldPrograms;
use crate::simulate::coordinator::Coordinator;
use crate::simulate::dice::Dice;
use crate::simulate::fault::Undo;
use crate::simulate::gate::Gate;
use crate::simulate::request::Known;
use crate::simulate::spec::spec;
use crate::simulate::upgrade_id::place_of;
use crate::simulate::world::World;
use std::sync::Arc;
use std::time::Duration;
use tidegate_coordinator::context::Context;

/// So many people ask for something of the upgrade with this id; what is to be put right when they have done.
pub(in crate::simulate) fn begin(
    world: &mut World,
    id: Option<String>,
    service: usize,
    count: u32,
    lasts: u64,
) -> Vec<Undo> {
    let Some(id) = id else { return Vec::new() };
    let Some(place) = place_of(&id) else { return Vec::new() };
    // It is about to be started: that is done with care, and by two people at once.
    world.started_twice = !world.testbed.state().facts.phases.contains_key(&id);
    let plan = world.scenario.upgrades[place].clone();
    let names = world.testbed.names();
    let nodes = world.scenario.services[service].nodes.clone();
    // Operators do not declare a silent instance gone: only what is switched off, and what shows that it is there.
    let may_be_named = |node: &&usize| {
        let there = world.agents[**node].as_ref().is_some_and(|agent| agent.gate.is_open());
        world.left.contains(*node) || (there && !world.byzantine.contains(*node) && world.garbage.is_empty())
    };
    let to_decommission = nodes.iter().filter(may_be_named).map(|node| names.instance((service, *node)));
    let known = Known {
        id: id.clone(),
        service: names.services[service].clone(),
        nodes: nodes.iter().map(|node| names.nodes[*node].clone()).collect(),
        to_decommission: to_decommission.collect(),
        spec: spec(world, &plan, false),
        from: plan.from,
        none_is_byzantine: world.byzantine.is_empty() && world.garbage.is_empty(),
    };
    let old = OldPrograms::of(&world.scenario, &plan);
    start(world, &known, &old, (count, lasts));
    let lets_back = nodes.into_iter().map(Undo::Uncordon);
    std::iter::once(Undo::Resume(id)).chain(lets_back).collect()
}

/// Lets so many people begin, who ask the coordinators that there are for something during `lasts` milliseconds.
fn start(world: &mut World, known: &Known, old: &OldPrograms, (count, lasts): (u32, u64)) {
    let reached = |one: &Coordinator| (one.context.clone(), one.gate.clone());
    let contexts: Vec<(Context, Gate)> = world.coordinators.iter().flatten().map(reached).collect();
    for _ in 0..count {
        let operators = &mut world.operators;
        operators.begun += 1;
        let desk = Desk {
            contexts: contexts.clone(),
            place: world.place.clone(),
            testbed: world.testbed.clone(),
            asked: Arc::clone(&operators.asked),
            name: format!("person-{}", operators.begun),
            services: world.scenario.upgrades.iter().map(|plan| plan.service).collect(),
            left: world.left.clone(),
            old: old.clone(),
        };
        let dice = Dice::of(world.scenario.seed, &desk.name);
        let ends = Duration::from_millis(lasts);
        let known = known.clone();
        let work = async move {
            // An operator that stops waiting for an answer leaves the request where it is.
            let _ = tokio::time::timeout(ends, desk.work(dice, known)).await;
        };
        operators.at_work.push(tokio::spawn(work));
    }
}
