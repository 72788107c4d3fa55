//! Capacity between a drain and the stop (rule 4), judged as a history is written: what was known when an order was given
//! depends on how long it had been in the store.

use std::collections::BTreeMap;

use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::Health;
use tidegate_proto::record::upgrade::PhaseName;
use tidegate_proto::{Key, NodeId, ServiceName, Value};

use super::Trace;
use super::instance::Instance;
use super::revision::{Revision, Written};
use super::rules::Broken;
use super::seen::Seen;

/// The current records, and since when too few are in rotation.
#[derive(Debug, Default)]
pub struct Live {
    seen: Seen,
    few: BTreeMap<ServiceName, Few>,
    /// Until when an instance was last reported hidden at a version outside the window, in milliseconds.
    hidden_until: BTreeMap<(ServiceName, NodeId), u64>,
}

/// Since when fewer are in rotation than must stay, in milliseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Few {
    /// Healthy ones.
    well: Option<u64>,
    /// Healthy or not.
    possibly: Option<u64>,
}

impl Live {
    /// The state at the end of a history.
    pub(super) fn after(trace: &Trace) -> Self {
        let mut live = Self::default();
        trace.revisions.iter().for_each(|revision| live.seen.take_in(revision));
        live
    }

    /// Takes in one key as it is written at a time; what has been in the store for `known` milliseconds is known to
    /// every leader.
    pub fn take_in(&mut self, number: i64, written: &Written, now: u64, known: u64) -> Option<Broken> {
        let broken = self.stopped_without_capacity(number, written, now.saturating_sub(known));
        if let Key::Report(service, node) = &written.key
            && self.seen.stays_hidden(service, node)
        {
            self.hidden_until.insert((service.clone(), node.clone()), now);
        }
        self.seen.take_in(&Revision { number, writes: vec![written.clone()] });
        let service = match &written.key {
            Key::Report(service, _) | Key::Directive(service, _) | Key::Active(service) => Some(service),
            _ => None,
        };
        if let Some(service) = service {
            self.count(service, now);
        }
        broken
    }

    fn count(&mut self, service: &ServiceName, now: u64) {
        let whole = self.seen.fleet(service).count();
        let active = self.seen.active.get(service).and_then(|id| self.seen.upgrades.get(id));
        let least = active.map_or(0, |upgrade| upgrade.spec.min_in_service.rounded_up(whole));
        let count = |is: fn(&Instance) -> bool| self.seen.fleet(service).filter(|(_, i)| is(i)).count();
        let (well, possibly) = (count(Instance::is_well), count(Instance::may_get_requests));
        let few = self.few.entry(service.clone()).or_default();
        few.well = if well < least { few.well.or(Some(now)) } else { None };
        few.possibly = if possibly < least { few.possibly.or(Some(now)) } else { None };
    }

    /// A drained instance is ordered to stop although too few have been in rotation since before `then`: it is put back
    /// where it is healthy, and waits where it is not. One that stays hidden cannot be put back.
    fn stopped_without_capacity(&self, at: i64, written: &Written, then: u64) -> Option<Broken> {
        let (Key::Directive(service, node), Some(Value::Directive(directive))) =
            (&written.key, written.put.as_ref().map(|put| &put.value))
        else {
            return None;
        };
        if !matches!(directive.body.disposition, Disposition::Replace { .. } | Disposition::Stop) {
            return None;
        }
        if self.stayed_hidden(service, node, then) {
            return None;
        }
        let (instance, few) = (self.drained(service, node)?, self.few.get(service)?);
        let healthy = instance.report.as_ref()?.body.health == Health::Healthy;
        let since = if healthy { few.well } else { few.possibly };
        let since = since.filter(|since| *since < then)?;
        let what = format!(
            "{service}/{node} was drained and is stopped, and too few have been in rotation since {since} ms"
        );
        Some(Broken { at, rule: 4, what })
    }

    /// Whether an instance is hidden at a version outside the window, or was until `then` or later.
    fn stayed_hidden(&self, service: &ServiceName, node: &NodeId, then: u64) -> bool {
        let until = self.hidden_until.get(&(service.clone(), node.clone()));
        self.seen.stays_hidden(service, node) || until.is_some_and(|until| *until >= then)
    }

