//! The forms of a gate's report: what each of them says, and how the page looks in a real browser.

mod seen;

use std::path::{Path, PathBuf};

use grenade_tests::gate::exit::OnInconclusive;
use grenade_tests::gate::file::Gate;
use grenade_tests::gate::plan::Plan;
use grenade_tests::gate::report::{GateReport, html, junit, text};
use grenade_tests::gate::verdict::{Evidence, Word, judge};
use serde_json::{Value, json};
use tidegate_proto::GateTag;

use crate::browser::{Shown, is_laid_out};

/// What Tidegate is given, shortened.
const SPEC: &str = "service: items\nfrom: 1\nto: 2\nmax_unavailable: 1\n";

fn report(gate: &Gate, evidence: &Evidence<'_>) -> GateReport {
    GateReport::of(gate, evidence, judge(&gate.tags, evidence), seen::context())
}

/// The page as a file. With `TIDEGATE_WRITE_PAGES=DIR` it is left there, to be looked at.
fn page(name: &str, html: &str) -> (tempfile::TempDir, PathBuf) {
    let room = tempfile::tempdir().unwrap();
    let path = room.path().join(name);
    std::fs::write(&path, html).unwrap();
    if let Some(kept) = std::env::var_os("TIDEGATE_WRITE_PAGES") {
        std::fs::write(Path::new(&kept).join(name), html).unwrap();
    }
    (room, path)
}

fn contains(found: &str, all: &[&str]) {
    for part in all {
        assert!(found.contains(part), "`{part}` is not in\n{found}");
    }
}

fn plan(steps: Value) -> Plan {
    serde_json::from_value(json!({"steps": steps})).unwrap()
}

#[test]
fn failures_are_counted_by_kind_and_the_first_ten_are_in_full() {
    let gate = seen::gate("items.yaml", "");
    let up = seen::upgraded([seen::load(20, 1.0), seen::failures()].concat());
    let evidence = seen::evidence(&up, &[], None);
    let report = report(&gate, &evidence);
    let json = serde_json::to_value(&report).unwrap();
    let load = &json["upgrade"]["load"];
    let kinds = json!({"status 500": 12, "reset": 3, "wrong content": 1, "no answer in 10 s": 1});
    assert_eq!((&load["failed"], &load["failures"]), (&json!(17), &kinds), "{load:#}");
    assert_eq!(load["first_failed"].as_array().unwrap().len(), 10);
    assert_eq!(load["first_failures"].as_array().unwrap().len(), 10);
    // The first in the order in which they were due, with every column of the ledger.
    let first = json!({
        "seq": 9000, "kind": "update", "scheduled_ms": 6000.0, "sent_ms": 6000.5, "first_ms": 6004.0, "done_ms": 6005.0,
        "own_ms": 0.0, "status": 500, "outcome": "failed", "node": "node-2", "version": 2, "written_by": null, "bytes": 17,
        "connection": "kept", "reason": "status 500: it broke (200 to 299 is expected)",
    });
    assert_eq!(load["first_failed"][0], first);
    let text = text::text(&report, Path::new("/artifacts"));
    contains(
        &text,
        &["              failed: 12 x status 500, 3 x reset, 1 x no answer in 10 s, 1 x wrong content\n"],
    );
    let html = html::html(&report, &evidence, SPEC);
    contains(&html, &["<td class=\"n\">12</td><td>status 500</td>", "<h3>upgrade: 10 of 17</h3>"]);
    for cell in ["update 9000", "6.000", "6.004", "6.005", "500", "17", "kept", "node-2", "2"] {
        contains(&html, &[&format!("\">{cell}</td>")]);
    }
    contains(&html, &[">status 500: it broke (200 to 299 is expected)</td>"]);
}

#[test]
fn rare_kinds_of_failures_are_counted_together() {
    let gate = seen::gate("items.yaml", "");
    let mut entries = seen::load(20, 1.0);
    let of_their_own = seen::failures().remove(0);
    let failed = |n: u64| grenade_tests::load::entry::Entry {
        reason: format!("reason {n}\u{1b}[2J"),
        ..of_their_own.clone()
    };
    entries.extend((0..30).map(failed));
    let up = seen::upgraded(entries);
    let evidence = seen::evidence(&up, &[], None);
    let report = report(&gate, &evidence);
    let text = text::text(&report, Path::new("/artifacts"));
    let line = text.lines().find(|line| line.trim_start().starts_with("failed: ")).unwrap();
    assert!(line.ends_with(", 21 x 21 other kinds") && !line.contains('\u{1b}'), "{line:?}");
    assert_eq!(report.upgrade.load.failures.len(), 30);
}

