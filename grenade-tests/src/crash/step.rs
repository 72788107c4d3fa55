//! What kind of step a write is, from the keys and records that it writes.

use etcd_client::proto::{PbTxnOpRequest, PbTxnRequest};
use tidegate_proto::key::Subject;
use tidegate_proto::{Key, Prefix, Value};

/// Kinds whose number grows with time; only the first that a process carries out is a point.
pub fn follows_the_clock(kind: &str) -> bool {
    ["report", "reasons", "checkpoint", "lease", "journal", "database a batch"]
        .iter()
        .any(|word| kind.starts_with(word))
}

/// The kind of a transaction; none where it writes nothing.
pub fn of(request: &PbTxnRequest, prefix: &Prefix) -> Option<String> {
    let mut writes = Vec::new();
    for operation in &request.success {
        match operation.request.as_ref() {
            Some(PbTxnOpRequest::RequestPut(put)) => writes.push(written(prefix, &put.key, Some(&put.value))),
            Some(PbTxnOpRequest::RequestDeleteRange(gone)) => writes.push(written(prefix, &gone.key, None)),
            _ => {}
        }
    }
    let event = writes.iter().find_map(|write| match write {
        (Some(Key::Event(Subject::Upgrade(_), _)), Some(Value::Event(event))) => Some(event.body.to.as_str()),
        _ => None,
    });
    match (event, writes.first()?) {
        (Some(to), _) => Some(without_numbers(to)),
        (None, first) => Some(by_key(first)),
    }
}

type Write = (Option<Key>, Option<Value>);

fn written(prefix: &Prefix, key: &[u8], value: Option<&[u8]>) -> Write {
    let key = prefix.parse(key).and_then(Result::ok);
    let value = key.as_ref().zip(value).and_then(|(key, value)| Value::decode(key, value).ok());
    (key, value)
}

/// What only its keys show: it is no step of the upgrade that has an event.
fn by_key(write: &Write) -> String {
    match write {
        (Some(Key::Report(..)), Some(Value::Report(report))) => {
            let (step, rotation) = (report.body.step.word(), report.body.rotation);
            format!("report {step}, {rotation:?}").to_lowercase()
        }
        (Some(Key::Report(..)), _) => "report withdrawn".to_owned(),
        (Some(Key::Inventory(..)), _) => "admission".to_owned(),
        (Some(Key::Waiting(_)), Some(_)) => "reasons".to_owned(),
        (Some(Key::Waiting(_)), None) => "reasons cleared".to_owned(),
        (Some(Key::Leader), _) => "leadership".to_owned(),
        (Some(Key::Upgrade(_)), _) => "checkpoint".to_owned(),
        (Some(key), _) => key.kind().word().to_owned(),
        (None, _) => "foreign key".to_owned(),
    }
}

/// `drain node-2` is a drain, of whichever node.
fn without_numbers(to: &str) -> String {
    let words: Vec<&str> =
        to.split(' ').filter(|word| !word.contains(|c: char| c.is_ascii_digit())).collect();
    words.join(" ").trim_end_matches(',').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use etcd_client::proto::{PbPutRequest, PbRangeRequest, PbTxnRequestOp};
    use tidegate_proto::record::Timestamp;
    use tidegate_proto::record::event::Event;

    fn put(key: &str, value: Vec<u8>) -> PbTxnRequestOp {
        let put = PbPutRequest { key: key.as_bytes().to_vec(), value, ..Default::default() };
        PbTxnRequestOp { request: Some(PbTxnOpRequest::RequestPut(put)) }
    }

    fn kind(success: Vec<PbTxnRequestOp>) -> Option<String> {
        of(&PbTxnRequest { success, ..Default::default() }, &Prefix::default())
    }

    #[test]
    fn a_step_is_named_by_its_event_and_other_writes_by_their_key() {
        let event = Event {
            from: "roll".to_owned(),
            to: "drain node-2".to_owned(),
            because: String::new(),
            who: String::new(),
            at: Timestamp(0),
        };
        let event = Value::from(event).encode();
        let drain = vec![
            put("/tidegate/directives/pantry/node-2", Vec::new()),
            put("/tidegate/events/upgrade-u1/00000000000000000007-0000000001", event),
        ];
        assert_eq!(kind(drain).as_deref(), Some("drain"));
        assert_eq!(kind(vec![put("/tidegate/leader", Vec::new())]).as_deref(), Some("leadership"));
        assert_eq!(kind(vec![put("/tidegate/waiting/u1", Vec::new())]).as_deref(), Some("reasons cleared"));
    }

    #[test]
    fn a_transaction_of_reads_is_no_write() {
        let read = PbTxnRequestOp { request: Some(PbTxnOpRequest::RequestRange(PbRangeRequest::default())) };
        assert_eq!(kind(vec![read]), None);
    }
}