    /// An instance that is out by an order to drain and has served; in a rollback one that cannot serve may be stopped all the
    /// same. One whose agent has declined the drain, and that is out since, went by itself.
    fn drained(&self, service: &ServiceName, node: &NodeId) -> Option<&Instance> {
        let id = self.seen.active.get(service)?;
        let back = self.seen.upgrades.get(id)?.phase.name() == PhaseName::RollingBack;
        let instance = self.seen.instances.get(&(service.clone(), node.clone()))?;
        let drains = instance.directive.as_ref().is_some_and(|d| d.body.disposition == Disposition::Drain);
        let is_out = instance.report.as_ref().is_some_and(|report| instance.is_ordered_out(&report.body));
        (drains && is_out && !back && instance.inventory.is_some()).then_some(instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Put;
    use serde_json::json;
    use tidegate_proto::Prefix;

    /// Two must stay.
    const UPGRADE: &str = include_str!("../../../proto/tests/golden/upgrades.1.json");
    const DIRECTIVE: &str = include_str!("../../../proto/tests/golden/directives.1.json");

    /// What has been in the store for so many milliseconds is known to every leader.
    const KNOWN: u64 = 1_000;

    fn written(number: i64, key: &str, text: &str) -> Written {
        let path = format!("/tidegate/{key}");
        let key = Prefix::default().parse(path.as_bytes()).unwrap().unwrap();
        let value = Value::decode(&key, text.as_bytes()).unwrap();
        Written { key, put: Some(Put { value, created: number, lease: 0 }), gone: false }
    }

    fn admitted(version: i64) -> String {
        let identity = json!({"nonce": "n", "boot": "b"});
        json!({"schema": 1, "version": version, "identity": identity, "at": 1}).to_string()
    }

    /// What an instance reports that was admitted in this revision, and has accepted its last directive.
    fn report(admission: i64, version: Option<i64>, rotation: &str, step: &str) -> String {
        let report = json!({
            "schema": 1, "version": version, "admission": admission, "generation": 9, "rotation": rotation,
            "health": "healthy", "step": {"name": step, "reason": "above the ceiling"},
            "identity": {"nonce": "n", "boot": "b"},
        });
        report.to_string()
    }

    /// What n2 reports, which was drained, where its agent withholds this version because it was refused.
    fn refused(version: i64, rotation: &str) -> String {
        let report = report(4, None, rotation, "drained");
        let mut report: serde_json::Value = serde_json::from_str(&report).unwrap();
        report["probed"] = json!(version);
        report.to_string()
    }

    /// Whether the stop of n2, which was drained, breaks the rule, where n3 serves, n1 was replaced with version 2, and these
    /// records were written since, each at its time.
    fn stop_breaks_it(later: &[(u64, &str, String)]) -> bool {
        let mut drain: serde_json::Value = serde_json::from_str(DIRECTIVE).unwrap();
        drain["disposition"] = json!({"name": "drain"});
        let records = [
            ("upgrades/u1", UPGRADE.to_owned()),
            ("active/pantry-api", json!({"schema": 1, "upgrade": "u1"}).to_string()),
            ("inventory/pantry-api/n1", admitted(2)),
            ("inventory/pantry-api/n2", admitted(1)),
            ("inventory/pantry-api/n3", admitted(1)),
            ("directives/pantry-api/n1", DIRECTIVE.to_owned()),
            ("reports/pantry-api/n1", report(3, Some(2), "in", "serving")),
            ("reports/pantry-api/n3", report(5, Some(1), "in", "serving")),
            ("directives/pantry-api/n2", drain.to_string()),
            ("reports/pantry-api/n2", report(4, Some(1), "out", "drained")),
        ];
        let records = records.iter().map(|(key, text)| (0, *key, text));
        let later = later.iter().map(|(at, key, text)| (*at, *key, text));
        let mut live = Live::default();
        for (number, (at, key, text)) in (1..).zip(records.chain(later)) {
            assert_eq!(live.take_in(number, &written(number, key, text), at, KNOWN), None);
        }
        let stop = written(20, "directives/pantry-api/n2", DIRECTIVE);
        live.take_in(20, &stop, 2 * KNOWN, KNOWN).is_some()
    }

    #[test]
    fn drained_one_stops_beside_a_version_changed_in_rotation() {
        let breaks = |version, rotation, step| {
            stop_breaks_it(&[(0, "reports/pantry-api/n1", report(3, version, rotation, step))])
        };
        assert!(!breaks(Some(2), "in", "serving"), "it serves as ordered");
        assert!(!breaks(None, "in", "serving"), "what it runs now was not admitted yet");
        assert!(!breaks(None, "in", "refused"), "it was refused, and stays in rotation");
        assert!(breaks(None, "out", "refused"), "it was refused, and is out of rotation");
        assert!(breaks(Some(2), "in", "draining"), "it is taken out to be started again");
    }

    #[test]
    fn drained_one_that_stays_hidden_stops_without_capacity() {
        let window = json!({"schema": 1, "floor": 1, "ceiling": 2, "set_by": "u1"}).to_string();
        // Too few are in rotation.
        let few = [
            (0, "reports/pantry-api/n1", report(3, None, "out", "refused")),
            (0, "windows/pantry-api", window),
        ];
        let breaks = |reports: &[(u64, String)]| {
            let reports = reports.iter().map(|(at, text)| (*at, "reports/pantry-api/n2", text.clone()));
            stop_breaks_it(&few.iter().cloned().chain(reports).collect::<Vec<_>>())
        };
        assert!(breaks(&[]), "it is put back");
        for rotation in ["out", "leaving", "maintenance"] {
            assert!(!breaks(&[(0, refused(7, rotation))]), "{rotation}: an order to serve does not show it");
            assert!(breaks(&[(0, refused(2, rotation))]), "{rotation}: the window admits it");
        }
        assert!(breaks(&[(0, refused(7, "in"))]), "an order to serve leaves it in rotation");
        let admitted_at = |at| [(0, refused(7, "out")), (at, report(4, Some(1), "out", "drained"))];
        assert!(!breaks(&admitted_at(KNOWN + 1)), "no coordinator had to know that it was admitted");
        assert!(breaks(&admitted_at(KNOWN - 1)), "a coordinator had to know that it was admitted");
    }

    #[test]
    fn one_that_declined_its_drain_and_is_out_is_replaced() {
        let breaks = |admission| {
            let text = report(admission, Some(1), "maintenance", "serving");
            let mut declined: serde_json::Value = serde_json::from_str(&text).unwrap();
            declined["declined"] = json!(true);
            stop_breaks_it(&[
                (0, "reports/pantry-api/n1", report(3, None, "out", "refused")),
                (0, "inventory/pantry-api/n2", admitted(1)),
                (0, "reports/pantry-api/n2", declined.to_string()),
            ])
        };
        assert!(!breaks(12), "its journal is newer than the drain, and a person keeps it out");
        assert!(breaks(4), "it was admitted before the drain, and is out by it");
    }
}
