//! What a run saw, made up: loads with and without failures, an upgrade, two pools, a calibration.

use std::path::Path;

use grenade_tests::gate::deaths::Death;
use grenade_tests::gate::drive::Ended;
use grenade_tests::gate::file::{self, Gate};
use grenade_tests::gate::host::{HostSeen, Lost};
use grenade_tests::gate::impact::calibrate::{Calibration, FORM, Rates, RivalRates, Seen, Simulated};
use grenade_tests::gate::impact::stretch::Stretch;
use grenade_tests::gate::impact::{Impact, Upgraded as UpgradedPool};
use grenade_tests::gate::machine::{Machine, RunContext};
use grenade_tests::gate::mixed::{Memory, Mixed};
use grenade_tests::gate::upgrade::Upgraded;
use grenade_tests::gate::verdict::{Check, Evidence, Word};
use grenade_tests::gate::watch::Change;
use grenade_tests::gate::written::{Arrangement, HostBounds};
use grenade_tests::load::LoadReport;
use grenade_tests::load::entry::{Connection, Entry, Judged};
use grenade_tests::load::sweep::Sweep;

/// A gate file of the examples, with more below it.
pub(super) fn gate(name: &str, more: &str) -> Gate {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("gates");
    let text = std::fs::read_to_string(here.join(name)).unwrap() + more;
    file::parse(&text, Path::new(name), &here).unwrap()
}

fn entry(seq: u64, at_ms: f64, took_ms: f64) -> Entry {
    Entry {
        seq,
        scheduled_ms: at_ms,
        sent_ms: at_ms + 0.5,
        first_ms: Some(at_ms + took_ms - 0.1),
        done_ms: at_ms + took_ms,
        own_ms: 0.0,
        kind: "read".to_owned(),
        status: Some(200),
        outcome: Judged::Ok,
        node: format!("node-{}", seq % 3 + 1),
        version: Some(if at_ms < 9_000.0 { 1 } else { 2 }),
        written_by: None,
        bytes: 120,
        connection: if seq.is_multiple_of(2) { Connection::Kept } else { Connection::Fresh },
        reason: String::new(),
    }
}

/// Sixty answers a second for so long; they take from one to some ten milliseconds, `slower` times as long.
pub(super) fn load(seconds: u64, slower: f64) -> Vec<Entry> {
    let took = |n: u64| {
        slower * (1.0 + (n * 7_919 % 97) as f64 / 20.0 + if n.is_multiple_of(211) { 30.0 } else { 0.0 })
    };
    (0..seconds * 60).map(|n| entry(n, n as f64 * 1e3 / 60.0, took(n))).collect()
}

/// Failures of four kinds, the latest first: the ledger has them in the order in which outcomes were known.
pub(super) fn failures() -> Vec<Entry> {
    let failed = |n: u64, status: Option<u16>, reason: &str| Entry {
        outcome: Judged::Failed,
        status,
        first_ms: status.map(|_| 6_004.0 + n as f64 * 100.0),
        bytes: if status.is_some() { 17 } else { 0 },
        kind: "update".to_owned(),
        node: if status.is_some() { "node-2".to_owned() } else { String::new() },
        version: status.map(|_| 2),
        reason: reason.to_owned(),
        ..entry(9_000 + n, 6_000.0 + n as f64 * 100.0, 5.0)
    };
    let quoted = format!("wrong content: /name is <b>\"{}\"</b>, not \"made by 7\"", "long".repeat(30));
    let mut all: Vec<Entry> =
        (0..12).map(|n| failed(n, Some(500), "status 500: it broke (200 to 299 is expected)")).collect();
    all.extend((12..15).map(|n| failed(n, None, "reset: connection reset by peer")));
    all.push(Entry { written_by: Some(1), ..failed(15, Some(200), &quoted) });
    all.push(failed(16, None, "no answer in 10 s"));
    all.reverse();
    all
}

fn change(at_ms: f64, node: &str, version: Option<u32>, in_rotation: bool) -> Change {
    Change { at_ms, node: node.to_owned(), version, in_rotation }
}

fn changes() -> Vec<Change> {
    let each = ["node-1", "node-2", "node-3"].into_iter().enumerate().flat_map(|(n, node)| {
        let from = 4_000.0 + n as f64 * 4_000.0;
        [
            change(0.0, node, Some(1), true),
            change(from, node, Some(1), false),
            change(from + 1_000.0, node, None, false),
            change(from + 1_800.0, node, Some(2), false),
            change(from + 2_600.0, node, Some(2), true),
        ]
    });
    let mut all: Vec<Change> = each.collect();
    all.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
    all
}

