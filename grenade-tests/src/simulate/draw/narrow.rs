//! Draws worlds whose store takes small requests only, with what makes records and texts grow: every hook of a wave fails,
//! and prints much.

use super::super::dice::Dice;
use super::super::scenario::{Fault, ReleasePlan, ServicePlan, UpgradePlan, What};
use serde_json::json;

/// In how many of a hundred worlds that are not larger.
const SHARE: u64 = 3;

/// The largest request, in bytes: the smallest limit that leaves the product much room. With twelve nodes, the largest
/// commit writes down twelve failures at once, each with a text of 1,300 bytes, five of them in its event as well, and an
/// upgrade with a pause and a cause of its rollback: 36 KiB in all. The reasons of a wait have 20 KiB, a certificate for
/// three services 6 KiB. A text of 40 KiB is written twice: in the record of the failure and in the event.
pub(in crate::simulate) const MAX_REQUEST: u64 = 64 * 1024;

/// How many nodes such a world has, so that a list of failures outgrows everything else in a record. A larger world is left
/// as it is: what is written of all its instances at once may be larger.
const NODES: usize = 12;

/// How long the hooks fail, in milliseconds.
const FAILS: u64 = 40_000;

/// The largest request of a world, where its store takes small ones only. The first upgrade of the first service then moves
/// all instances at once and tolerates that all of them fail, as they do for a while.
pub(super) fn draw(
    dice: &mut Dice,
    zones: &mut Vec<String>,
    services: &mut [ServicePlan],
    upgrades: &mut [UpgradePlan],
    faults: &mut Vec<Fault>,
) -> Option<u64> {
    if zones.len() > NODES || !dice.percent(SHARE) {
        return None;
    }
    let place = upgrades.iter().position(|upgrade| upgrade.service == 0)?;
    while zones.len() < NODES {
        zones.push(["a", "b", "c"][zones.len() % 3].to_owned());
    }
    services.iter_mut().for_each(|service| service.late.clear());
    let service = services.first_mut()?;
    service.nodes = (0..zones.len()).collect();
    service.hooks = true;
    let whole = service.nodes.len() as u64;
    let upgrade = &mut upgrades[place];
    upgrade.strategy = json!("immediate");
    (upgrade.min_in_service, upgrade.max_unavailable) = (0, whole);
    (upgrade.by_zone, upgrade.tolerate, upgrade.release) = (false, whole, ReleasePlan::Good);
    faults.extend((0..zones.len()).map(|node| Fault {
        upgrade: place,
        phase: "roll".to_owned(),
        after: 0,
        lasts: FAILS,
        what: What::HooksFail(node),
    }));
    Some(MAX_REQUEST)
}
