//! Decommissioned instances at the end of a rollback. Their last order may be the replacement with the new release, or their
//! agents may start it as what ran there last; and the window, which is put back as it was, may admit it. Nothing moves them
//! once the upgrade is over, so they are ordered before that to run the former release where they come back.
//!
//! # Invariants
//! * The order costs no capacity: it presumes that the instance is out of rotation, and its agent declines it where that is
//!   not so, and `left_behind.rs` replaces it within capacity. One that reports meanwhile is moved as the others are.

use super::super::Draft;
use super::super::draft::BATCH;
use super::super::order::Order;
use crate::fleet::{Instance, ServiceFleet};
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::{Release, UpgradeId};

/// How many instances one turn orders; the next turn goes on.
const AT_ONCE: usize = 10 * BATCH;

/// Orders those that would run another release; returns whether it planned any.
pub(super) fn direct(draft: &mut Draft<'_>, former: &Release) -> bool {
    let id = draft.id;
    let all = draft.service().into_iter().flat_map(ServiceFleet::every_instance);
    let gone = all.filter(|instance| may_run_another(instance, id, former)).take(AT_ONCE);
    let order =
        |instance| Order { as_reported: true, ..Order::replace_what_is_out(instance, former.clone()) };
    let orders: Vec<Order<'_>> = gone.map(order).collect();
    let because = "it is decommissioned, and runs the former release if it comes back";
    draft.order(&orders, std::slice::from_ref(former), "replace", because);
    !orders.is_empty()
}

/// Whether a decommissioned instance was to be replaced with another release, or last ran one under this upgrade. A cordon
/// keeps orders away from its node.
fn may_run_another(instance: &Instance, upgrade: &UpgradeId, former: &Release) -> bool {
    let is_gone = instance.is_decommissioned() && instance.report.is_none() && !instance.cordoned;
    let Some(directive) = instance.directive.as_ref().filter(|_| is_gone) else { return false };
    match &directive.disposition {
        Disposition::Replace { release } => release != former,
        _ => directive.upgrade == *upgrade && ran_another(instance, former),
    }
}

fn ran_another(instance: &Instance, former: &Release) -> bool {
    instance.inventory.as_ref().is_some_and(|last| {
        last.version != former.version || last.release.as_ref().is_some_and(|tag| *tag != former.tag)
    })
}
