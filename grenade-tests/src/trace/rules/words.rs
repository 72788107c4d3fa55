//! What persons state of the fleet, and verdicts: none is written without an event that names who said so, nor is a cordon
//! taken back without an event. The same holds for the settings and pins of a release stream (rule 0).

use tidegate_proto::key::Subject;
use tidegate_proto::record::stream::Stream;
use tidegate_proto::{Key, StreamName, Value};

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
        for written in writes {
            if let (Key::Stream(name), Some(Value::Stream(is))) = (&written.key, written.value()) {
                let is_good = self.is_steered_by_name(name, &is.body);
                self.holds(0, is_good, || {
                    format!("settings or pins of {name}: no event names who changed them")
                });
            }
        }
    }

    /// Whether what persons set of a stream is as before, or its events say who changed it.
    fn is_steered_by_name(&self, name: &StreamName, is: &Stream) -> bool {
        let none = Stream::default();
        let had = self.before.streams.get(name).unwrap_or(&none);
        let is_new = |compute| had.pins.get(compute) != is.pins.get(compute);
        let is_same =
            had.settings == is.settings && had.pins.keys().chain(is.pins.keys()).all(|of| !is_new(of));
        let mut pinned = is.pins.iter().filter(|(compute, _)| is_new(*compute));
        let of_it = |key: &Key| matches!(key, Key::Event(Subject::Stream(of), _) if of == name);
        let has_event = self.revision.writes.iter().any(|written| of_it(&written.key));
        is_same || has_event && pinned.all(|(_, pin)| self.revision.names(&pin.who))
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

    /// Whether a stream that such settings and pins are written to breaks the rule, with an event of such a name.
    fn is_unnamed(history: &[(u32, Option<&str>)], event: Option<&str>) -> bool {
        let event = event.map(|who| {
            let text = format!(r#"{{"schema":1,"from":"","to":"","because":"","who":"{who}","at":1}}"#);
            Written::of_text("events/stream-main/00000000000000000001-0000000000", Some(&text), 1)
        });
        let stream = |(kept, pin): &(u32, Option<&str>)| {
            let pins = pin.map_or(
                serde_json::json!({}),
                |who| serde_json::json!({"c1": {"revision": 1, "who": who, "why": "so", "at": 1}}),
            );
            let stream = serde_json::json!({"schema": 1, "settings": {"minimum_available": kept}, "pins": pins,
                "latest": null, "deployed": null, "canary": null});
            Written::of_text("streams/main", Some(&stream.to_string()), 1)
        };
        let revision = |(number, of)| {
            let event = event.clone().filter(|_| number == 2);
            Revision { number, writes: [stream(of)].into_iter().chain(event).collect() }
        };
        let trace = Trace { revisions: (1..).zip(history).map(revision).collect(), ..Trace::default() };
        trace.breaches().iter().any(|broken| broken.at == 2 && broken.what.contains("names who changed them"))
    }

    #[test]
    fn stream_is_steered_with_an_event() {
        assert!(!is_unnamed(&[(3, None), (3, None)], None), "counts have none");
        assert!(is_unnamed(&[(3, None), (4, None)], None), "settings");
        assert!(!is_unnamed(&[(3, None), (4, None)], Some("ann")));
        assert!(is_unnamed(&[(3, None), (3, Some("ann"))], Some("bob")), "another person pins");
        assert!(!is_unnamed(&[(3, None), (3, Some("ann"))], Some("ann")));
        assert!(is_unnamed(&[(3, Some("ann")), (3, None)], None), "a pin is gone");
        assert!(!is_unnamed(&[(3, Some("ann")), (3, None)], Some("bob")));
    }
}
