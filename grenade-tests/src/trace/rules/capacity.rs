//! Capacity: a directive takes an instance out only while enough of the others are in service (rule 4).

use tidegate_proto::record::directive::Disposition;
use tidegate_proto::{Key, NodeId, Value};

use super::Judge;
use crate::trace::instance::Instance;
use crate::trace::revision::Written;
use crate::trace::seen::Seen;

impl Judge<'_> {
    /// An instance is taken out only while enough others stay, and with the budget's key in the same commit.
    pub(super) fn capacity(&mut self) {
        for Written { key, put, .. } in &self.revision.writes {
            let (Key::Directive(service, node), Some(put)) = (key, put) else { continue };
            let order = match &put.value {
                Value::Directive(order) => Some(&order.body),
                _ => None,
            };
            // What lets in takes nothing out.
            if order.is_some_and(|order| matches!(order.disposition, Disposition::Serve { .. })) {
                continue;
            }
            let at = (service.clone(), node.clone());
            let serves = |seen: &Seen| seen.instances.get(&at).is_some_and(Instance::is_in_service);
            if !serves(self.before) || serves(self.after) {
                if !order.is_some_and(|order| order.presumes_out) {
                    self.in_rotation(&at);
                }
                continue;
            }
            // No coordinator had to know yet that it came into service a moment ago, and its agent declines what presumes
            // it out.
            let came_in = self.before.instances.get(&at).is_some_and(|i| i.came_in_after(self.known));
            if came_in && order.is_some_and(|order| order.presumes_out) {
                continue;
            }
            let taken = self.revision.writes.iter().any(|w| w.key == Key::Budget(service.clone()));
            self.holds(4, taken, || format!("{node} was taken out beside the budget"));
            // Beside none that is active, one that is over may still move what it left behind.
            let by = self.after.active.get(service).or(order.map(|order| &order.upgrade));
            let by = by.and_then(|id| self.after.upgrades.get(id)).map(|upgrade| &upgrade.spec);
            let Some(spec) = by.filter(|spec| spec.service == *service) else {
                self.holds(4, false, || format!("{node} was taken out by no upgrade"));
                continue;
            };
            if self.of_former_view {
                continue;
            }
            let whole = self.after.fleet(service).count();
            // No coordinator had to know yet of those that fell out by themselves a moment ago.
            let fell_out = |(_, i): &(&NodeId, &Instance)| i.fell_out_after(self.known);
            let left = self.after.in_service(service) + self.after.fleet(service).filter(fell_out).count();
            let least = spec.min_in_service.rounded_up(whole);
            let (out, most) = (whole - left, spec.max_unavailable.rounded_down(whole).max(1));
            self.holds(4, left >= least, || format!("{left} serve after {node} was taken out, {least} must"));
            self.holds(4, out <= most, || format!("{out} are out after {node} was taken out, {most} may be"));
            if let Some(label) = &spec.failure_domain {
                self.one_domain(&at, label);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Put, Revision, Trace};
    use serde_json::json;
    use tidegate_proto::Prefix;

    /// Two must stay, and one may be out.
    const UPGRADE: &str = include_str!("../../../../proto/tests/golden/upgrades.1.json");
    const DIRECTIVE: &str = include_str!("../../../../proto/tests/golden/directives.1.json");

    /// At version 1.
    const ADMITTED: &str = r#"{"schema":1,"version":1,"identity":{"nonce":"n","boot":"b"},"at":1}"#;

    /// When the second of three instances is drained, in milliseconds.
    const DRAIN: u64 = 10_000;

    /// What becomes of the first one before that.
    #[derive(Clone, Copy)]
    enum Fate {
        Lapses,
        IsUnreadable,
        IsAdmittedAgain,
        IsOut,
    }

    fn written(number: i64, key: &str, text: Option<&str>) -> Written {
        let path = format!("/tidegate/{key}");
        let key = Prefix::default().parse(path.as_bytes()).unwrap().unwrap();
        let value = text.map(|text| Value::decode(&key, text.as_bytes()).unwrap());
        let put = value.map(|value| Put { value, created: number, lease: 0 });
        Written { key, put, gone: text.is_none() }
    }

    /// What is written of an instance; n1 was admitted in revision 3.
    fn reported(number: i64, n: i64, rotation: &str) -> Written {
        let text = format!(
            r#"{{"schema":1,"version":1,"admission":{},"rotation":"{rotation}","health":"healthy",
                "step":{{"name":"serving"}},"identity":{{"nonce":"n","boot":"b"}}}}"#,
            n + 2
        );
        written(number, &format!("reports/pantry-api/n{n}"), Some(&text))
    }

    fn admitted(number: i64, n: i64) -> Written {
        written(number, &format!("inventory/pantry-api/n{n}"), Some(ADMITTED))
    }

    /// Whether the drain breaks the rule, after what became of n1 at each of these times.
    fn drain_breaks_it(fates: &[(u64, Fate)]) -> bool {
        drain_of_breaks_it("u1", true, fates)
    }

    /// The same for a drain on behalf of this upgrade, where u1 is active or over.
    fn drain_of_breaks_it(by: &str, is_active: bool, fates: &[(u64, Fate)]) -> bool {
        let active = Some(r#"{"schema":1,"upgrade":"u1"}"#).filter(|_| is_active);
        let mut writes = vec![
            vec![written(1, "upgrades/u1", Some(UPGRADE))],
            vec![written(2, "active/pantry-api", active)],
        ];
        writes.extend((1..=3).map(|n| vec![admitted(n + 2, n)]));
        writes.extend((1..=3).map(|n| vec![reported(n + 5, n, "in")]));
        let mut times = vec![0; writes.len()];
        for (number, (at, fate)) in (9..).zip(fates) {
            let report = written(number, "reports/pantry-api/n1", None);
            times.push(*at);
            writes.push(vec![match fate {
                Fate::Lapses => report,
                Fate::IsUnreadable => Written { gone: false, ..report },
                Fate::IsAdmittedAgain => admitted(number, 1),
                Fate::IsOut => reported(number, 1, "out"),
            }]);
        }
        let drains = i64::try_from(writes.len()).unwrap() + 1;
        times.push(DRAIN);
        writes.push(drained(drains, by));
        last_breaks_it(writes, times)
    }

    /// The drain of n2 on behalf of this upgrade.
    fn drained(number: i64, by: &str) -> Vec<Written> {
        let mut order: serde_json::Value = serde_json::from_str(DIRECTIVE).unwrap();
        order["disposition"] = json!({"name": "drain"});
        order["upgrade"] = json!(by);
        let budget = r#"{"schema":1,"term":"t1","taken":1}"#;
        vec![
            written(number, "directives/pantry-api/n2", Some(&order.to_string())),
            written(number, "budget/pantry-api", Some(budget)),
        ]
    }

    /// What n1 reports after its replacement, which revision 6 ordered.
    fn replaced(version: Option<u32>, admission: u32) -> String {
        let report = json!({
            "schema": 1, "version": version, "admission": admission, "generation": 6, "rotation": "in",
            "health": "healthy", "step": {"name": "serving"}, "identity": {"nonce": "n", "boot": "b"},
        });
        report.to_string()
    }

    /// What is written, and when, where n1 was replaced and served, and these records of it followed.
    fn beside_a_replaced_one(later: &[(u64, &str, &str)]) -> (Vec<Vec<Written>>, Vec<u64>) {
        let inventory = r#"{"schema":1,"version":2,"identity":{"nonce":"n","boot":"b"},"at":1}"#;
        let mut writes = vec![
            vec![written(1, "upgrades/u1", Some(UPGRADE))],
            vec![written(2, "active/pantry-api", Some(r#"{"schema":1,"upgrade":"u1"}"#))],
            vec![written(3, "inventory/pantry-api/n1", Some(inventory))],
            vec![admitted(4, 2)],
            vec![admitted(5, 3)],
            vec![written(6, "directives/pantry-api/n1", Some(DIRECTIVE))],
            vec![written(7, "reports/pantry-api/n1", Some(&replaced(Some(2), 3)))],
            vec![reported(8, 2, "in")],
            vec![reported(9, 3, "in")],
        ];
        let mut times = vec![0; writes.len()];
        for (number, &(at, key, text)) in (10..).zip(later) {
            times.push(at);
            writes.push(vec![written(number, key, Some(text))]);
        }
        (writes, times)
    }

    /// Whether the drain of n2 breaks the rule after that.
    fn drain_beside_a_replaced_one_breaks_it(later: &[(u64, &str, &str)]) -> bool {
        let (mut writes, mut times) = beside_a_replaced_one(later);
        let drains = i64::try_from(writes.len()).unwrap() + 1;
        times.push(DRAIN);
        writes.push(drained(drains, "u1"));
        last_breaks_it(writes, times)
    }

    /// Whether the last revision breaks the rule, where each was written at its time.
    fn last_breaks_it(writes: Vec<Vec<Written>>, times: Vec<u64>) -> bool {
        last_of_copy_breaks_it(writes, times, None)
    }

    fn last_of_copy_breaks_it(
        writes: Vec<Vec<Written>>,
        times: Vec<u64>,
        copied: Option<(i64, u64)>,
    ) -> bool {
        let last = i64::try_from(writes.len()).unwrap();
        let revisions = (1..).zip(writes).map(|(number, writes)| Revision { number, writes }).collect();
        let seen_at = (1..).zip(times).collect();
        let trace = Trace { revisions, seen_at, copied, ..Trace::default() };
        trace.breaches().iter().any(|broken| broken.rule == 4 && broken.at == last)
    }

    /// Whether a replacement of n1 that takes no budget breaks the rule, where n1 came into service at this time.
    fn free_replacement_breaks_it(came_in: u64, presumes_out: bool) -> bool {
        let mut order: serde_json::Value = serde_json::from_str(DIRECTIVE).unwrap();
        order["presumes_out"] = json!(presumes_out);
        let writes = vec![
            vec![written(1, "upgrades/u1", Some(UPGRADE))],
            vec![written(2, "active/pantry-api", Some(r#"{"schema":1,"upgrade":"u1"}"#))],
            vec![admitted(3, 1)],
            vec![reported(4, 1, "out")],
            vec![reported(5, 1, "in")],
            vec![written(6, "directives/pantry-api/n1", Some(&order.to_string()))],
        ];
        last_breaks_it(writes, vec![0, 0, 0, 0, came_in, DRAIN])
    }

    #[test]
    fn what_fell_out_a_moment_before_a_drain_is_not_counted() {
        assert!(!drain_breaks_it(&[]));
        for fate in [Fate::Lapses, Fate::IsUnreadable, Fate::IsAdmittedAgain, Fate::IsOut] {
            assert!(!drain_breaks_it(&[(DRAIN - 1, fate)]));
            assert!(drain_breaks_it(&[(DRAIN - 3_000, fate)]));
        }
    }

    #[test]
    fn what_is_out_for_long_and_says_more_is_counted() {
        let since = DRAIN - 3_000;
        assert!(drain_breaks_it(&[(since, Fate::IsOut), (DRAIN - 1, Fate::IsOut)]));
        assert!(drain_breaks_it(&[(since, Fate::IsUnreadable), (DRAIN - 1, Fate::Lapses)]));
        assert!(drain_breaks_it(&[(since, Fate::Lapses), (DRAIN - 1, Fate::IsAdmittedAgain)]));
    }

    #[test]
    fn what_fell_out_after_its_replacement_is_not_counted() {
        let breaks = drain_beside_a_replaced_one_breaks_it;
        let (report, order) = ("reports/pantry-api/n1", "directives/pantry-api/n1");
        let unknown = replaced(None, 3);
        let unknown = unknown.as_str();
        assert!(!breaks(&[]), "it is in service");
        assert!(!breaks(&[(DRAIN - 1, report, unknown)]), "no coordinator had to know that");
        let twice = [(DRAIN - 2, report, unknown), (DRAIN - 1, report, unknown)];
        assert!(!breaks(&twice), "no coordinator had to know the first report");
        let long = [(DRAIN - 3_000, report, unknown), (DRAIN - 1, report, unknown)];
        assert!(breaks(&long), "it was out for long");
        assert!(breaks(&[(DRAIN - 1, order, DIRECTIVE)]), "an order took it out");
        let both = [(DRAIN - 2, report, unknown), (DRAIN - 1, order, DIRECTIVE)];
        assert!(breaks(&both), "an order counts it as out");
    }

    #[test]
    fn version_changed_in_rotation_is_in_service() {
        let (since, report) = (DRAIN - 3_000, replaced(Some(1), 10));
        let changed =
            [(since, "inventory/pantry-api/n1", ADMITTED), (since, "reports/pantry-api/n1", report.as_str())];
        assert!(!drain_beside_a_replaced_one_breaks_it(&changed), "it serves beside the drain");
        let (mut writes, mut times) = beside_a_replaced_one(&changed);
        let again = DIRECTIVE.replace("2.0.0", "2.0.1");
        writes.push(vec![written(12, "directives/pantry-api/n1", Some(&again))]);
        times.push(DRAIN);
        assert!(last_breaks_it(writes, times), "to take it out needs the budget");
    }

    #[test]
    fn order_that_a_newer_journal_declines_takes_none_out() {
        let mut order: serde_json::Value = serde_json::from_str(DIRECTIVE).unwrap();
        order["disposition"] = json!({"name": "drain"});
        let (order, since) = (order.to_string(), DRAIN - 3_000);
        let declined = |admission: u32| {
            let mut report: serde_json::Value = serde_json::from_str(&replaced(Some(2), admission)).unwrap();
            report["generation"] = json!(10);
            report["declined"] = json!(true);
            report.to_string()
        };
        let (newer, older) = (declined(11), declined(3));
        let order = (since, "directives/pantry-api/n1", order.as_str());
        let admitted = (since, "inventory/pantry-api/n1", ADMITTED);
        let report = |text| (since, "reports/pantry-api/n1", text);
        let breaks = drain_beside_a_replaced_one_breaks_it;
        assert!(!breaks(&[order, admitted, report(newer.as_str())]), "its journal is newer than the order");
        assert!(breaks(&[order, report(older.as_str())]), "it was admitted before, and is out by the order");
    }

    #[test]
    fn upgrade_that_is_over_moves_within_its_capacity() {
        assert!(!drain_of_breaks_it("u1", false, &[]));
        assert!(drain_of_breaks_it("u1", false, &[(DRAIN - 3_000, Fate::IsOut)]), "two must stay");
        assert!(drain_of_breaks_it("u2", false, &[]), "there is no such upgrade");
    }

    #[test]
    fn what_came_in_a_moment_ago_may_be_presumed_out() {
        assert!(!free_replacement_breaks_it(DRAIN - 1, true), "its agent declines");
        assert!(free_replacement_breaks_it(DRAIN - 3_000, true), "a coordinator had to know");
        assert!(free_replacement_breaks_it(DRAIN - 1, false), "its agent obeys");
    }

    /// One of three is out in a copy, which was made after so many revisions and took the place of the store then: another one
    /// is drained by the leader of revision 9.
    fn drain_in_a_copy_breaks_it(made: i64, at: u64) -> bool {
        let leader = r#"{"schema":1,"term":"t1","address":"c0:1"}"#;
        let mut writes = vec![
            vec![written(1, "upgrades/u1", Some(UPGRADE))],
            vec![written(2, "active/pantry-api", Some(r#"{"schema":1,"upgrade":"u1"}"#))],
        ];
        writes.extend((1..=3).map(|n| vec![admitted(n + 2, n)]));
        writes.push(vec![reported(6, 1, "out")]);
        writes.extend((2..=3).map(|n| vec![reported(n + 5, n, "in")]));
        writes.push(vec![written(9, "leader", Some(leader))]);
        let mut times = vec![0; writes.len()];
        writes.push(drained(10, "u1"));
        times.push(DRAIN);
        last_of_copy_breaks_it(writes, times, Some((made, at)))
    }

    #[test]
    fn drain_planned_before_a_copy_took_over_is_not_counted() {
        assert!(!drain_in_a_copy_breaks_it(9, DRAIN - 1), "one may have come back in the former store");
        assert!(drain_in_a_copy_breaks_it(9, DRAIN - 3_000), "its leader had to know of the copy");
        assert!(drain_in_a_copy_breaks_it(8, DRAIN - 1), "its leader was elected in the copy");
        assert!(drain_in_a_copy_breaks_it(10, DRAIN - 1), "it was given in the former store");
    }
}
