//! The records at one revision, and what they say of an instance.

use std::collections::BTreeMap;

use tidegate_proto::record::certificate::CertificatePage;
use tidegate_proto::record::directive::{Directive, Disposition};
use tidegate_proto::record::evidence::Verdict;
use tidegate_proto::record::inventory::Inventory;
use tidegate_proto::record::leader::Leader;
use tidegate_proto::record::need::Need;
use tidegate_proto::record::release::ComputeRelease;
use tidegate_proto::record::report::{Health, Report, Rotation, Step};
use tidegate_proto::record::stream::Stream;
use tidegate_proto::record::upgrade::Upgrade;
use tidegate_proto::record::window::Window;
use tidegate_proto::{
    GateHop, Key, NodeId, ReleaseRevision, ServiceName, ServiceVersion, StreamName, UpgradeId, Value,
};

use super::revision::{LIE, Put, Revision, Written};

/// Who sets the floor that compute releases need.
pub(super) const BY_RELEASES: &str = "compute-releases";

/// Whether the floor is what compute releases need, whatever runs.
pub(super) fn follows_needs(window: &Window) -> bool {
    window.ceiling == ServiceVersion::MAX && window.set_by.as_str() == BY_RELEASES
}

/// A record and the revision that wrote it last.
#[derive(Debug, Clone)]
pub(super) struct At<T> {
    pub(super) revision: i64,
    pub(super) body: T,
}

/// One service on one node.
#[derive(Debug, Clone, Default)]
pub(super) struct Instance {
    pub(super) report: Option<At<Report>>,
    /// The last report, also when it is gone.
    pub(super) last_report: Option<At<Report>>,
    /// The revision at which its last report went, because the lease lapsed.
    pub(super) lapsed: i64,
    /// The lease that its last report hangs on; 0 = none.
    lease: i64,
    /// Whether a report since then named an admission and the version that was admitted, and was not of a refused one.
    pub(super) is_back: bool,
    /// Whether a report since then was of a refused instance.
    is_refused: bool,
    /// The revision since which it is out by itself; 0 where it is not, or an order took it out.
    fell_out: i64,
    pub(super) inventory: Option<At<Inventory>>,
    pub(super) directive: Option<At<Directive>>,
    pub(super) decommissioned: bool,
    /// The version at which it was in service until it left service or changed, and the revision at which that was.
    served: Option<(ServiceVersion, i64)>,
    /// The revision of the report with which it last came into service; 0 where no report did that.
    came_in: i64,
}

/// Everything at one revision.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) instances: BTreeMap<(ServiceName, NodeId), Instance>,
    pub(super) windows: BTreeMap<ServiceName, At<Window>>,
    pub(super) upgrades: BTreeMap<UpgradeId, Upgrade>,
    /// The revision that wrote each of them last.
    pub(super) upgrade_written: BTreeMap<UpgradeId, i64>,
    pub(super) active: BTreeMap<ServiceName, UpgradeId>,
    pub(super) certificates: BTreeMap<UpgradeId, BTreeMap<u32, CertificatePage>>,
    pub(super) streams: BTreeMap<StreamName, Stream>,
    pub(super) releases: BTreeMap<StreamName, BTreeMap<ReleaseRevision, ComputeRelease>>,
    pub(super) needs: BTreeMap<ServiceName, Need>,
    /// Verdicts of gate jobs.
    pub(super) verdicts: BTreeMap<GateHop, Verdict>,
    /// The revision that made the leader's key is its fence.
    pub(super) leader: Option<At<Leader>>,
    /// The leases at whose end a report went, each with the revision then.
    pub(super) ended_leases: BTreeMap<i64, i64>,
}

impl Seen {
    pub(super) fn take_in(&mut self, revision: &Revision) {
        for written in &revision.writes {
            let before = self.about(&written.key).map(|instance| (instance.is_out(), instance.serves_at()));
            match &written.put {
                Some(put) => self.put(&written.key, put, revision.number),
                None => self.remove(written, revision.number),
            }
            if let Some(instance) = self.about(&written.key) {
                let (was_out, served) = before.unwrap_or_default();
                let was_in_service = served.is_some();
                instance.note_out(was_out, was_in_service, written, revision.number);
                if let Some(version) = served
                    && instance.serves_at() != served
                {
                    instance.served = Some((version, revision.number));
                }
                if served.is_none() && instance.is_in_service() {
                    // A coordinator knows what its own order let in.
                    let by_report = matches!(written.key, Key::Report(..));
                    instance.came_in = if by_report { revision.number } else { 0 };
                }
            }
        }
    }

