//! Instances that run less than compute releases need: they are named, and nothing takes them out.

use super::VersionGate;
use crate::fleet::{Fleet, Sample};
use crate::gate::Reason;
use std::collections::BTreeMap;
use tidegate_proto::record::need::Holder;
use tidegate_proto::{ReleaseRevision, ServiceName, ServiceVersion, StreamName};

/// Instances of a service that are known to run less than what a release needs: another tool put them back, or computes
/// run what no gate let out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Below {
    /// The service.
    pub service: ServiceName,
    /// Some of the instances, and how many there are.
    pub nodes: Sample,
    /// What is needed.
    pub needs: ServiceVersion,
    /// By which release of the stream.
    pub revision: ReleaseRevision,
}

impl Below {
    /// As a reason.
    pub fn reason(&self) -> Reason {
        Reason::Version(VersionGate::Behind {
            service: self.service.clone(),
            nodes: self.nodes.clone(),
            needs: self.needs,
        })
    }
}

/// What runs less than the releases of a stream need.
pub fn below(fleet: &Fleet, name: &StreamName) -> Vec<Below> {
    let holders = fleet.needs().filter_map(|(service, need)| Some((service, need.streams.get(name)?)));
    holders.filter_map(|(service, holder)| found_below(fleet, service, holder)).collect()
}

fn found_below(fleet: &Fleet, service: &ServiceName, holder: &Holder) -> Option<Below> {
    let nodes = fleet.service(service)?.below(holder.minimum).sample();
    let (needs, revision) = (holder.minimum, holder.revision);
    (!nodes.is_empty()).then(|| Below { service: service.clone(), nodes, needs, revision })
}

/// How many instances of a service run less than any release needs.
pub fn count_below(fleet: &Fleet, service: &ServiceName) -> usize {
    let needed = fleet.need(service).and_then(|need| need.highest());
    let of = needed.and_then(|(_, holder)| Some((fleet.service(service)?, holder.minimum)));
    of.map_or(0, |(of, minimum)| of.below(minimum).count)
}

/// What runs less than a stream begins to need, as its event says it.
pub(crate) fn begun_below(
    fleet: &Fleet,
    name: &StreamName,
    after: &BTreeMap<ServiceName, Holder>,
) -> Vec<String> {
    let rises = |service: &ServiceName, holder: &Holder| {
        let before = fleet.need(service).and_then(|need| need.streams.get(name));
        before.is_none_or(|before| before.minimum < holder.minimum)
    };
    let begun = after.iter().filter(|(service, holder)| rises(service, holder));
    begun
        .filter_map(|(service, holder)| found_below(fleet, service, holder))
        .map(|below| below.reason().to_string())
        .collect()
}

/// What runs less than the releases of a stream need, by release.
pub(crate) fn named(fleet: &Fleet, name: &StreamName) -> BTreeMap<ReleaseRevision, Vec<Reason>> {
    let mut named: BTreeMap<ReleaseRevision, Vec<Reason>> = BTreeMap::new();
    for below in below(fleet, name) {
        named.entry(below.revision).or_default().push(below.reason());
    }
    named
}
