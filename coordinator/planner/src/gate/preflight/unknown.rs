//! Why the version of an instance is not known, where a person can end that.

use super::finding::{Finding, blocker};
use super::former::replaced_leftovers;
use crate::fleet::{Fleet, Instance, ServiceFleet};
use tidegate_proto::InstanceId;
use tidegate_proto::spec::Spec;

/// How many are named.
const NAMED: usize = 5;

/// The records that cannot be read, and the instances whose agents obey the store only after a plan includes them.
pub(super) fn findings(fleet: &Fleet, service: &ServiceFleet, spec: &Spec) -> Vec<Finding> {
    let left = replaced_leftovers(service, spec);
    let is_left = |instance: &&Instance| left.iter().any(|other| other.node == instance.node);
    let why = |instance: &Instance| {
        let id = InstanceId::new(service.name().clone(), instance.node.clone());
        let unreadable = fleet.unreadable_of(&id);
        let mut why: Vec<String> = unreadable
            .map(|(key, why)| format!("the record {key} {why}: restore its previous value"))
            .collect();
        if fleet.disregarded_of(service.name()).any(|other| other.node == instance.node) {
            why.push(format!(
                "the claim of {id} against the store was disregarded, and its agent obeys the store only after a plan \
                 includes it: `tidegate fleet reconcile --include {id}`"
            ));
        }
        why
    };
    let unknown = service.unknown().each.filter(|instance| !is_left(instance));
    unknown.flat_map(why).take(NAMED).map(blocker).collect()
}