    /// The instance that a key is about.
    fn about(&mut self, key: &Key) -> Option<&mut Instance> {
        match key {
            Key::Report(service, node)
            | Key::Inventory(service, node)
            | Key::Directive(service, node)
            | Key::Decommission(service, node) => self.instances.get_mut(&(service.clone(), node.clone())),
            _ => None,
        }
    }

    fn instance(&mut self, service: &ServiceName, node: &NodeId) -> &mut Instance {
        self.instances.entry((service.clone(), node.clone())).or_default()
    }

    fn put(&mut self, key: &Key, put: &Put, revision: i64) {
        match (key, put.value.clone()) {
            (Key::Report(service, node), Value::Report(report)) => {
                let is_refused = self.is_refused(service, node, &report.body);
                let is_back = self.is_admitted(service, node, &report.body) && !is_refused;
                let instance = self.instance(service, node);
                instance.is_back |= is_back;
                instance.is_refused |= is_refused;
                instance.last_report = Some(At { revision, body: report.body.clone() });
                instance.lease = put.lease;
                // Who reports again was not gone.
                instance.decommissioned = false;
                instance.report = Some(At { revision, body: report.body });
            }
            (Key::Inventory(service, node), Value::Inventory(inventory)) => {
                let instance = self.instance(service, node);
                instance.inventory = Some(At { revision, body: inventory.body });
                instance.decommissioned = false;
            }
            (Key::Directive(service, node), Value::Directive(directive)) => {
                self.instance(service, node).directive = Some(At { revision, body: directive.body });
            }
            (Key::Decommission(service, node), _) => self.instance(service, node).decommissioned = true,
            (Key::Window(service), Value::Window(window)) => {
                self.windows.insert(service.clone(), At { revision, body: window.body });
            }
            (Key::Upgrade(id), Value::Upgrade(upgrade)) => {
                self.upgrades.insert(id.clone(), upgrade.body);
                self.upgrade_written.insert(id.clone(), revision);
            }
            (Key::Active(service), Value::Active(active)) => {
                self.active.insert(service.clone(), active.body.upgrade);
            }
            (Key::Certificate(id, page), Value::Certificate(text)) => {
                self.certificates.entry(id.clone()).or_default().insert(*page, text.body);
            }
            (Key::Stream(name), Value::Stream(stream)) => {
                self.streams.insert(name.clone(), stream.body);
            }
            (Key::Release(stream, number), Value::Release(release)) => {
                self.releases.entry(stream.clone()).or_default().insert(*number, release.body);
            }
            (Key::GateVerdict(hop), Value::GateVerdict(verdict)) => {
                self.verdicts.insert((**hop).clone(), verdict.body.verdict);
            }
            (Key::Need(service), Value::Need(need)) => drop(self.needs.insert(service.clone(), need.body)),
            (Key::Leader, Value::Leader(leader)) => {
                self.leader = Some(At { revision: put.created, body: leader.body });
            }
            _ => {}
        }
    }

    fn remove(&mut self, written: &Written, revision: i64) {
        match &written.key {
            Key::Report(service, node) => {
                let instance = self.instance(service, node);
                // One that was overwritten with nonsense is removed by hand, and its agent's lease is still held.
                if instance.report.take().is_some() && written.gone {
                    instance.lapsed = revision;
                    (instance.is_back, instance.is_refused) = (false, false);
                    let lease = instance.lease;
                    self.ended_leases.insert(lease, revision);
                }
            }
            Key::Inventory(service, node) => self.instance(service, node).inventory = None,
            Key::Directive(service, node) => self.instance(service, node).directive = None,
            Key::Window(service) => drop(self.windows.remove(service)),
            Key::Upgrade(id) => drop(self.upgrades.remove(id)),
            Key::Active(service) => drop(self.active.remove(service)),
            Key::Decommission(service, node) => self.instance(service, node).decommissioned = false,
            Key::Stream(name) => drop(self.streams.remove(name)),
            Key::GateVerdict(hop) => drop(self.verdicts.remove(&**hop)),
            Key::Need(service) => drop(self.needs.remove(service)),
            Key::Leader => self.leader = None,
            _ => {}
        }
    }

    /// Whether a report names an admission and the version that was admitted. One that names no admission counts for
    /// nothing until it does, and one that says another version than the admitted one was refused: it counts at the lower
    /// of the two. An inventory record that was written in place of an agent admits nothing.
    pub(super) fn is_admitted(&self, service: &ServiceName, node: &NodeId, report: &Report) -> bool {
        let known = self.instances.get(&(service.clone(), node.clone()));
        let inventory = known.and_then(|instance| instance.inventory.as_ref());
        let admitted = inventory.filter(|at| at.body.at != LIE).map(|at| at.body.version);
        report.version.is_some() && report.version == admitted && report.admission.exists()
    }

