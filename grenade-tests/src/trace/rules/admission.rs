//! Admissions and reports: an instance is admitted within the window, reports only what was admitted, and an agent forgets
//! nothing that it has reported (rules 1 to 3). No report goes before its lease has ended (rule 0).

use tidegate_proto::{InstanceId, Key, Value};

use super::Judge;
use crate::trace::instance::At;
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

    /// Neither agents nor coordinators remove a report: one that goes has lapsed with its lease, and what is put on that
    /// lease afterwards shows that it had not ended.
    pub(super) fn reports_lapse_with_their_lease(&mut self) {
        for Written { key, put, .. } in &self.revision.writes {
            let leased = put.as_ref().filter(|put| put.lease != 0);
            let (Key::Report(..), Some(put)) = (key, leased) else { continue };
            let ended = self.before.ended_leases.get(&put.lease);
            self.holds(0, ended.is_none(), || {
                format!("{key} hangs on a lease at whose end a report went at {ended:?}")
            });
        }
    }

    /// A report names what was admitted since the one before it lapsed, and an agent forgets nothing that it has reported:
    /// its journal has it, unless that is lost as a whole. Then the first report of the agent that was started without it
    /// is the first of all that it is held to.
    pub(super) fn reports(&mut self) {
        // What was written in place of an agent is no act of it. Whatever the store holds counts for what coordinators do.
        if self.agents.lies.contains(&self.revision.number) {
            return;
        }
        for Written { key, put, .. } in &self.revision.writes {
            let (Key::Report(service, node), Some(Value::Report(report))) =
                (key, put.as_ref().map(|put| &put.value))
            else {
                continue;
            };
            let Some(before) = self.before.instances.get(&(service.clone(), node.clone())) else { continue };
            let (report, lapsed) = (&report.body, before.lapsed);
            // One that was refused is not back before it is shown.
            let is_refused = self.before.is_refused(service, node, report);
            let returns = !before.is_back && self.before.is_admitted(service, node, report) && !is_refused;
            self.holds(3, !returns || report.admission.0 > lapsed, || {
                format!(
                    "{key} is back after it lapsed at {lapsed}, on the former admission {}",
                    report.admission
                )
            });
            let Some(At { revision: said, body: last }) = &before.last_report else { continue };
            // What was written in its place before is nothing that it said, even where it names what a store has given.
            let it_said = !self.agents.lies.contains(said);
            let between = *said..self.revision.number;
            let lost = |(of, at): &(InstanceId, i64)| {
                (&of.service, &of.node) == (service, node) && between.contains(at)
            };
            let same = report.identity.nonce == last.identity.nonce
                && report.witness.reconciled == last.witness.reconciled
                && !self.agents.without_journal.iter().any(lost);
            for (what, was, is) in
                [("directive", last.generation, report.generation), ("window", last.window, report.window)]
            {
                // What this store had not given yet, another one had, also where both were reconciled in the same revision.
                let is_of_another = was.0 >= *said;
                self.holds(1, !same || !it_said || is_of_another || is >= was || !is.exists(), || {
                    format!("{key} names {what} {is}, and has named {was} before")
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::seen::BY_RELEASES;
    use crate::trace::{Revision, Trace};
    use tidegate_proto::ServiceVersion;
    use tidegate_proto::record::Timestamp;

    /// What is written under a key; none where it is removed.
    type Write = (&'static str, Option<String>);

    const SILENT: Write = ("reports/pantry/n1", None);

    fn report(version: &str, rotation: &str, window: i64) -> Write {
        let text = format!(
            r#"{{"schema":1,"version":{version},"admission":2,"rotation":"{rotation}","health":"healthy",
                "step":{{"name":"drained"}},"window":{window},"identity":{{"nonce":"n","boot":"b"}}}}"#
        );
        ("reports/pantry/n1", Some(text))
    }

    fn inventory(version: u32, at: Timestamp) -> Write {
        let text = format!(
            r#"{{"schema":1,"version":{version},"identity":{{"nonce":"n","boot":"b"}},"at":{}}}"#,
            at.0
        );
        ("inventory/pantry/n1", Some(text))
    }

    fn floor(floor: u32) -> Write {
        ("windows/pantry", Some(format!(r#"{{"schema":1,"floor":{floor},"ceiling":2,"set_by":"u1"}}"#)))
    }

    /// A history of one instance of version 1: admitted in revision 2, silent since 4, and then what is given.
    fn silent_and_then(then: &[Write]) -> Trace {
        let first = [floor(1), inventory(1, Timestamp(1)), report("1", "in", 1), SILENT];
        let written = (1..).zip(first.iter().chain(then)).map(|(number, (key, put))| {
            let mut written = Written::of_text(key, put.as_deref(), number);
            // Each hangs on a lease of its own.
            written.put.iter_mut().for_each(|put| put.lease = number);
            Revision { number, writes: vec![written] }
        });
        Trace { revisions: written.collect(), ..Trace::default() }
    }

    /// It is back in revision 6 under the window of revision 5, which begins at version 2.
    fn comes_back(rotation: &str, window: i64) -> Trace {
        silent_and_then(&[floor(2), report("1", rotation, window)])
    }

    fn broke_rule_3(trace: &Trace) -> bool {
        trace.breaches().iter().any(|broken| broken.rule == 3)
    }

    #[test]
    fn refused_drained_instance_is_not_back_on_its_former_admission() {
        assert!(!broke_rule_3(&comes_back("out", 5)));
        assert!(broke_rule_3(&comes_back("in", 5)), "it is in rotation below the floor, unadmitted");
        assert!(broke_rule_3(&comes_back("out", 1)), "it has not asked under the window that refuses it");
    }

    #[test]
    fn refused_instance_that_is_hidden_is_not_back() {
        for rotation in ["leaving", "maintenance"] {
            assert!(!broke_rule_3(&comes_back(rotation, 5)), "{rotation}: its agent has hidden it");
            assert!(broke_rule_3(&comes_back(rotation, 1)), "{rotation}: this window does not refuse it");
        }
        for rotation in ["returning", "unknown"] {
            assert!(broke_rule_3(&comes_back(rotation, 5)), "{rotation}: it has no disable-file");
        }
    }

    #[test]
    fn refusal_by_a_window_that_was_set_again_since_counts() {
        let reports =
            |rotation, window| silent_and_then(&[floor(2), floor(2), report("1", rotation, window)]);
        assert!(!broke_rule_3(&reports("leaving", 5)), "its agent has not read the last one yet");
        assert!(broke_rule_3(&reports("in", 5)), "it is in rotation below the floor, unadmitted");
        assert!(broke_rule_3(&reports("leaving", 1)), "that window does not refuse it");
        assert!(broke_rule_3(&reports("leaving", 4)), "there is no such window");
    }

    /// A window that follows what releases need, which is version 2.
    fn followed() -> Write {
        let max = ServiceVersion::MAX.get();
        let window = format!(r#"{{"schema":1,"floor":2,"ceiling":{max},"set_by":"{BY_RELEASES}"}}"#);
        ("windows/pantry", Some(window))
    }

    #[test]
    fn instance_below_a_followed_floor_may_stay_in_rotation() {
        let trace = silent_and_then(&[followed(), report("1", "in", 5)]);
        assert!(!broke_rule_3(&trace), "no gate relies on that floor");
    }

    #[test]
    fn only_window_that_is_named_lets_one_below_it_stay() {
        let broken = |windows: [Write; 2]| {
            let [first, last] = windows;
            broke_rule_3(&silent_and_then(&[first, last, report("1", "in", 5)]))
        };
        assert!(broken([floor(2), followed()]), "its agent had read no floor that is followed");
        assert!(!broken([followed(), floor(2)]), "its agent has not read the last one yet");
    }

    #[test]
    fn refused_instance_is_back_once_it_is_shown() {
        let admitted_by_window = |rotation| {
            silent_and_then(&[floor(2), report("1", "leaving", 5), floor(1), report("1", rotation, 7)])
        };
        assert!(!broke_rule_3(&admitted_by_window("out")), "it is hidden until it is admitted again");
        assert!(broke_rule_3(&admitted_by_window("in")), "it is shown on its former admission");
    }

    #[test]
    fn report_without_a_version_does_not_bring_an_instance_back() {
        assert!(!broke_rule_3(&silent_and_then(&[report("null", "out", 1)])));
        let trace = silent_and_then(&[report("null", "out", 1), report("1", "in", 1)]);
        assert!(broke_rule_3(&trace), "it is back on its former admission");
    }

    #[test]
    fn false_inventory_record_admits_no_refused_version() {
        let comes_back = |at| silent_and_then(&[inventory(6, at), report("6", "in", 1)]);
        assert!(!broke_rule_3(&comes_back(LIE)), "its agent says that 6 is refused");
        assert!(
            broke_rule_3(&comes_back(Timestamp(1))),
            "6 was admitted, and the report names another admission"
        );
    }

    #[test]
    fn report_after_an_unreadable_one_is_no_return() {
        let mut trace = silent_and_then(&[report("1", "in", 1), SILENT, report("1", "in", 1)]);
        // What is removed in revision 4 had been overwritten as well.
        trace.revisions[3].writes[0].gone = false;
        assert!(broke_rule_3(&trace), "its own lease lapsed as well");
        trace.revisions[5].writes[0].gone = false;
        assert!(!broke_rule_3(&trace), "its report was overwritten, and its lease is held");
    }

    #[test]
    fn report_that_goes_before_its_lease_ends_is_found() {
        let breaks = |lease: i64| {
            let mut trace = silent_and_then(&[inventory(1, Timestamp(1)), report("1", "in", 1)]);
            // The one before it, in revision 3, hung on lease 3.
            trace.revisions[5].writes[0].put.as_mut().unwrap().lease = lease;
            trace.breaches().iter().any(|broken| broken.rule == 0 && broken.at == 6)
        };
        assert!(breaks(3), "its lease was held all the time");
        assert!(!breaks(6), "it hangs on another lease");
        assert!(!breaks(0), "it was not written by an agent");
    }

    /// It reports window 5 in revision 6 and window 1 in revision 7, both again afterwards, and its agent was started without
    /// its journal after the revision `lost`.
    fn forgotten_in(lost: Option<i64>, node: &str) -> Vec<i64> {
        let says = |window| report("1", "in", window);
        let mut trace = silent_and_then(&[floor(1), says(5), says(1), says(5), says(1)]);
        let instance = InstanceId::new("pantry".parse().unwrap(), node.parse().unwrap());
        trace.without_journal.extend(lost.map(|at| (instance, at)));
        let broken = trace.breaches().into_iter();
        broken.filter(|broken| broken.what.contains("has named")).map(|broken| broken.at).collect()
    }

    #[test]
    fn only_first_report_without_a_journal_may_forget() {
        assert_eq!(forgotten_in(None, "n1"), [7, 9]);
        assert_eq!(forgotten_in(Some(6), "n1"), [9], "a later report forgets what this agent said");
        assert_eq!(forgotten_in(Some(5), "n1"), [7, 9], "the agent without a journal said it itself");
        assert_eq!(forgotten_in(Some(7), "n1"), [7, 9], "the journal was there");
        assert_eq!(forgotten_in(Some(6), "n2"), [7, 9], "another instance lost its journal");
    }

    #[test]
    fn false_report_is_nothing_that_the_agent_forgets() {
        let says = |window| report("1", "in", window);
        let mut trace = silent_and_then(&[floor(1), says(1), floor(1), says(7), says(1)]);
        let forgets = |trace: &Trace| trace.breaches().iter().any(|broken| broken.what.contains("has named"));
        assert!(forgets(&trace));
        trace.lies.insert(8);
        assert!(!forgets(&trace), "its agent did not write what names window 7");
    }

    #[test]
    fn report_of_what_another_store_gave_is_not_forgotten() {
        let says = |window| report("1", "in", window);
        let forgets = |window: i64| {
            let trace = silent_and_then(&[floor(1), says(window), floor(1), says(1)]);
            trace.breaches().iter().any(|broken| broken.what.contains("has named"))
        };
        assert!(forgets(5), "this store gave window 5 before revision 6");
        assert!(!forgets(6) && !forgets(32), "this store had not given it in revision 6");
    }

    #[test]
    fn report_in_place_of_a_silent_agent_is_no_return_of_it() {
        let mut trace = silent_and_then(&[report("1", "in", 1)]);
        assert!(broke_rule_3(&trace));
        trace.lies.insert(5);
        assert!(!broke_rule_3(&trace), "its agent did not write it");
        let mut trace = silent_and_then(&[report("1", "in", 1), SILENT, report("1", "in", 1)]);
        trace.lies.insert(5);
        assert!(broke_rule_3(&trace), "its agent is back on its former admission later");
    }
}
