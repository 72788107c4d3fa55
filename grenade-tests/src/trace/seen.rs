//! The records at one revision.

use std::collections::BTreeMap;

use tidegate_proto::record::certificate::CertificatePage;
use tidegate_proto::record::evidence::Verdict;
use tidegate_proto::record::inventory::Inventory;
use tidegate_proto::record::leader::Leader;
use tidegate_proto::record::need::Need;
use tidegate_proto::record::release::ComputeRelease;
use tidegate_proto::record::report::{Report, Rotation};
use tidegate_proto::record::stream::Stream;
use tidegate_proto::record::upgrade::Upgrade;
use tidegate_proto::record::waves::WavePage;
use tidegate_proto::record::window::Window;
use tidegate_proto::{
    GateHop, Key, NodeId, ReleaseRevision, SchemaName, ServiceName, ServiceVersion, StreamName, UpgradeId,
    Value,
};

use super::instance::{At, Instance, is_of_its_agent};
use super::revision::{LIE, Put, Revision, Written};

/// Who sets the floor that compute releases need.
pub(super) const BY_RELEASES: &str = "compute-releases";

/// Whether the floor is what compute releases need, whatever runs.
pub(super) fn follows_needs(window: &Window) -> bool {
    window.ceiling == ServiceVersion::MAX && window.set_by.as_str() == BY_RELEASES
}

/// Whether its agent says that a disable-file keeps requests away.
fn is_hidden(report: &Report) -> bool {
    matches!(report.rotation, Rotation::Leaving | Rotation::Out | Rotation::Maintenance)
}