    /// Whether a report is of an instance that was refused: hidden, at a version outside the window that it has acknowledged,
    /// or hidden still since it was. It is not in service, and every gate that needs that window is closed for it. It is out
    /// of rotation only once balancers had time to notice. Below a floor that follows what releases need it may be shown: no
    /// gate relies on that floor.
    pub(super) fn is_refused(&self, service: &ServiceName, node: &NodeId, report: &Report) -> bool {
        let known = self.instances.get(&(service.clone(), node.clone()));
        let was_refused = known.is_some_and(|instance| instance.is_refused);
        let is_outside = |version| {
            let window = self.windows.get(service);
            window.is_some_and(|at| at.revision == report.window.0 && !at.body.admits(version))
        };
        let is_hidden = matches!(report.rotation, Rotation::Leaving | Rotation::Out | Rotation::Maintenance);
        let is_followed = self.windows.get(service).is_some_and(|window| follows_needs(&window.body));
        (is_hidden || is_followed) && (was_refused || report.version.is_some_and(is_outside))
    }

    /// The instances of a service that count: admitted once, and not decommissioned or heard of since.
    pub(super) fn fleet<'a>(
        &'a self,
        service: &'a ServiceName,
    ) -> impl Iterator<Item = (&'a NodeId, &'a Instance)> {
        self.instances
            .iter()
            .filter(move |((of, _), instance)| of == service && instance.counts())
            .map(|((_, node), instance)| (node, instance))
    }

    /// The services that have an instance which was last seen above a version.
    pub(super) fn services_above(&self, version: ServiceVersion) -> impl Iterator<Item = &ServiceName> {
        let above = self.instances.iter().filter(move |(_, instance)| instance.is_above(version));
        above.map(|((service, _), _)| service)
    }

    pub(super) fn in_service(&self, service: &ServiceName) -> usize {
        self.fleet(service).filter(|(_, instance)| instance.is_in_service()).count()
    }
}

impl Instance {
    /// What it runs: the lower of its report and its last admission, where the report belongs to that one.
    pub(super) fn version(&self) -> Option<ServiceVersion> {
        let (report, inventory) = (self.report.as_ref()?, self.inventory.as_ref()?);
        let running = report.body.version.filter(|_| report.body.admission.0 == inventory.revision)?;
        Some(running.min(inventory.body.version))
    }

    /// Whether what runs is above a version, as far as its agent says, admitted or not; of a silent one the last that was
    /// admitted counts.
    fn is_above(&self, version: ServiceVersion) -> bool {
        let reported = self.report.as_ref().and_then(|report| report.body.runs());
        let last = reported.or_else(|| self.inventory.as_ref().map(|inventory| inventory.body.version));
        !self.decommissioned && last.is_some_and(|last| last > version)
    }

    /// In rotation, healthy, and not ordered out: an order holds from its commit until a report of its generation or a
    /// later one shows the instance back.
    pub(super) fn is_in_service(&self) -> bool {
        let Some(report) = self.report.as_ref().map(|report| &report.body) else { return false };
        let serves = report.rotation == Rotation::In
            && report.health == Health::Healthy
            && report.step == Step::Serving;
        serves && self.version().is_some() && !self.is_ordered_out(report)
    }

    /// Whether it is out by itself, and that began after this revision: with a report, with the end of its lease, with a
    /// report that cannot be read, or because it has only just joined.
    pub(super) fn fell_out_after(&self, known: i64) -> bool {
        self.fell_out > known
    }

    /// Whether it last came into service with a report, and after this revision.
    pub(super) fn came_in_after(&self, known: i64) -> bool {
        self.came_in > known
    }

    /// Whether it counts: admitted once, and not decommissioned or heard of since.
    fn counts(&self) -> bool {
        self.inventory.is_some() && (!self.decommissioned || self.report.is_some())
    }

    fn is_out(&self) -> bool {
        self.counts() && !self.is_in_service()
    }

    /// A revision wrote one of its records, before which it was out, in service, or not counted. An order takes out with its
    /// commit: what was in service under an order, and leaves with another record, falls out by itself.
    fn note_out(&mut self, was_out: bool, was_in_service: bool, written: &Written, revision: i64) {
        let ordered = self.report.as_ref().is_some_and(|report| self.is_ordered_out(&report.body));
        let by_order = ordered && matches!(written.key, Key::Directive(..));
        if !self.is_out() || by_order {
            self.fell_out = 0;
        } else if was_in_service || !was_out && !ordered {
            self.fell_out = revision;
        }
    }

