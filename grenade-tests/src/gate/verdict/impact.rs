//! Whether the tag zero-impact is earned.

use std::collections::BTreeMap;

use crate::gate::impact::Upgraded;
use crate::gate::impact::control::moved;
use crate::gate::impact::series::{BLOCK_MS, Series};
use crate::gate::quantile::quantile;
use crate::gate::verdict::{Check, Evidence, Word, unfailed, words};
use crate::load::entry::Entry;

/// What the two pools showed, check by check.
pub(super) fn zero_impact(evidence: &Evidence<'_>) -> Vec<Check> {
    let Some(impact) = evidence.impact else {
        return vec![Check::new(PAIR, Word::Inconclusive, "no pools were compared")];
    };
    let mut checks = impact.fitness.clone();
    let Some(up) = &impact.upgraded else {
        let found = "nothing was upgraded: the judge cannot decide on this machine";
        checks.push(Check::new(PAIR, Word::Inconclusive, found));
        return checks;
    };
    checks.push(passes(up, impact.alternates));
    let overloaded = impact.host().overloaded(&evidence.bounds);
    checks.push(same_load(&up.stretch.treated, &up.stretch.twin));
    checks.push(failures(&up.stretch.treated, &up.stretch.twin, overloaded));
    let [[_, before], [_, during]] = [impact.idle.series(), up.stretch.series()];
    let control = moved(&before, &during);
    let stands = control.verdict == Word::Pass;
    checks.push(control);
    let (look, most) = up.looks;
    let suspect = suspect(up);
    checks.extend(up.checks.iter().cloned().map(|mut check| {
        check.found.push_str(&format!(" (look {look} of at most {most})"));
        if check.verdict == Word::Fail {
            check.found.push_str(&suspect);
        }
        if !stands {
            // What both pools felt may be the upgrade's.
            check.verdict = Word::Inconclusive;
        }
        check
    }));
    checks
}

/// Who is slower: the versions beside each other, the instance with the slowest answers, and the first request that takes
/// longer than the twin's p99.
fn suspect(up: &Upgraded) -> String {
    let mut versions = BTreeMap::<u32, Vec<f64>>::new();
    let mut nodes = BTreeMap::<(&str, u32), Vec<f64>>::new();
    for entry in up.stretch.treated.iter().filter(|entry| entry.is_ok()) {
        let version = entry.version.unwrap_or_default();
        versions.entry(version).or_default().push(entry.latency_ms());
        nodes.entry((&entry.node, version)).or_default().push(entry.latency_ms());
    }
    let at = |latencies: &mut Vec<f64>, at| {
        latencies.sort_by(f64::total_cmp);
        quantile(latencies, at)
    };
    let mut said: Vec<String> = versions
        .iter_mut()
        .map(|(version, latencies)| format!("answers of version {version}: p50 {:.1} ms", at(latencies, 0.5)))
        .collect();
    let slowest = nodes.iter_mut().map(|(place, latencies)| (at(latencies, 0.99), place));
    if let Some((p99, (node, version))) = slowest.max_by(|a, b| a.0.total_cmp(&b.0)) {
        said.push(format!("the slowest: {node} at version {version}, p99 {p99:.1} ms"));
    }
    let limit = Series::of(&up.stretch.twin).quantile(0.99);
    let slow = up.stretch.treated.iter().filter(|entry| entry.is_ok() && entry.latency_ms() > limit);
    if let Some(first) = slow.min_by(|a, b| a.scheduled_ms.total_cmp(&b.scheduled_ms)) {
        let (what, ms) = (words(first), first.latency_ms());
        said.push(format!("first beyond the twin's p99: {} ({ms:.1} ms)", what.trim_end_matches(": ")));
    }
    format!("; {}", said.join("; "))
}

/// By which part two loads may differ.
const UNEVEN: f64 = 0.02;
const PAIR: &str = "one pool is upgraded beside its twin";

fn passes(up: &Upgraded, alternates: bool) -> Check {
    let drains = up.stretch.drains_ms().len();
    match &up.stuck {
        Some(stuck) => Check::new(PAIR, Word::Fail, stuck.clone()),
        None => {
            let twin = if alternates {
                "; its twin is the pool itself, in stretches without an upgrade"
            } else {
                ""
            };
            Check::new(PAIR, Word::Pass, format!("{} passes, {drains} drains{twin}", up.passes))
        }
    }
}

/// No request of the pool may fail where none of its twin does.
pub(in crate::gate) fn failures(treated: &[Entry], twin: &[Entry], overloaded: Option<String>) -> Check {
    let mut check = unfailed("no request to the pool fails", treated, overloaded);
    let failed = twin.iter().filter(|entry| !entry.is_ok()).count();
    if failed > 0 && check.verdict == Word::Fail {
        check.verdict = Word::Inconclusive;
    }
    check.found.push_str(&format!("; of the twin {failed} of {}", twin.len()));
    check
}

/// Two ledgers can be compared only where as many requests were sent, over the same time.
pub(in crate::gate) fn same_load(treated: &[Entry], twin: &[Entry]) -> Check {
    let last = |entries: &[Entry]| entries.iter().map(|entry| entry.scheduled_ms).fold(0.0, f64::max);
    let (own, other) = (treated.len() as f64, twin.len() as f64);
    let found = format!(
        "{own} requests in {:.0} s, {other} to the twin in {:.0} s",
        last(treated) / 1e3,
        last(twin) / 1e3
    );
    let alike =
        (own - other).abs() <= UNEVEN * own.max(other) && (last(treated) - last(twin)).abs() <= BLOCK_MS;
    let word = if alike && own > 0.0 { Word::Pass } else { Word::Inconclusive };
    Check::new("both pools got the same load", word, found)
}
