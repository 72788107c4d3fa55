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
    let is_staged = id.is_some_and(|id| world.testbed.state().facts.staged.contains(id));
    let version = upgrading.as_ref().map_or(1, |plan| {
        // Nor does one where that uses a form which no upgrade has begun to prepare: without a window it is admitted as it
        // would be without an upgrade, and fails.
        let has_schema = world.scenario.services[plan.service].schema.is_some();
        image(plan, n, is_staged || !has_schema)
    });
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

/// The version in the image of a node. Every other one was made from an image of the new version, where there is one; but not
/// where that release reports the former version: an instance of it that no upgrade put there is indistinguishable from one
/// of the former version. That holds for a service beside it as well, in whose own upgrade such a release is the only one
/// that runs.
fn image(plan: &UpgradePlan, n: usize, has_new: bool) -> u32 {
    let has_new = has_new && plan.release != ReleasePlan::Lies;
    plan.from + if has_new { u32::try_from(n % 2).unwrap_or(0) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::draw;

    #[test]
    fn no_image_has_a_version_whose_form_no_upgrade_prepares() {
        let drawn = draw::scenario(1).upgrades[0].clone();
        let plan = UpgradePlan { release: ReleasePlan::Good, from: 1, ..drawn };
        assert_eq!([0, 1].map(|n| image(&plan, n, true)), [1, 2]);
        assert_eq!([0, 1].map(|n| image(&plan, n, false)), [1, 1]);
        let lies = UpgradePlan { release: ReleasePlan::Lies, ..plan };
        assert_eq!([0, 1].map(|n| image(&lies, n, true)), [1, 1]);
    }
}
