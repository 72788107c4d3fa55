//! Failure domains, and what is in rotation without being in service: an order takes out of one domain at a time, and of
//! unhealthy instances no more than if all of them became healthy at once (rule 4).

use std::collections::BTreeSet;

use tidegate_proto::record::report::Rotation;
use tidegate_proto::record::upgrade::PhaseName;
use tidegate_proto::{NodeId, ServiceName};

use super::Judge;
use crate::trace::instance::Instance;
use crate::trace::seen::Seen;

impl Judge<'_> {
    /// What is out after an instance was taken out has one value of this label. What lacks it may be in any domain. No
    /// coordinator had to know yet of what fell out, or was admitted with another value, a moment ago.
    pub(super) fn one_domain(&mut self, (service, node): &(ServiceName, NodeId), label: &str) {
        let domain = |instance: &Instance| {
            let admitted = instance.inventory.as_ref().filter(|at| at.revision <= self.known)?;
            Some(admitted.body.labels.get(label).cloned().unwrap_or_default())
        };
        let out = self.after.fleet(service).filter(|(_, i)| i.is_out() && !i.fell_out_after(self.known));
        let out: Vec<String> = out.filter_map(|(_, instance)| domain(instance)).collect();
        let unlabelled = out.iter().filter(|domain| domain.is_empty()).count();
        let named: BTreeSet<&String> = out.iter().filter(|domain| !domain.is_empty()).collect();
        self.holds(4, named.len() + unlabelled <= 1, || {
            format!(
                "after {node} was taken out, {unlabelled} without {label} and some of {named:?} of it are out"
            )
        });
    }

    /// One that is not in service is taken out of rotation: as many as must stay in service are in rotation then, healthy or
    /// not. In a rollback that takes too long, it goes all the same.
    pub(super) fn in_rotation(&mut self, at: &(ServiceName, NodeId)) {
        let (service, node) = at;
        let is_in = |seen: &Seen| seen.instances.get(at).is_some_and(is_in_rotation);
        if !is_in(self.before) || is_in(self.after) || self.of_former_view {
            return;
        }
        let upgrade = self.after.active.get(service).and_then(|id| self.after.upgrades.get(id));
        let Some(upgrade) = upgrade.filter(|upgrade| upgrade.phase.name() != PhaseName::RollingBack) else {
            return;
        };
        let least = upgrade.spec.min_in_service.rounded_up(self.after.fleet(service).count());
        let counts = |i: &Instance| is_in_rotation(i) || i.reported_after(self.known) && !is_ordered_out(i);
        let left = self.after.fleet(service).filter(|(_, instance)| counts(instance)).count();
        self.holds(4, left >= least, || {
            format!("{left} are in rotation, healthy or not, after {node} was taken out, {least} must be")
        });
    }
}

fn is_in_rotation(instance: &Instance) -> bool {
    let is_in = instance.report.as_ref().is_some_and(|report| report.body.rotation == Rotation::In);
    is_in && !is_ordered_out(instance)
}

fn is_ordered_out(instance: &Instance) -> bool {
    instance.last_report.as_ref().is_some_and(|report| instance.is_ordered_out(&report.body))
}

#[cfg(test)]
mod tests {
    use crate::trace::{Revision, Trace, Written};
    use serde_json::{Value as Json, json};

    const UPGRADE: &str = include_str!("../../../../proto/tests/golden/upgrades.1.json");
    const DIRECTIVE: &str = include_str!("../../../../proto/tests/golden/directives.1.json");

    /// When the last revision comes, in milliseconds.
    const NOW: u64 = 10_000;

    fn written(number: i64, key: &str, record: &Json) -> Written {
        Written::of_text(key, Some(&record.to_string()), number)
    }

    fn upgrade(change: impl FnOnce(&mut Json)) -> Json {
        let mut upgrade: Json = serde_json::from_str(UPGRADE).unwrap();
        change(&mut upgrade["spec"]);
        upgrade
    }

    fn admitted(zone: Option<&str>) -> Json {
        let labels = zone.map_or(json!({}), |zone| json!({"zone": zone}));
        json!({"schema": 1, "version": 1, "identity": {"nonce": "n", "boot": "b"}, "at": 1, "labels": labels})
    }

    /// What an instance says that was admitted in this revision.
    fn report(admission: i64, rotation: &str, health: &str) -> Json {
        json!({"schema": 1, "version": 1, "admission": admission, "rotation": rotation, "health": health,
            "step": {"name": "serving"}, "identity": {"nonce": "n", "boot": "b"}})
    }

    fn drain(presumes_out: bool) -> Json {
        let mut order: Json = serde_json::from_str(DIRECTIVE).unwrap();
        (order["disposition"], order["presumes_out"]) = (json!({"name": "drain"}), json!(presumes_out));
        order
    }

