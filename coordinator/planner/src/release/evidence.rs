//! Whether a compute tag was seen to work with every storage release that is in use.

use crate::fleet::Fleet;
use crate::reason::{Reason, ReleaseGate, Sample};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::commit::Precondition;
use tidegate_proto::record::evidence::Verdict;
use tidegate_proto::{Key, ReleaseTag, ServiceName, ServiceVersion, mutant};

/// What must hold in the transaction that relies on the evidence; or every reason why there is none.
pub fn is_proven(
    fleet: &Fleet,
    compute: &ReleaseTag,
    requires: &BTreeMap<ServiceName, ServiceVersion>,
) -> Result<Vec<Precondition>, Vec<Reason>> {
    if mutant::is("evidence-is-not-asked") {
        return Ok(Vec::new());
    }
    let (mut compares, mut reasons) = (Vec::new(), Vec::new());
    let mut tags = BTreeSet::new();
    for name in requires.keys() {
        let (seen, unnamed) = in_use(fleet, name);
        tags.extend(seen);
        if !unnamed.is_empty() {
            reasons
                .push(Reason::Release(ReleaseGate::ReleaseUnknown { service: name.clone(), nodes: unnamed }));
        }
    }
    if tags.is_empty() && reasons.is_empty() {
        reasons.push(Reason::Release(ReleaseGate::NoStorage { compute: compute.clone() }));
    }
    for storage in tags {
        let found = fleet.evidence(compute, &storage);
        match found {
            Some((Verdict::Pass, at)) => {
                compares.push(Precondition::At(Key::Evidence(compute.clone(), storage), at));
            }
            other => reasons.push(Reason::Release(ReleaseGate::Evidence {
                compute: compute.clone(),
                storage,
                found: other.map(|(verdict, _)| verdict.to_string()),
            })),
        }
    }
    if reasons.is_empty() { Ok(compares) } else { Err(reasons) }
}

/// The releases that the instances of a service run, and those of which that is not known.
fn in_use(fleet: &Fleet, name: &ServiceName) -> (BTreeSet<ReleaseTag>, Sample) {
    let (mut tags, mut unnamed) = (BTreeSet::new(), Vec::new());
    for instance in fleet.service(name).into_iter().flat_map(|service| service.instances()) {
        let reported = instance.report.as_ref().and_then(|report| report.release.clone());
        let admitted = || instance.inventory.as_ref().and_then(|inventory| inventory.release.clone());
        match reported.or_else(admitted) {
            Some(tag) => drop(tags.insert(tag)),
            None => unnamed.push(&instance.node),
        }
    }
    (tags, Sample::of(unnamed.iter().copied(), unnamed.len()))
}
