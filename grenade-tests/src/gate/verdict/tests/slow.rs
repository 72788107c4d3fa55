//! A version that is slower, in the ledgers of two pools.

use super::*;
use crate::gate::impact;
use crate::gate::impact::simulated::Machine;
use crate::gate::impact::stretch::Stretch;
use crate::gate::impact::{Impact, series::Series};

const SECONDS: f64 = 120.0;
/// From one drain to the next.
const DRAIN_EVERY_MS: f64 = 4_700.0;
/// The requests of a second.
const RATE: f64 = 200.0;

/// The answer to a request that is due then, in a pool of three: its instances are upgraded one after the other, and rolled
/// back, again and again, with eight drains for each pass.
fn answered_by(at_ms: f64) -> (String, u32) {
    let (node, drains) = ((at_ms * RATE / 1e3).round() as usize % 3, (at_ms / DRAIN_EVERY_MS) as usize % 8);
    (format!("pool-{}", node + 1), 1 + u32::from((node + 1..=node + 5).contains(&drains)))
}

fn ledger(series: &Series) -> Vec<Entry> {
    let one = |(n, point): (usize, &impact::series::Point)| {
        let (node, version) = answered_by(point.at_ms);
        Entry { version: Some(version), ..good(n as u64, &node, point.at_ms, point.latency_ms) }
    };
    series.points().iter().enumerate().map(one).collect()
}

/// Two pools; an answer of version 2 takes `slower` times as long.
fn pools(seed: u64, slower: f64) -> Impact {
    let idle = Machine::new(seed).pools(SECONDS, &|_, latency| latency);
    let felt = |at_ms, latency| if answered_by(at_ms).1 == 2 { latency * slower } else { latency };
    let (treated, twin) = Machine::new(seed + 1).pools(SECONDS, &felt);
    let out = |n: usize| {
        let (at_ms, node) = ((n / 2 + 1) as f64 * DRAIN_EVERY_MS, format!("pool-{}", (n / 2) % 3 + 1));
        let (at_ms, in_rotation) = if n.is_multiple_of(2) { (at_ms, false) } else { (at_ms + 500.0, true) };
        Change { at_ms, node, version: Some(1), in_rotation }
    };
    let serving = (1..=3).map(|n| Change {
        at_ms: 0.0,
        node: format!("pool-{n}"),
        version: Some(1),
        in_rotation: true,
    });
    let stretch = Stretch {
        treated: ledger(&treated),
        twin: ledger(&twin),
        changes: serving.chain((0..48).map(out)).collect(),
        host: HostSeen::default(),
    };
    let checks = impact::judge::judge(&treated, &twin, &stretch.drains_ms(), 1);
    Impact {
        alternates: false,
        fitness: Vec::new(),
        idle: Stretch { treated: ledger(&idle.0), twin: ledger(&idle.1), ..Stretch::default() },
        upgraded: Some(impact::Upgraded { stretch, passes: 8, stuck: None, looks: (1, 1), checks }),
    }
}

fn judged(impact: &Impact) -> TagVerdict {
    let up = upgraded(load());
    let evidence = Evidence {
        health: &[],
        orders: &[],
        rollbacks: &[],
        mixed: &[],
        offline: None,
        upgraded: &up,
        documented: None,
        impact: Some(impact),
        bounds: HostBounds::default(),
    };
    judge(&[GateTag::ZeroImpact], &evidence).remove(0)
}

#[test]
fn slower_version_fails_with_node_version_and_first_request() {
    let impact = pools(3, 1.2);
    let judged = judged(&impact);
    assert_eq!(judged.verdict, Word::Fail, "{judged:#?}");
    let up = impact.upgraded.as_ref().unwrap();
    let limit = Series::of(&up.stretch.twin).quantile(0.99);
    let slow =
        up.stretch.treated.iter().filter(|entry| entry.version == Some(2) && entry.latency_ms() > limit);
    let named = |first: &Entry| {
        let at = format!("{} at version 2", first.node);
        let first = format!("read {} at {:.3} s, {at}", first.seq, first.scheduled_ms / 1e3);
        (format!("the slowest: {at}, p99"), format!("its first beyond the twin's p99: {first}"))
    };
    // The first of each node; one of them is the slowest.
    let firsts =
        (1..=3).filter_map(|n| slow.clone().find(|entry| entry.node == format!("pool-{n}"))).map(named);
    let firsts: Vec<(String, String)> = firsts.collect();
    for check in judged.checks.iter().filter(|check| check.verdict == Word::Fail) {
        assert!(check.found.contains("answers of version 2: p50"), "{check:#?}");
        let is_named =
            firsts.iter().any(|(node, first)| check.found.contains(node) && check.found.contains(first));
        assert!(is_named, "{firsts:#?}: {check:#?}");
    }
    assert!(
        judged.checks.iter().any(|check| check.check == "p50 beside the twin" && check.verdict == Word::Fail)
    );
}

#[test]
fn pool_that_is_as_fast_as_its_twin_passes() {
    let judged = judged(&pools(3, 1.0));
    assert_eq!(judged.verdict, Word::Pass, "{judged:#?}");
}
