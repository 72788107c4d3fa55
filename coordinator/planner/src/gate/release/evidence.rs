//! Whether a compute tag was seen to work with every storage release that is in use.

use super::ReleaseGate;
use crate::fleet::{Fleet, Sample};
use crate::gate::{Reason, store};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::commit::Precondition;
use tidegate_proto::compute::EvidenceRule;
use tidegate_proto::record::evidence::Verdict;
use tidegate_proto::record::release::ComputeRelease;
use tidegate_proto::{Key, ReleaseRevision, ReleaseTag, ServiceName, ServiceVersion, StreamName, mutant};

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
            // Their agents say nothing that this store admits before a person decides about their claims.
            reasons.extend(store::claims_of_one_node(fleet, name));
            reasons.extend(store::unknown_and_disregarded(fleet, name));
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

/// Every pair of tags that has no pass, with the releases that wait for one.
pub fn wanted(fleet: &Fleet) -> BTreeMap<(ReleaseTag, ReleaseTag), Vec<(StreamName, ReleaseRevision)>> {
    let mut wanted: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (name, stream) in fleet.streams() {
        let waiting = stream.pending.iter().chain(stream.canary.as_deref()).map(|head| &head.release);
        let asks = |release: &&ComputeRelease| {
            stream.settings.evidence.max(release.evidence) == EvidenceRule::Required
        };
        for release in waiting.filter(asks) {
            let tags = release.requires.keys().flat_map(|service| in_use(fleet, service).0);
            for storage in tags.collect::<BTreeSet<_>>() {
                if !matches!(fleet.evidence(&release.tag, &storage), Some((Verdict::Pass, _))) {
                    let pair = (release.tag.clone(), storage);
                    wanted.entry(pair).or_default().push((name.clone(), release.revision));
                }
            }
        }
    }
    wanted
}

/// Whether any instance of any service runs this release.
pub fn is_run(fleet: &Fleet, storage: &ReleaseTag) -> bool {
    fleet.services().any(|service| in_use(fleet, service.name()).0.contains(storage))
}

/// The releases that the instances of a service run, and the instances whose release is not known.
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