/// Everything at one revision.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub(super) instances: BTreeMap<(ServiceName, NodeId), Instance>,
    pub(super) windows: BTreeMap<ServiceName, At<Window>>,
    /// Each window that was set, by the revision that set it.
    windows_set: BTreeMap<(ServiceName, i64), Window>,
    pub(super) upgrades: BTreeMap<UpgradeId, Upgrade>,
    /// The revision that wrote each of them last.
    pub(super) upgrade_written: BTreeMap<UpgradeId, i64>,
    /// The pages of the waves of each upgrade.
    pub(super) waves: BTreeMap<UpgradeId, BTreeMap<u32, WavePage>>,
    pub(super) active: BTreeMap<ServiceName, UpgradeId>,
    pub(super) active_schemas: BTreeMap<SchemaName, UpgradeId>,
    pub(super) certificates: BTreeMap<UpgradeId, BTreeMap<u32, CertificatePage>>,
    pub(super) streams: BTreeMap<StreamName, Stream>,
    /// The revision that wrote each of them last.
    pub(super) stream_written: BTreeMap<StreamName, i64>,
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
            let before = self.about(&written.key).map(|instance| (instance.stands(), instance.says()));
            match &written.put {
                Some(put) => self.put(&written.key, put, revision.number),
                None => self.remove(written, revision.number),
            }
            if let Some(instance) = self.about(&written.key) {
                let (before, said) = before.unwrap_or_default();
                let served = before.serves_at;
                instance.note_out(before, written, revision.number);
                instance.note_said(said, written, revision.number);
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
                self.windows_set.insert((service.clone(), revision), window.body.clone());
                self.windows.insert(service.clone(), At { revision, body: window.body });
            }
            (Key::Upgrade(id), Value::Upgrade(upgrade)) => {
                self.upgrades.insert(id.clone(), upgrade.body);
                self.upgrade_written.insert(id.clone(), revision);
            }
            (Key::Waves(id, page), Value::Waves(waves)) => {
                self.waves.entry(id.clone()).or_default().insert(*page, waves.body);
            }
            (Key::Active(service), Value::Active(active)) => {
                self.active.insert(service.clone(), active.body.upgrade);
            }
            (Key::ActiveSchema(schema), Value::ActiveSchema(active)) => {
                self.active_schemas.insert(schema.clone(), active.body.0.upgrade);
            }
            (Key::Certificate(id, page), Value::Certificate(text)) => {
                self.certificates.entry(id.clone()).or_default().insert(*page, text.body);
            }
            (Key::Stream(name), Value::Stream(stream)) => {
                self.streams.insert(name.clone(), stream.body);
                self.stream_written.insert(name.clone(), revision);
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
            Key::Waves(id, page) => drop(self.waves.get_mut(id).and_then(|pages| pages.remove(page))),
            Key::Active(service) => drop(self.active.remove(service)),
            Key::ActiveSchema(schema) => drop(self.active_schemas.remove(schema)),
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
    /// of the two. An inventory record that was written in place of an agent, or by another one, admits nothing.
    pub(super) fn is_admitted(&self, service: &ServiceName, node: &NodeId, report: &Report) -> bool {
        let known = self.instances.get(&(service.clone(), node.clone()));
        let inventory = known.and_then(|instance| instance.inventory.as_ref());
        let is_its_own = |at: &&At<Inventory>| at.body.at != LIE && is_of_its_agent(&at.body, report);
        let admitted = inventory.filter(is_its_own).map(|at| at.body.version);
        report.version.is_some() && report.version == admitted && report.admission.exists()
    }

    /// Whether a report is of an instance that was refused: hidden, at a version outside the window that it has acknowledged,
    /// or hidden still since it was. It is not in service, and every gate that needs that window is closed for it. It is out
    /// of rotation only once balancers had time to notice. Below a floor that follows what releases need it may be shown: no
    /// gate relies on that floor.
    pub(super) fn is_refused(&self, service: &ServiceName, node: &NodeId, report: &Report) -> bool {
        let known = self.instances.get(&(service.clone(), node.clone()));
        let was_refused = known.is_some_and(|instance| instance.is_refused);
        // Another one may have been set since its agent read it. Where a lost store had set that, the current one counts.
        let named = self.windows_set.get(&(service.clone(), report.window.0));
        let current = self.windows.get(service).map(|window| &window.body);
        let is_outside = |version| named.is_some_and(|window| !window.admits(version));
        let is_followed = named.or(current).is_some_and(follows_needs);
        (is_hidden(report) || is_followed) && (was_refused || report.version.is_some_and(is_outside))
    }

    /// Whether an instance is hidden and runs, as far as its agent says, a version that the window does not admit: an order to
    /// serve does not bring it back into rotation.
    pub(super) fn stays_hidden(&self, service: &ServiceName, node: &NodeId) -> bool {
        let instance = self.instances.get(&(service.clone(), node.clone()));
        let report = instance.and_then(|instance| instance.report.as_ref()).map(|at| &at.body);
        let is_outside = |version| self.windows.get(service).is_some_and(|at| !at.body.admits(version));
        report.is_some_and(|report| is_hidden(report) && report.runs().is_some_and(is_outside))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is seen of an instance after these records, in the revisions 1, 2, and so on; without a text the key is gone.
    fn seen(records: &[(&str, Option<&str>)]) -> Instance {
        let mut seen = Seen::default();
        for (number, (key, text)) in (1..).zip(records) {
            seen.take_in(&Revision { number, writes: vec![Written::of_text(key, *text, number)] });
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

    #[test]
    fn another_version_under_the_same_admission_could_not_be_seen() {
        let admitted = |version: u32| {
            format!(r#"{{"schema":1,"version":{version},"identity":{{"nonce":"n","boot":"b"}},"at":1}}"#)
        };
        let says = |version: u32, admission: i64| {
            let report: serde_json::Value =
                serde_json::from_str(&report("healthy", "in", "serving")).unwrap();
            let mut report = report;
            (report["version"], report["admission"]) = (version.into(), admission.into());
            report.to_string()
        };
        let two = ServiceVersion::new(2).unwrap();
        let (inventory, key) = ("inventory/pantry/n1", "reports/pantry/n1");
        let (former, good) = (admitted(2), says(2, 1));
        let begin = [(inventory, Some(former.as_str())), (key, Some(good.as_str()))];
        let lie = says(1, 1);
        let lied = seen(&[begin[0], begin[1], (key, Some(lie.as_str()))]);
        assert!(lied.served_after(2, two), "a coordinator may have seen revision 2");
        assert!(!lied.served_after(3, two), "it has seen revision 3");
        let (again, other) = (admitted(1), says(1, 3));
        let later = [(inventory, Some(again.as_str())), (key, Some(other.as_str()))];
        let replaced = seen(&[begin[0], begin[1], later[0], later[1]]);
        assert!(!replaced.served_after(2, two), "what relies on it compares admissions");
    }

    #[test]
    fn instance_joins_with_its_first_admission_until_it_serves() {
        let admitted = r#"{"schema":1,"version":1,"identity":{"nonce":"n","boot":"b"},"at":1}"#;
        let admission = ("inventory/pantry/n1", Some(admitted));
        let [starts, good] = [report("healthy", "out", "verifying"), report("healthy", "in", "serving")];
        let key = "reports/pantry/n1";
        let starting = seen(&[("windows/pantry", None), admission, (key, Some(starts.as_str()))]);
        assert!(starting.joined_after(1), "no coordinator had to know of it at revision 1");
        assert!(!starting.joined_after(2), "its admission was seen");
        let failing = report("unhealthy", "in", "serving");
        for then in [Some(good.as_str()), Some(failing.as_str()), None] {
            let served = seen(&[admission, (key, Some(good.as_str())), (key, then)]);
            assert!(!served.joined_after(0), "it has served: {then:?}");
        }
    }

    #[test]
    fn decommissioned_instance_joins_once_more_as_it_comes_back() {
        let admitted = r#"{"schema":1,"version":1,"identity":{"nonce":"n","boot":"b"},"at":1}"#;
        let (key, inventory) = ("reports/pantry/n1", ("inventory/pantry/n1", Some(admitted)));
        let [starts, good] = [report("unhealthy", "out", "verifying"), report("healthy", "in", "serving")];
        let gone = r#"{"schema":1,"admission":1,"who":"ann","why":"broken","stopped_how":"power","at":1}"#;
        let order = include_str!("../../../proto/tests/golden/directives.1.json");
        let order = ("directives/pantry/n1", Some(order));
        let gone = ("decommissions/pantry/n1", Some(gone));
        let is_back = (key, Some(starts.as_str()));
        // It served until revision 3.
        let served = [inventory, (key, Some(good.as_str())), (key, None)];
        let after = |more: &[(&str, Option<&str>)]| seen(&[&served[..], more].concat());
        let returned = after(&[gone, order, inventory, is_back]);
        assert!(returned.joined_after(5), "no coordinator had to know at revision 5 that it is back");
        assert!(!returned.joined_after(6), "its admission was seen");
        let ordered = after(&[gone, order, inventory, is_back, order]);
        assert!(!ordered.joined_after(5), "a coordinator gave it an order since");
        let again = good.replace(r#""admission":1"#, r#""admission":5"#);
        let ill = after(&[gone, inventory, (key, Some(again.as_str())), is_back]);
        assert!(!ill.joined_after(4), "it has served since it came back");
        let silent = after(&[order, inventory, is_back]);
        assert!(!silent.joined_after(3), "it counted all the time");
    }

    #[test]
    fn admission_of_another_agent_is_none_of_the_reports() {
        let good = report("healthy", "in", "serving");
        for (nonce, version) in [("n", ServiceVersion::new(1).ok()), ("impostor", None)] {
            let admitted =
                format!(r#"{{"schema":1,"version":1,"identity":{{"nonce":"{nonce}","boot":"b"}},"at":1}}"#);
            let seen = seen(&[
                ("inventory/pantry/n1", Some(admitted.as_str())),
                ("reports/pantry/n1", Some(good.as_str())),
            ]);
            assert_eq!(seen.version(), version, "{nonce}");
        }
    }
}