    /// Instances n1, n2 and so on with these zones and reports; those of the upgrade's service.
    fn fleet(upgrade: &Json, each: &[(Option<&str>, &str, &str)]) -> Vec<Vec<Written>> {
        let mut all = vec![
            vec![written(1, "upgrades/u1", upgrade)],
            vec![written(2, "active/pantry-api", &json!({"schema": 1, "upgrade": "u1"}))],
        ];
        for (n, (zone, rotation, health)) in (1..).zip(each) {
            let number = all.len() as i64 + 1;
            all.push(vec![written(number, &format!("inventory/pantry-api/n{n}"), &admitted(*zone))]);
            let said = report(number, rotation, health);
            all.push(vec![written(number + 1, &format!("reports/pantry-api/n{n}"), &said)]);
        }
        all
    }

    /// Whether the drain of this instance breaks the rule, where the last of these was written so long ago.
    fn drain_breaks_it(mut all: Vec<Vec<Written>>, node: &str, (since, presumes_out): (u64, bool)) -> bool {
        let mut times = vec![0; all.len()];
        times.extend([NOW - since, NOW]);
        times.remove(all.len() - 1);
        let number = all.len() as i64 + 1;
        let budget = json!({"schema": 1, "term": "t1", "taken": 1});
        all.push(vec![
            written(number, &format!("directives/pantry-api/{node}"), &drain(presumes_out)),
            written(number, "budget/pantry-api", &budget),
        ]);
        let revisions = (1..).zip(all).map(|(number, writes)| Revision { number, writes }).collect();
        let trace = Trace { revisions, seen_at: (1..).zip(times).collect(), ..Trace::default() };
        trace.breaches().iter().any(|broken| broken.rule == 4 && broken.at == number)
    }

    const LONG: (u64, bool) = (3_000, false);

    #[test]
    fn second_failure_domain_is_not_drained() {
        let zones = upgrade(|spec| {
            (spec["min_in_service"], spec["max_unavailable"]) = (json!(0), json!(3));
            spec["failure_domain"] = json!("zone");
        });
        let serving = |zone| (zone, "in", "healthy");
        // The third one falls out before the first is drained.
        let beside = |zones: &Json, first, second, how| {
            let mut all = fleet(zones, &[serving(second), serving(Some("c")), serving(first)]);
            let number = all.len() as i64 + 1;
            all.push(vec![written(number, "reports/pantry-api/n3", &report(7, "out", "unhealthy"))]);
            drain_breaks_it(all, "n1", how)
        };
        let (a, b) = (Some("a"), Some("b"));
        assert!(!beside(&zones, a, a, LONG), "both are in one domain");
        assert!(beside(&zones, a, b, LONG));
        assert!(beside(&zones, None, b, LONG) && beside(&zones, a, None, LONG), "it may be in any domain");
        assert!(beside(&zones, None, None, LONG), "they may be in two");
        assert!(beside(&zones, a, Some(""), LONG), "an empty label is none");
        assert!(!beside(&zones, a, b, (1, false)), "no coordinator had to know of the other one");
        let none = upgrade(|spec| {
            (spec["min_in_service"], spec["max_unavailable"]) = (json!(0), json!(3));
            spec["failure_domain"] = Json::Null;
        });
        assert!(!beside(&none, a, b, LONG), "no failure domain is named");
    }

    #[test]
    fn unhealthy_ones_are_drained_as_if_they_became_healthy() {
        let two = upgrade(|spec| (spec["min_in_service"], spec["max_unavailable"]) = (json!(2), json!(3)));
        let ill = (None, "in", "unhealthy");
        let breaks = |all: &[_], how| drain_breaks_it(fleet(&two, all), "n1", how);
        assert!(!breaks(&[ill, ill, ill], LONG), "two are left");
        assert!(breaks(&[ill, ill], LONG), "one is left");
        assert!(!breaks(&[ill, (None, "in", "healthy"), ill], LONG), "one of them is healthy");
        let out = (None, "out", "unhealthy");
        assert!(breaks(&[ill, ill, out], LONG), "one was out before");
        assert!(!breaks(&[ill, ill, out], (1, false)), "no coordinator had to know of that");
        assert!(!breaks(&[ill, ill], (3_000, true)), "its agent declines where it is in rotation");
        let mut back = upgrade(|_| {});
        back["phase"] = json!({"name": "rolling-back", "from": "roll", "because": "so", "step": "move"});
        assert!(!drain_breaks_it(fleet(&back, &[ill, ill]), "n1", LONG), "its rollback may be overdue");
    }
}
