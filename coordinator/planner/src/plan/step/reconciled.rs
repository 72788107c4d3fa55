//! After a store was reconciled: an agent that had obeyed more than the store knows refuses the older directive of the
//! store. It gets a new directive to serve; what else is wanted of it is then decided from what is observed, within the
//! budget. An agent whose claim a person disregarded does not accept the reconciliation: it obeys no directive and
//! acknowledges no window of this store until a plan includes it.

use super::super::Draft;
use super::super::order::Order;
use crate::fleet::{Instance, awaits_new_directive, releases};
use crate::gate::person::rollback::begins;
use crate::gate::store;
use tidegate_proto::mutant;
use tidegate_proto::record::directive::Disposition;

/// Orders instances again that still obey a former store; returns whether there are any. Disregarded instances are named
/// and block nothing here. An instance that has not accepted the reconciliation yet is waited for: its report is about
/// directives of the former store.
pub(super) fn restate(draft: &mut Draft<'_>) -> bool {
    let service = &draft.spec().service;
    // Until preflight is left nothing is ordered; staging gives every instance a directive.
    if draft.upgrade.former.is_none() || mutant::is("former-store-is-believed") {
        return false;
    }
    let obeying: Vec<&Instance> = draft.fleet.of_a_former_store(service).collect();
    let accepted = draft.passes(store::former_store(draft.fleet, service));
    let view = draft.view();
    let disregarded = store::disregarded_in_upgrade(&view, || begins(&view, "").is_open);
    draft.passes(disregarded);
    let orders = obeying.into_iter().filter(|instance| awaits_new_directive(instance));
    let orders: Vec<Order<'_>> = orders
        .map(|instance| Order {
            disposition: Disposition::Serve { returning: true },
            ..Order::serve(instance)
        })
        .collect();
    draft.order(&orders, &releases(draft.upgrade), "order again", "the store was reconciled");
    !accepted
}