#[test]
fn presupposed_tags_that_are_not_asserted_are_in_every_form() {
    let mut gate = seen::gate("items.yaml", "");
    gate.tags = vec![GateTag::ZeroDowntime];
    let up = seen::upgraded(seen::load(20, 1.0));
    let evidence = seen::evidence(&up, &[], None);
    let report = report(&gate, &evidence);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["not_decided"], json!(["rolling", "supports-upgrade"]));
    let said = "zero-downtime presupposes it, and this gate file does not assert it";
    contains(&text::text(&report, Path::new("/artifacts")), &["\nnot decided   rolling\n", said]);
    contains(&html::html(&report, &evidence, SPEC), &["<h2>not decided: rolling</h2>", said]);
    let xml = junit::xml(&report, None);
    contains(
        &xml,
        &[
            " skipped=\"2\"",
            "classname=\"items on SQLite.rolling\" name=\"the tag as a whole\"><skipped message",
            said,
        ],
    );
}

#[test]
fn inconclusive_check_counts_in_junit_as_asked() {
    let gate = seen::gate("items.yaml", "");
    let up = seen::upgraded(seen::load(20, 1.0));
    let evidence = seen::evidence(&up, &[], None);
    let mut report = report(&gate, &evidence);
    for check in report.tags.iter_mut().flat_map(|tag| &mut tag.checks) {
        check.verdict = Word::Pass;
    }
    report.tags[0].checks[0].verdict = Word::Inconclusive;
    for (counts, errors, failures, skipped, element) in [
        (None, 1, 0, 0, "<error type=\"inconclusive\" "),
        (Some(OnInconclusive::Fail), 0, 1, 0, "<failure type=\"inconclusive\" "),
        (Some(OnInconclusive::Pass), 0, 0, 1, "<skipped "),
    ] {
        let xml = junit::xml(&report, counts);
        let sums = format!("failures=\"{failures}\" errors=\"{errors}\" skipped=\"{skipped}\"");
        contains(&xml, &[&sums, element]);
        let elements = ["<error ", "<failure ", "<skipped "].map(|element| xml.matches(element).count());
        assert_eq!(elements, [errors, failures, skipped]);
    }
}

#[test]
fn machine_and_date_are_in_every_form() {
    let gate = seen::gate("items.yaml", "");
    let up = seen::upgraded(seen::load(20, 1.0));
    let evidence = seen::evidence(&up, &[], None);
    let report = report(&gate, &evidence);
    let json = serde_json::to_value(&report).unwrap();
    let machine =
        json!({"name": "build-7", "cores": 2, "memory_mib": 7936, "kernel": "6.12.0-9-cloud-amd64"});
    assert_eq!((&json["machine"], &json["began"]), (&machine, &json!("2026-11-26T09:00:00Z")));
    assert_eq!(json["seconds"], 62.4);
    let words = "host build-7, 2 cores, 7936 MiB of memory, Linux 6.12.0-9-cloud-amd64";
    let text = text::text(&report, Path::new("/artifacts"));
    contains(
        &text,
        &[words, "began 2026-11-26T09:00:00Z", "cpu pressure 12 %, memory pressure 3 %, steal 0 %"],
    );
    let html = html::html(&report, &evidence, SPEC);
    contains(&html, &[words, "Began 2026-11-26T09:00:00Z", "data-label=\"memory pressure %\">3.2</td>"]);
}

#[test]
fn plan_faults_and_procedure_are_in_the_page() {
    let faults =
        "\nfaults:\n- {when: {upgraded: 1}, do: {pause: 2s}}\n- {when: {after: 3s}, do: kill-coordinator}\n";
    let gate = seen::gate("items.yaml", faults);
    let up = seen::upgraded(seen::load(20, 1.0));
    let evidence = seen::evidence(&up, &[], None);
    let of_gate = report(&gate, &evidence).planned(None, gate.faults.as_ref());
    let html = html::html(&of_gate, &evidence, SPEC);
    contains(
        &html,
        &[
            "<code>faults</code> of the gate file",
            "<li>when 1 are upgraded, the operator pauses for 2s</li><li>after 3s, the coordinator is killed</li>",
            "with this spec:</p><pre>service: items\nfrom: 1",
        ],
    );
    assert_eq!(serde_json::to_value(&of_gate).unwrap()["plan_from"], "gate-file");
    // A plan of the command line is run in place of the faults.
    let other = plan(json!([{"when": {"upgraded": 2}, "do": "roll-back"}]));
    let of_line = report(&gate, &evidence).planned(Some(&other), gate.faults.as_ref());
    let html = html::html(&of_line, &evidence, SPEC);
    contains(
        &html,
        &[
            "by <code>--plan</code>:",
            "<li>when 2 are upgraded, the operator rolls back, and upgrades again</li>",
        ],
    );
    assert!(!html.contains("the coordinator is killed"), "{html}");
    let gate = seen::gate("mariadb-by-hand.yaml", "");
    let by_hand = report(&gate, &evidence);
    let command = "/usr/bin/python3 {here}/items/by_hand.py {fleet} 2";
    assert_eq!(by_hand.procedure_command.as_deref(), Some(command));
    let html = html::html(&by_hand, &evidence, "");
    contains(&html, &["the command of <code>procedure</code>", &format!("<pre>{command}</pre>")]);
    assert!(!html.contains("<pre></pre>") && !html.contains("with this spec"), "{html}");
}