const LOST: Lost = Lost { cpu_pressure: Some(12.5), memory_pressure: Some(3.25), steal: Some(0.5) };
const HOST: HostSeen = HostSeen { mean: LOST, worst: LOST, lag_p99_ms: 0.8 };

/// An upgrade with this ledger.
pub(super) fn upgraded(entries: Vec<Entry>) -> Upgraded {
    let phases = [("preflight", 0.2), ("roll", 11.5), ("contract", 0.3)];
    let phases = phases.map(|(phase, seconds)| (phase.to_owned(), seconds)).to_vec();
    Upgraded {
        ended: Ended { word: "completed".to_owned(), phases, ..Ended::default() },
        from: 1,
        to: 2,
        span_ms: (3_000.0, 15_000.0),
        load: LoadReport::default(),
        certificate: None,
        host: HOST,
        entries,
        steps: Vec::new(),
        changes: changes(),
        overlaps: Some(Vec::new()),
        deaths: Vec::new(),
        sweep: Some(Sweep { read: 50, ..Sweep::default() }),
        silence: None,
        survival: Vec::new(),
    }
}

/// A frozen mix in which some requests failed and an instance ended.
pub(super) fn mix(entries: Vec<Entry>) -> Mixed {
    let memory =
        |node: &str, version, after| Memory { node: node.to_owned(), version, before: 20_480, after };
    let death = Death {
        node: "node-3".to_owned(),
        version: Some(2),
        at_ms: Some(3_000.0),
        how: "exited with code 3".to_owned(),
        log: "out of cheese <&>".to_owned(),
    };
    Mixed {
        arrangement: Arrangement { base: 2, target: 1 },
        entries,
        beside: Vec::new(),
        memory: vec![memory("node-1", 1, 22_528), memory("node-3", 2, 30_720)],
        deaths: vec![death],
        host: HOST,
    }
}

/// Two pools, of which one was upgraded, is slower, and had a failure.
pub(super) fn pools() -> Impact {
    let stretch =
        |slower| Stretch { treated: load(16, slower), twin: load(16, 1.0), changes: changes(), host: HOST };
    let check = |check, verdict, found| Check::new(check, verdict, found);
    Impact {
        alternates: false,
        fitness: vec![check("two idle pools are alike", Word::Pass, "+0.1 % [-0.8, +1.0] in 12 blocks")],
        idle: stretch(1.0),
        upgraded: Some(UpgradedPool {
            stretch: stretch(1.6),
            passes: 3,
            stuck: None,
            looks: (1, 3),
            checks: vec![check(
                "p50 beside the twin",
                Word::Fail,
                "+60.0 % [+58.0, +62.0] in 12 blocks, 5 % is allowed",
            )],
        }),
    }
}

/// All of it.
pub(super) fn evidence<'a>(
    upgraded: &'a Upgraded,
    mixed: &'a [Mixed],
    impact: Option<&'a Impact>,
) -> Evidence<'a> {
    Evidence {
        documented: None,
        health: &[],
        mixed,
        offline: None,
        orders: &[],
        rollbacks: &[],
        upgraded,
        impact,
        bounds: HostBounds::default(),
    }
}

/// Where and when it was.
pub(super) fn context() -> RunContext {
    let machine = Machine {
        name: "build-7".to_owned(),
        cores: 2,
        memory_mib: Some(7_936),
        kernel: "6.12.0-9-cloud-amd64".to_owned(),
    };
    RunContext { began: "2026-11-26T09:00:00Z".to_owned(), seconds: 62.4, machine }
}

/// The figures of `grenade calibrate`, of another machine.
pub(super) fn calibration() -> Calibration {
    let rates = |pass, inconclusive, fail| Rates {
        runs: pass + inconclusive + fail,
        pass,
        inconclusive,
        fail,
        fail_part: (0.0, 0.168),
    };
    let simulated = |effect: &str, rates| Simulated { effect: effect.to_owned(), rates };
    let seen = |seen| Seen { comparisons: 19, seen };
    let machine = Machine { name: "calibrated-here".to_owned(), ..context().machine };
    Calibration {
        form: FORM,
        gate: "two pools".to_owned(),
        rate: 200,
        seconds: 60.0,
        looks: 3,
        context: RunContext { began: "2026-11-20T08:00:00Z".to_owned(), seconds: 2_000.0, machine },
        idle_pairs: rates(18, 2, 0),
        simulated: vec![
            simulated("nothing", rates(1_980, 12, 8)),
            simulated("p99 20 % slower", rates(0, 3, 1_997)),
        ],
        smallest_p99_shift_percent: 2.9,
        rivals: vec![RivalRates {
            judge: "Mann-Whitney of all requests".to_owned(),
            before_and_after: seen(15),
            twin: seen(4),
            stalls: seen(17),
        }],
    }
}
