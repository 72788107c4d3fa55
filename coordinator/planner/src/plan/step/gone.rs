//! Decommissioned instances at the end of a rollback. Their last order may be the replacement with the new release, or their
//! agents or machines may start it; and the window, which is put back as it was, may admit it. Nothing moves them once the
//! upgrade is over, so they are ordered before that to run the former release where they come back. That an instance ran the
//! former version when it was last admitted decides nothing: a person may have put that in place of the new release, which
//! the machine starts when it boots.
//!
//! # Invariants
//! * The order costs no capacity: it presumes that the instance is out of rotation, and its agent declines it where that is
//!   not so, and `left_behind.rs` replaces it within capacity. One that reports meanwhile is moved as the others are.
//! * A cordon of its node does not keep the order away: nothing runs there to be left as it is, and nothing orders it later.

use super::super::Draft;
use super::super::draft::BATCH;
use super::super::order::Order;
use crate::fleet::{Instance, ServiceFleet};
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::{Release, UpgradeId};

/// How many instances one turn orders; the next turn goes on.
const AT_ONCE: usize = 10 * BATCH;

/// Orders those that may run another release; returns whether it planned any.
pub(super) fn direct(draft: &mut Draft<'_>, former: &Release) -> bool {
    let id = draft.id;
    let all = draft.service().into_iter().flat_map(ServiceFleet::every_instance);
    let gone = all.filter(|instance| may_start_another(instance, id, former)).take(AT_ONCE);
    let order =
        |instance| Order { as_reported: true, ..Order::replace_what_is_out(instance, former.clone()) };
    let orders: Vec<Order<'_>> = gone.map(order).collect();
    let because = "it is decommissioned, and runs the former release if it comes back";
    draft.order(&orders, std::slice::from_ref(former), "replace", because);
    !orders.is_empty()
}

/// Whether a decommissioned instance was to be replaced with another release, or has another order of this upgrade.
fn may_start_another(instance: &Instance, upgrade: &UpgradeId, former: &Release) -> bool {
    let is_gone = instance.is_decommissioned() && instance.report.is_none();
    let Some(directive) = instance.directive.as_ref().filter(|_| is_gone) else { return false };
    match &directive.disposition {
        Disposition::Replace { release } => release != former,
        _ => directive.upgrade == *upgrade,
    }
}
