//! Hostile ledgers: our own, which `grenade compare` is given, and those that the command of a load writes.

use std::path::Path;

use grenade_tests::load::entry::{self, COLUMNS};
use grenade_tests::load::foreign::{self, Known};
use tidegate_fuzz::{Border, Counting, Form, Shape};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Reads a ledger as our own and as a command's. What is refused says so in a line that does not grow with the ledger.
fn ledger(bytes: &[u8]) {
    let known =
        Known { nodes: vec!["node-1".to_owned(), "node-2".to_owned()], versions: [1, 2], ended_ms: 60_000.0 };
    match foreign::entries(bytes, &known) {
        Ok(entries) => {
            assert!(entries.iter().all(|entry| entry.done_ms <= 60_001.0 && entry.latency_ms() >= 0.0))
        }
        Err((_, what)) => {
            assert!(what.len() < 4_096, "{} bytes of text say what is wrong", what.len());
            assert!(!what.chars().any(char::is_control), "{what:?}");
        }
    }
    match entry::entries(bytes, Path::new("requests.csv")) {
        Ok(entries) => {
            assert!(entries.iter().all(|entry| entry.latency_ms().is_finite() && entry.lag_ms().is_finite()))
        }
        Err(refused) => drop(std::hint::black_box(refused.to_string())),
    }
}

fn ledgers() -> Border {
    Border::new(env!("CARGO_MANIFEST_DIR"), "ledger", Form::Csv)
}

#[test]
fn hostile_ledger_is_read_or_refused() {
    ledgers().holds(ledger);
}

#[test]
fn ledger_is_read_in_linear_time() {
    let head = format!("{}\n", COLUMNS.join(","));
    let begun = format!("{head}0,10,10,12,13,0,read,,failed,node-1,1,,9,fresh,");
    let shapes = [
        Shape::repeated("requests", &head, "{n},10,10,12,13,0,read,200,ok,node-1,1,,9,fresh,\n", ""),
        Shape::repeated("failures", &head, "{n},1,1,,1,0,a,,failed,,,,0,kept,x\n", ""),
        Shape::repeated("one seq again", &head, "0,10,10,12,13,0,read,200,ok,node-1,1,,9,fresh,\n", ""),
        Shape::repeated("columns", "seq,", "c{n},", "z\n0,1\n"),
        Shape::repeated("a long reason", &begun, "reset\u{1b} ", "\n"),
        Shape::repeated("a quoted reason", &format!("{begun}\""), "\"\"\n", "\"\n"),
        Shape::repeated("a quote without an end", &format!("{begun}\""), "a\n", ""),
        Shape::repeated(
            "a long number",
            &format!("{head}0,1"),
            "0",
            ",10,12,13,0,read,200,ok,node-1,1,,9,fresh,\n",
        ),
        Shape::repeated(
            "a long node",
            &format!("{head}0,10,10,12,13,0,read,200,ok,"),
            "n{n}",
            ",1,,9,fresh,\n",
        ),
        Shape::repeated("empty lines", &head, "\n", ""),
    ];
    ledgers().grows_linearly(8_192, &shapes, ledger);
}
