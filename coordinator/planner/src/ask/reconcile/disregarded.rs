//! The claims that a record disregards: those of its plan, and those of earlier plans.

use super::Refusal;
use crate::fleet::Fleet;
use std::collections::BTreeMap;
use tidegate_proto::record::reconciliation::{Claim, Reconciliation};
use tidegate_proto::{NodeId, ServiceName};

/// The most instances that one record disregards, with those of earlier plans: with names of the greatest length some
/// quarter of the largest record.
const MOST_DISREGARDED: usize = 1_000;

/// The claims that earlier plans disregarded, without those of decommissioned instances. The next record has a later
/// revision, so each says from now on whether the store was behind it.
pub(super) fn carried_over(fleet: &Fleet) -> BTreeMap<ServiceName, BTreeMap<NodeId, Claim>> {
    let Some(known) = fleet.reconciliation() else { return BTreeMap::new() };
    let mut disregarded = known.disregarded.clone();
    for (service, nodes) in &mut disregarded {
        nodes.retain(|node, claim| {
            claim.ahead |= claim.revision > known.at;
            !is_gone(fleet, service, node)
        });
    }
    disregarded
}

/// Whether a person has said that an instance does not come back, and it has not.
fn is_gone(fleet: &Fleet, service: &ServiceName, node: &NodeId) -> bool {
    let found = fleet.service(service).and_then(|of| of.get(node));
    found.is_some_and(|instance| instance.decommission.is_some() && !instance.counts())
}

/// Refuses a plan that disregards more than one record has room for: the store would refuse that record, and every later
/// one. A record of a former version may disregard more; a plan may keep these.
pub(super) fn demand_room(fleet: &Fleet, body: &Reconciliation) -> Result<(), Refusal> {
    let earlier = fleet.reconciliation().map_or(0, |known| count(known));
    let all = count(body);
    if all <= MOST_DISREGARDED.max(earlier) {
        return Ok(());
    }
    Err(Refusal::invalid(format!(
        "one record disregards at most {MOST_DISREGARDED} instances, and with those of earlier plans it would disregard {all}: decommission those that do not exist any more, include those that are to obey the store (--include), or name fewer with --disregard"
    )))
}

fn count(by: &Reconciliation) -> usize {
    by.disregarded.values().map(BTreeMap::len).sum()
}
