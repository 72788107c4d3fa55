//! Admissions and reports: an instance is admitted within the window, reports only what was admitted, and an agent forgets
//! nothing that it has reported (rules 1 to 3).

use tidegate_proto::record::report::Rotation;
use tidegate_proto::{Key, NodeId, Value};

use super::Judge;
use crate::trace::revision::{LIE, Written};

impl Judge<'_> {
    pub(super) fn admitted_within_the_window(&mut self) {
        for Written { key, put, .. } in &self.revision.writes {
            let (Key::Inventory(service, _), Some(Value::Inventory(inventory))) =
                (key, put.as_ref().map(|put| &put.value))
            else {
                continue;
            };
            let window = self.before.windows.get(service).map(|window| &window.body);
            let version = inventory.body.version;
            let within = window.is_none_or(|window| window.admits(version)) || inventory.body.at == LIE;
            self.holds(2, within, || format!("{key} was admitted at {version}, the window is {window:?}"));
        }
    }

    /// A report names what was admitted since the one before it lapsed, and an agent forgets nothing that it has reported:
    /// its journal has it, unless that is lost as a whole.
    pub(super) fn reports(&mut self) {
        for Written { key, put, .. } in &self.revision.writes {
            let (Key::Report(service, node), Some(Value::Report(report))) =
                (key, put.as_ref().map(|put| &put.value))
            else {
                continue;
            };
            let Some(before) = self.before.instances.get(&(service.clone(), node.clone())) else { continue };
            let (report, lapsed) = (&report.body, before.lapsed);
            // One that names no admission counts for nothing until it does, and one that says another version than the
            // admitted one was refused: it counts at the lower of the two. So was one that is out of rotation at a version
            // outside the window that it has acknowledged: every gate that needs that window is closed for it.
            let says = |version| before.inventory.as_ref().is_some_and(|known| known.body.version == version);
            let is_outside = |version| {
                let window = self.before.windows.get(service);
                window.is_some_and(|at| at.revision == report.window.0 && !at.body.admits(version))
            };
            let refused = report.rotation == Rotation::Out && report.version.is_some_and(is_outside);
            let counts = report.version.is_some_and(says) && report.admission.exists() && !refused;
            let returns = before.report.is_none() && counts;
            let since = before.reported;
            let is_new_start = |(of, at): &(NodeId, i64)| of == node && since <= *at && *at <= lapsed;
            let admitted = report.admission.0 > lapsed || self.restarts.iter().any(is_new_start);
            self.holds(3, !returns || admitted, || {
                format!(
                    "{key} is back after it lapsed at {lapsed}, on the former admission {}",
                    report.admission
                )
            });
            let Some(last) = &before.last_report else { continue };
            let same = report.identity.nonce == last.identity.nonce
                && report.witness.reconciled == last.witness.reconciled;
            for (what, was, is) in
                [("directive", last.generation, report.generation), ("window", last.window, report.window)]
            {
                // What no store can have given was a lie, whatever comes after it.
                let was_given = was.0 <= self.revision.number;
                self.holds(1, !same || !was_given || is >= was || !is.exists(), || {
                    format!("{key} names {what} {is}, and has named {was} before")
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Put, Revision, Trace};
    use tidegate_proto::Prefix;

    /// A history of one instance of version 1: admitted in revision 2, silent since 4, and back in revision 6 under the
    /// window of revision 5, which begins at version 2.
    fn comes_back(rotation: &str, window: i64) -> Trace {
        let report = |rotation: &str, window: i64| {
            format!(
                r#"{{"schema":1,"version":1,"admission":2,"rotation":"{rotation}","health":"healthy",
                    "step":{{"name":"drained"}},"window":{window},"identity":{{"nonce":"n","boot":"b"}}}}"#
            )
        };
        let admitted = r#"{"schema":1,"version":1,"identity":{"nonce":"n","boot":"b"},"at":1}"#.to_owned();
        let floor = |floor: u32| format!(r#"{{"schema":1,"floor":{floor},"ceiling":2,"set_by":"u1"}}"#);
        let writes = [
            (1, "windows/pantry", Some(floor(1))),
            (2, "inventory/pantry/n1", Some(admitted)),
            (3, "reports/pantry/n1", Some(report("in", 1))),
            (4, "reports/pantry/n1", None),
            (5, "windows/pantry", Some(floor(2))),
            (6, "reports/pantry/n1", Some(report(rotation, window))),
        ];
        let written = writes.into_iter().map(|(number, key, put)| {
            let path = format!("/tidegate/{key}");
            let key = Prefix::default().parse(path.as_bytes()).unwrap().unwrap();
            let value = put.map(|text| Value::decode(&key, text.as_bytes()).unwrap());
            let (gone, put) = (value.is_none(), value.map(|value| Put { value, created: number }));
            Revision { number, writes: vec![Written { key, put, gone }] }
        });
        Trace { revisions: written.collect(), ..Trace::default() }
    }

    fn broke_rule_3(trace: &Trace) -> bool {
        trace.breaches().iter().any(|broken| broken.rule == 3 && broken.at == 6)
    }

    #[test]
    fn refused_drained_instance_is_not_back_on_its_former_admission() {
        assert!(!broke_rule_3(&comes_back("out", 5)));
        assert!(broke_rule_3(&comes_back("in", 5)), "it is in rotation below the floor, unadmitted");
        assert!(broke_rule_3(&comes_back("out", 1)), "it has not asked under the window that refuses it");
    }
}
