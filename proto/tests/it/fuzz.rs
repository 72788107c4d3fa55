//! Hostile records: each kind gets mutations of its golden files, and keys are parsed from anything.

use crate::record_compat::{files, key_of};
use serde_json::Value as Json;
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

/// The places of the lists in a record.
fn lists(record: &Json, at: &str) -> Vec<String> {
    let inside = |(name, value): (String, &Json)| lists(value, &format!("{at}/{name}"));
    match record {
        Json::Array(list) if list.is_empty() => Vec::new(),
        Json::Array(list) => {
            let each = list.iter().enumerate().map(|(n, value)| (n.to_string(), value));
            std::iter::once(at.to_owned()).chain(each.flat_map(inside)).collect()
        }
        Json::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), value)).flat_map(inside).collect()
        }
        _ => Vec::new(),
    }
}

/// The record with the first of a list again and again.
fn repeated(record: &Json, list: &str, bytes: usize) -> Vec<u8> {
    let mut long = record.clone();
    let Some(Json::Array(list)) = long.pointer_mut(list) else { unreachable!("a list is there") };
    let times = bytes / list[0].to_string().len().max(1);
    list.extend(std::iter::repeat_n(list[0].clone(), times));
    long.to_string().into_bytes()
}

/// The shapes that grow of a record of a kind.
fn shapes(golden: &Json) -> Vec<Shape> {
    let record = golden.to_string();
    let open = record.trim_end_matches('}').len();
    let open = &record[..open.max(record.len() - 1)];
    let mut shapes = vec![
        Shape::repeated("unknown fields", &format!("{open},"), "\"f{n}\":0,", "\"z\":0}"),
        Shape::repeated("an unknown list", &format!("{open},\"f\":["), "0,", "0]}"),
        Shape::repeated("one unknown field again", &format!("{open},"), "\"f\":0,", "\"f\":0}"),
        Shape::repeated("a long text", &format!("{open},\"f\":\""), "\\n\\u00e9", "\"}"),
        Shape::repeated("nested lists", &format!("{open},\"f\":"), "[", ""),
    ];
    shapes.extend(lists(golden, "").into_iter().map(|list| {
        let golden = golden.clone();
        Shape::made("a list of its own", move |bytes| repeated(&golden, &list, bytes))
    }));
    shapes
}

#[test]
fn records_are_read_in_linear_time() {
    for kind in Kind::ALL {
        for (_, _, golden) in files().into_iter().filter(|(found, ..)| *found == kind) {
            let key = key_of(kind);
            // Mostly what grows, also of the small ones.
            let size = 3_000 + 4 * golden.to_string().len();
            border(kind).grows_linearly(size, &shapes(&golden), |bytes| read(&key, bytes));
        }
    }
}

#[test]
fn keys_are_read_in_linear_time() {
    let shapes = [
        Shape::repeated("a long name", "reports/", "a", "/n1"),
        Shape::repeated("many parts", "reports", "/a{n}", ""),
        Shape::repeated("no name", "events/", "\u{e9}", ""),
        Shape::repeated("a long number", "events/fleet/", "1", ""),
    ];
    Border::new(env!("CARGO_MANIFEST_DIR"), "key", Form::Csv).grows_linearly(3_000, &shapes, |bytes| {
        let text = std::str::from_utf8(bytes).unwrap();
        let _ = text.parse::<Key>();
    });
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
