//! Why a plan cannot be applied because of an instance.

use super::proposal::{Fate, Witness};
use crate::ask::steer::beyond_former;
use crate::fleet::Fleet;
use crate::gate::person::rollback::begins;
use crate::moment::Moment;
use crate::upgrade::View;
use tidegate_proto::commit::MAX_COMMIT_OPERATIONS;
use tidegate_proto::{ServiceName, ServiceVersion, UpgradeId};

/// The most windows that one plan changes: they are written in one transaction with the record and its event. A window
/// written before the record would hide the claim of an agent that obeyed a later window than the store has.
pub(super) const MOST_WINDOWS: usize = MAX_COMMIT_OPERATIONS - 2;

/// Why a plan that changes too many windows is refused because of an instance whose window is one too many.
pub(super) fn for_the_next_plan() -> String {
    format!("one plan changes at most {MOST_WINDOWS} windows: disregard it, and include it in the next")
}

/// The active upgrade of a service whose rollback can begin, with the version to which that leads, where no applied claim
/// has a higher floor: the store may have been restored to before that rollback.
pub(super) fn lost_rollback<'a>(
    fleet: &'a Fleet,
    moment: &Moment,
    service: &ServiceName,
    witnesses: &[Witness],
) -> Option<(&'a UpgradeId, ServiceVersion)> {
    let applied = witnesses.iter().filter(|w| w.instance.service == *service && w.fate == Fate::Applied);
    let obeyed = applied.filter_map(|w| w.floor).max()?;
    let (id, upgrade) = fleet.active_upgrade(service)?;
    let from = upgrade.spec.from;
    // Before preflight was left, a rollback lowers no floor.
    let lowers = upgrade.former.is_some() && obeyed <= from;
    let may_begin = begins(&View { fleet, moment, id, upgrade }, "").is_open
        && beyond_former(fleet, moment, id, upgrade).is_ok();
    (lowers && may_begin).then_some((id, from))
}

/// What is said of a version outside the new window; with the rollback that was lost, where that admits the version.
pub(super) fn outside(
    version: ServiceVersion,
    (floor, ceiling): (ServiceVersion, ServiceVersion),
    lost: Option<(&UpgradeId, ServiceVersion)>,
) -> String {
    let outside = format!("it runs version {version}, outside the new window [{floor}, {ceiling}]");
    match lost.filter(|(_, from)| (*from..floor).contains(&version)) {
        None => outside,
        Some((id, _)) => format!(
            "{outside}; if upgrade {id} was rolled back in the former store, roll it back first: \
             `tidegate upgrade rollback {id} --why …`"
        ),
    }
}
