//! A node joins the fleet while an upgrade runs.

use super::undo::Undo;
use crate::simulate::scenario::{ReleasePlan, UpgradePlan};
use crate::simulate::upgrade_id::place_of;
use crate::simulate::world::World;
use std::collections::BTreeSet;

/// A new node joins, with the services that the scenario has for it.
pub(super) fn join(world: &mut World, id: Option<&str>, n: usize) -> Vec<Undo> {
    let late: BTreeSet<usize> =
        world.scenario.services.iter().flat_map(|service| service.late.iter().copied()).collect();
    let is_ready = |node: &usize| world.agents[*node].is_none() && !world.off.contains(node);
    let coming: Vec<usize> = late.into_iter().filter(is_ready).collect();
    let Some(node) = coming.get(n % coming.len().max(1)).copied() else { return Vec::new() };
    // Before the upgrade is started, no image contains the new version.
    let id = id.filter(|id| world.testbed.state().facts.phases.contains_key(*id));
    let upgrading = id.and_then(place_of).and_then(|place| world.scenario.upgrades.get(place)).cloned();
    // Every other node was made from an image of the new version, but not where that release reports the former version:
    // an instance of it that no upgrade put there is indistinguishable from one of the former version. That holds for a
    // service beside it as well, in whose own upgrade such a release is the only one that runs.
    let image = |plan: &UpgradePlan| match plan.release {
        ReleasePlan::Lies => plan.from,
        _ => plan.from + u32::try_from(n % 2).unwrap_or(0),
    };
    let version = upgrading.as_ref().map_or(1, image);
    for service in 0..world.scenario.services.len() {
        if !world.scenario.services[service].late.contains(&node) {
            continue;
        }
        let is_upgraded = upgrading.as_ref().is_some_and(|plan| plan.service == service);
        let version = if is_upgraded { version } else { world.testbed.lowest_said(service) };
        world.joins(service, node, version);
    }
    world.start_agent(node);
    Vec::new()
}
