//! What persons state of the fleet, and verdicts: none is written without an event that names who said so, nor is a cordon
//! taken back without an event (rule 0).

use tidegate_proto::{Key, Value};

use super::Judge;

impl Judge<'_> {
    pub(super) fn words_have_their_event(&mut self) {
        let writes = &self.revision.writes;
        let has_event = writes.iter().any(|written| matches!(written.value(), Some(Value::Event(_))));
        for written in writes {
            let is_good = match (&written.key, written.value().and_then(author)) {
                (_, Some(who)) => self.revision.names(who),
                (Key::Maintenance(_), None) if written.gone => has_event,
                _ => true,
            };
            self.holds(0, is_good, || format!("{} was written, and no event names by whom", written.key));
        }
    }
}

/// Who states what a record says, where it is a person's word.
fn author(value: &Value) -> Option<&str> {
    match value {
        Value::Maintenance(record) => Some(&record.body.who),
        Value::Decommission(record) => Some(&record.body.who),
        Value::Evidence(record) => Some(&record.body.who),
        Value::GateVerdict(record) => Some(&record.body.who),
        Value::Reconciliation(record) => Some(&record.body.who),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::{Revision, Trace, Written};

    /// Whether a node that is cordoned by ann breaks the rule, with an event of such a name.
    fn is_found(cordon: Option<&str>, event: Option<&str>) -> bool {
        let event = event.map(|who| {
            let text = format!(r#"{{"schema":1,"from":"","to":"","because":"","who":"{who}","at":1}}"#);
            Written::of_text("events/fleet/00000000000000000001-0000000000", Some(&text), 1)
        });
        let writes = [Written::of_text("maintenance/n1", cordon, 1)].into_iter().chain(event).collect();
        let trace = Trace { revisions: vec![Revision { number: 1, writes }], ..Trace::default() };
        trace.breaches().iter().any(|broken| broken.what.contains("no event names by whom"))
    }

    #[test]
    fn cordon_names_its_person_in_an_event() {
        let cordon = Some(r#"{"schema":1,"who":"ann","why":"disk","at":1}"#);
        assert!(!is_found(cordon, Some("ann")));
        assert!(is_found(cordon, Some("bob")));
        assert!(is_found(cordon, None));
        assert!(!is_found(None, Some("bob")), "it is taken back by another person");
        assert!(is_found(None, None));
    }
}
