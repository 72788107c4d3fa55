//! Hostile records: each kind gets mutations of its golden files, and keys are parsed from anything.

use crate::record_compat::{files, key_of};
use tidegate_fuzz::{Border, Counting, Form, Seed, Shape};
use tidegate_proto::key::Kind;
use tidegate_proto::record::Malformed;
use tidegate_proto::{Key, Value};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Decodes a record; one that is taken has a form in which it is read again, and written the same.
fn read(key: &Key, bytes: &[u8]) {
    let Ok(value) = Value::decode(key, bytes) else { return };
    let written = value.encode();
    // Where records are read, one is held at a time: a list that just grew holds 144 bytes for each number.
    drop(value);
    match Value::decode(key, &written) {
        Ok(again) => {
            assert!(
                again.encode() == written,
                "{} is written otherwise the second time",
                String::from_utf8_lossy(&written)
            );
        }
        // Escapes and fields that were left out make it longer.
        Err(Malformed::Oversized { .. }) => assert!(written.len() > bytes.len()),
        Err(why) => panic!("it was read, and its own form {why}: {}", String::from_utf8_lossy(&written)),
    }
}

fn border(kind: Kind) -> Border {
    let golden = files().into_iter().filter(|(found, ..)| *found == kind);
    let seeds = golden.map(|(_, name, json)| Seed::new(name, serde_json::to_vec(&json).unwrap()));
    Border::new(env!("CARGO_MANIFEST_DIR"), &format!("record/{}", kind.word()), Form::Json).with(seeds)
}

/// Every kind is in exactly one of these four, so that tests run side by side.
fn quarter_is_read_or_refused(quarter: usize) {
    for kind in Kind::ALL.into_iter().skip(quarter).step_by(4) {
        let key = key_of(kind);
        border(kind).holds(|bytes| read(&key, bytes));
    }
}

#[test]
fn hostile_records_are_read_or_refused_1_of_4() {
    quarter_is_read_or_refused(0);
}

#[test]
fn hostile_records_are_read_or_refused_2_of_4() {
    quarter_is_read_or_refused(1);
}

#[test]
fn hostile_records_are_read_or_refused_3_of_4() {
    quarter_is_read_or_refused(2);
}

#[test]
fn hostile_records_are_read_or_refused_4_of_4() {
    quarter_is_read_or_refused(3);
}

#[test]
fn records_are_read_in_linear_time() {
    for kind in [Kind::Report, Kind::Upgrade, Kind::Stream, Kind::Group] {
        let golden = files().into_iter().find(|(found, ..)| *found == kind).unwrap().2;
        let record = serde_json::to_string(&golden).unwrap();
        let open = record.trim_end_matches('}').len();
        let open = &record[..open.max(record.len() - 1)];
        let shapes = [
            Shape::repeated("unknown fields", &format!("{open},"), "\"f{n}\":0,", "\"z\":0}"),
            Shape::repeated("an unknown list", &format!("{open},\"f\":["), "0,", "0]}"),
            Shape::repeated("one unknown field again", &format!("{open},"), "\"f\":0,", "\"f\":0}"),
            Shape::repeated("a long text", &format!("{open},\"f\":\""), "\\n\\u00e9", "\"}"),
            Shape::repeated("nested lists", &format!("{open},\"f\":"), "[", ""),
        ];
        let key = key_of(kind);
        border(kind).grows_linearly(3_000, &shapes, |bytes| read(&key, bytes));
    }
}

#[test]
fn hostile_keys_are_read_or_refused() {
    let keys = Kind::ALL.map(|kind| Seed::new(kind.word(), key_of(kind).to_string()));
    Border::new(env!("CARGO_MANIFEST_DIR"), "key", Form::Csv).with(keys).holds(|bytes| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let Ok(key) = text.parse::<Key>() else { return };
        assert_eq!(key.to_string(), text, "a key has one form");
    });
}