    /// Whether it was in service at this version until after this revision, and then fell out by itself.
    pub(super) fn served_after(&self, known: i64, version: ServiceVersion) -> bool {
        let served = self.served.is_some_and(|(at, ended)| at == version && ended > known);
        served && self.fell_out_after(known)
    }

    /// In rotation, and not ordered out, whatever version it runs.
    pub(super) fn may_get_requests(&self) -> bool {
        let out = |report: &Report| matches!(report.rotation, Rotation::Out | Rotation::Maintenance);
        let report = self.report.as_ref().map(|report| &report.body);
        report.is_some_and(|report| !out(report) && !self.is_ordered_out(report))
    }

    /// In rotation by evidence, healthy, and not ordered out, whatever version it runs.
    pub(super) fn is_well(&self) -> bool {
        let well = |report: &Report| report.rotation == Rotation::In && report.health == Health::Healthy;
        self.may_get_requests() && self.report.as_ref().is_some_and(|report| well(&report.body))
    }

    fn is_ordered_out(&self, report: &Report) -> bool {
        let Some(directive) = &self.directive else { return false };
        let declined = report.declined && directive.body.presumes_out;
        let obeyed = report.generation.0 >= directive.revision;
        match &directive.body.disposition {
            _ if declined && obeyed => false,
            Disposition::Drain | Disposition::Stop => true,
            Disposition::Replace { release } => match report.step {
                _ if !obeyed => true,
                Step::Draining | Step::Drained { .. } | Step::Replacing => true,
                // Its agent takes it out when it accepts: it was replaced, and what runs was changed since.
                Step::Serving | Step::Refused { .. } if report.rotation == Rotation::In => false,
                _ => self.version() != Some(release.version),
            },
            Disposition::Serve { returning } => *returning && !obeyed,
        }
    }

    /// The version at which it is in service.
    fn serves_at(&self) -> Option<ServiceVersion> {
        self.version().filter(|_| self.is_in_service())
    }

    /// Whether it is in service at this version.
    pub(super) fn serves(&self, version: ServiceVersion) -> bool {
        self.serves_at() == Some(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_proto::Prefix;

    /// What is seen of an instance after these records, in the revisions 1, 2, and so on; without a text the key is gone.
    fn seen(records: &[(&str, Option<&str>)]) -> Instance {
        let mut seen = Seen::default();
        for (number, (key, text)) in (1..).zip(records) {
            let path = format!("/tidegate/{key}");
            let key = Prefix::default().parse(path.as_bytes()).unwrap().unwrap();
            let value = text.map(|text| Value::decode(&key, text.as_bytes()).unwrap());
            let put = value.map(|value| Put { value, created: number, lease: 0 });
            seen.take_in(&Revision { number, writes: vec![Written { key, gone: put.is_none(), put }] });
        }
        seen.instances.into_values().next().unwrap()
    }

    fn report(health: &str, rotation: &str, step: &str) -> String {
        format!(
            r#"{{"schema":1,"version":1,"admission":1,"rotation":"{rotation}","health":"{health}",
                "step":{{"name":"{step}"}},"identity":{{"nonce":"n","boot":"b"}}}}"#
        )
    }

    #[test]
    fn instance_could_be_seen_serving_until_it_fell_out() {
        let admitted = r#"{"schema":1,"version":1,"identity":{"nonce":"n","boot":"b"},"at":1}"#;
        let (version, other) = (ServiceVersion::new(1).unwrap(), ServiceVersion::new(2).unwrap());
        let good = report("healthy", "in", "serving");
        let after = |last: Option<&str>| {
            let key = "reports/pantry/n1";
            seen(&[("inventory/pantry/n1", Some(admitted)), (key, Some(good.as_str())), (key, last)])
        };
        for falls in [report("unhealthy", "in", "serving"), report("healthy", "in", "verifying")] {
            let fell = after(Some(falls.as_str()));
            assert!(fell.served_after(2, version), "a coordinator may have seen revision 2: {falls}");
            assert!(!fell.served_after(3, version), "it has seen revision 3: {falls}");
            assert!(!fell.served_after(2, other), "it never served at version 2: {falls}");
            let never = seen(&[
                ("inventory/pantry/n1", Some(admitted)),
                ("reports/pantry/n1", Some(falls.as_str())),
                ("reports/pantry/n1", Some(falls.as_str())),
            ]);
            assert!(!never.served_after(0, version), "it never served: {falls}");
        }
        assert!(after(None).fell_out_after(2) && after(None).served_after(2, version), "its lease lapsed");
    }
}