#[test]
fn calibration_is_in_the_page_and_says_where_it_was_measured() {
    let gate = seen::gate("zero-impact.yaml", "");
    let (up, impact) = (seen::upgraded(seen::load(20, 1.0)), seen::pools());
    let evidence = seen::evidence(&up, &[], Some(&impact));
    let mut report = report(&gate, &evidence);
    report.calibration = Some(seen::calibration());
    let html = html::html(&report, &evidence, SPEC);
    let of_figures = [
        "from 2026-11-20T08:00:00Z on, on host calibrated-here, 2 cores",
        "This report is of another machine",
        "data-label=\"pass %\">90.0</td>",
        "simulated: p99 20 % slower",
        "Smallest shift of p99 shown in 120 s with a power of 90 %: 2.9 %",
        "data-label=\"before and after\">15 of 19</td>",
    ];
    contains(&html, &of_figures);
    let text = text::text(&report, Path::new("/artifacts"));
    contains(&text, &["began 2026-11-20T08:00:00Z on host calibrated-here"]);
    report.calibration.as_mut().unwrap().context.machine = seen::context().machine;
    assert!(!html::html(&report, &evidence, SPEC).contains("another machine"));
}

#[test]
fn page_with_failures_is_laid_out() {
    let gate = seen::gate("items.yaml", "");
    let up = seen::upgraded([seen::load(20, 1.0), seen::failures()].concat());
    let mixed = [seen::mix([seen::load(5, 1.0), seen::failures()].concat())];
    let evidence = seen::evidence(&up, &mixed, None);
    let other = plan(json!([
        {"when": {"upgraded": 1}, "do": {"pause": "2s"}},
        {"when": {"upgraded": 2}, "do": "kill-coordinator"},
    ]));
    let report = report(&gate, &evidence).planned(Some(&other), None);
    let (_room, page) = page("failures.html", &html::html(&report, &evidence, SPEC));
    is_laid_out(
        &page,
        &Shown {
            verdict: "FAIL",
            pictures: &["Latency over time", "Latency by percentile", "Version of each node"],
            curves: &["p50", "p99", "since the upgrade began", "before the upgrade"],
            texts: &[
                "Failed requests by kind",
                "mix 2+1: 10 of 17",
                "failed request",
                "out of cheese",
                "build-7",
            ],
            pages: 8,
        },
    );
}

#[test]
fn page_with_two_pools_is_laid_out() {
    let gate = seen::gate("zero-impact.yaml", "");
    let (up, impact) = (seen::upgraded(seen::load(20, 1.0)), seen::pools());
    let evidence = seen::evidence(&up, &[], Some(&impact));
    let mut report = report(&gate, &evidence);
    report.calibration = Some(seen::calibration());
    let (_room, page) = page("pools.html", &html::html(&report, &evidence, SPEC));
    is_laid_out(
        &page,
        &Shown {
            verdict: "INCONCLUSIVE",
            pictures: &[
                "Latency over time",
                "Latency by percentile",
                "Version of each node",
                "Latency over time: upgraded pool",
                "Latency over time: twin",
                "Latency by percentile: upgraded pool and twin",
            ],
            curves: &[
                "p50",
                "p99",
                "since the upgrade began",
                "before the upgrade",
                "p50",
                "p99",
                "p50",
                "p99",
                "upgraded pool",
                "twin",
            ],
            texts: &[
                "How far zero-impact can be trusted",
                "simulated: nothing",
                "an instance is out of rotation",
            ],
            pages: 8,
        },
    );
}
