//! The instances of a plan that the store would forget with their reports: it has no admission of them until their agents
//! obey the reconciliation, and one that ends before that may have left an old version running.

use super::Refusal;
use super::proposal::Runs;
use crate::fleet::{Fleet, Instance};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::{InstanceId, NodeId, ServiceName};

/// The most instances that one record lists: with names of the greatest length some two thirds of the largest record.
const MOST_LISTED: usize = 10_000;

/// Those of a plan, and those that an earlier plan listed and that count still.
pub(super) fn listed(
    fleet: &Fleet,
    instances: &[Runs],
) -> Result<BTreeMap<ServiceName, BTreeSet<NodeId>>, Refusal> {
    let planned = instances.iter().map(|runs| runs.instance.clone());
    let earlier = fleet.reconciliation().into_iter().flat_map(|known| known.listed_instances());
    let found = |id: &InstanceId| fleet.service(&id.service).and_then(|service| service.get(&id.node));
    let all: BTreeSet<InstanceId> =
        planned.chain(earlier).filter(|id| found(id).is_some_and(is_to_be_listed)).collect();
    if all.len() > MOST_LISTED {
        return Err(Refusal::state(format!(
            "cannot reconcile the store: it has no admission of {} instances, and one record lists at most {MOST_LISTED}. Restore a backup, which has admissions, and reconcile that store; or end agents, whose services go on, until at most {MOST_LISTED} instances report, reconcile the store, and start the others in groups, with a plan for each",
            all.len()
        )));
    }
    let mut listed = BTreeMap::<ServiceName, BTreeSet<NodeId>>::new();
    for InstanceId { service, node } in all {
        listed.entry(service).or_default().insert(node);
    }
    Ok(listed)
}

/// Whether it counts, and would not without its report. A decommission of one that reports is void.
fn is_to_be_listed(instance: &Instance) -> bool {
    instance.counts() && (instance.inventory.is_none() || instance.decommission.is_some())
}
