//! The state of release streams.

use super::count;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tidegate_planner::Fleet;
use tidegate_planner::gate::version::below;

/// The gauges of all streams.
#[derive(Default)]
pub(super) struct Streams {
    pending: Family<OfStream, Gauge>,
    canary: Family<OfStream, Gauge>,
    deployed: Family<OfStream, Gauge>,
    below: Family<OfStorage, Gauge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStream {
    stream: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStorage {
    service: String,
}

impl Streams {
    /// Names them.
    pub(super) fn register(&self, r: &mut Registry) {
        r.register("pending_releases", "Compute releases of a stream that wait", self.pending.clone());
        r.register("canary_releases", "1 while a release of the stream is in canary", self.canary.clone());
        let help = "The revision that is deployed; 0 = none yet";
        r.register("deployed_revision", help, self.deployed.clone());
        let help = "Instances of a storage service that run less than compute releases need";
        r.register("storage_below_need_instances", help, self.below.clone());
    }

    /// Reads them again.
    pub(super) fn read(&self, fleet: &Fleet) {
        // A store that was restored may have fewer.
        self.pending.clear();
        self.canary.clear();
        self.deployed.clear();
        self.below.clear();
        for (service, _) in fleet.needs() {
            let of = OfStorage { service: service.to_string() };
            self.below.get_or_create(&of).set(count(below::count_below(fleet, service)));
        }
        for (name, stream) in fleet.streams() {
            let of = OfStream { stream: name.to_string() };
            self.pending.get_or_create(&of).set(count(stream.pending.len()));
            self.canary.get_or_create(&of).set(i64::from(stream.canary.is_some()));
            let deployed = stream.deployed.as_ref().map_or(0, |head| head.release.revision.get());
            self.deployed.get_or_create(&of).set(i64::try_from(deployed).unwrap_or(i64::MAX));
        }
    }
}
