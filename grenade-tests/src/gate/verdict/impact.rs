//! Whether the tag zero-impact is earned.

use std::collections::BTreeMap;

use crate::gate::impact::Upgraded;
use crate::gate::impact::control::moved;
use crate::gate::impact::series::{BLOCK_MS, Series};
use crate::gate::late::Wrong;
use crate::gate::quantile::quantile;
use crate::gate::verdict::{Check, Evidence, On, Word, excused, not_sent, unfailed, words};
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
    let host = impact.host();
    let on = On { host: &host, bounds: &evidence.bounds };
    checks.push(passes(up, impact.alternates, host.overloaded(&evidence.bounds)));
    checks.push(same_load(&up.stretch.treated, &up.stretch.twin));
    checks.push(failures(&up.stretch.treated, &up.stretch.twin, on));
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

/// Who is slower: the versions beside each other, of the slowest version the instance with the slowest answers, and its first
/// request that takes longer than the twin's p99. One in a hundred of every version does, so others say nothing.
fn suspect(up: &Upgraded) -> String {
    let mut places = BTreeMap::<u32, BTreeMap<&str, Vec<&Entry>>>::new();
    for entry in up.stretch.treated.iter().filter(|entry| entry.is_ok()) {
        let version = places.entry(entry.version.unwrap_or_default()).or_default();
        version.entry(&entry.node).or_default().push(entry);
    }
    let of_version = |nodes: &BTreeMap<&str, Vec<&Entry>>, at| quantile_of(nodes.values().flatten(), at);
    let mut said: Vec<String> = places
        .iter()
        .map(|(version, nodes)| format!("answers of version {version}: p50 {:.1} ms", of_version(nodes, 0.5)))
        .collect();
    let slowest = places.iter().map(|(version, nodes)| (of_version(nodes, 0.99), version, nodes));
    let Some((_, version, nodes)) = slowest.max_by(|a, b| a.0.total_cmp(&b.0)) else { return String::new() };
    let each = nodes.iter().map(|(node, entries)| (quantile_of(entries, 0.99), node, entries));
    if let Some((p99, node, entries)) = each.max_by(|a, b| a.0.total_cmp(&b.0)) {
        said.push(format!("the slowest: {node} at version {version}, p99 {p99:.1} ms"));
        let limit = Series::of(&up.stretch.twin).quantile(0.99);
        let slow = entries.iter().filter(|entry| entry.latency_ms() > limit);
        if let Some(first) = slow.min_by(|a, b| a.scheduled_ms.total_cmp(&b.scheduled_ms)) {
            let (what, ms) = (words(first), first.latency_ms());
            said.push(format!(
                "its first beyond the twin's p99: {} ({ms:.1} ms)",
                what.trim_end_matches(": ")
            ));
        }
    }
    format!("; {}", said.join("; "))
}

fn quantile_of<'a>(entries: impl IntoIterator<Item = &'a &'a Entry>, at: f64) -> f64 {
    let mut latencies: Vec<f64> = entries.into_iter().map(|entry| entry.latency_ms()).collect();
    latencies.sort_by(f64::total_cmp);
    quantile(&latencies, at)
}

/// By which part two loads may differ.
const UNEVEN: f64 = 0.02;
const PAIR: &str = "one pool is upgraded beside its twin";

fn passes(up: &Upgraded, alternates: bool, overloaded: Option<String>) -> Check {
    let drains = up.stretch.drains_ms().len();
    match &up.stuck {
        Some(stuck) => {
            let stuck = Wrong { what: stuck.clone(), of_time: true };
            excused(PAIR, Err(stuck), overloaded.as_deref())
        }
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
pub(in crate::gate) fn failures(treated: &[Entry], twin: &[Entry], on: On<'_>) -> Check {
    let mut check = unfailed("no request to the pool fails", treated, on);
    let (sent, failed) =
        (twin.iter().filter(|entry| entry.is_sent()), twin.iter().filter(|entry| entry.is_failed()));
    let (failed, not_sent) = (failed.count(), not_sent(twin));
    if failed > 0 && check.verdict == Word::Fail || not_sent.is_some() && check.verdict == Word::Pass {
        check.verdict = Word::Inconclusive;
    }
    check.found.push_str(&format!("; of the twin {failed} of {}", sent.count()));
    check.found.push_str(&not_sent.unwrap_or_default());
    check
}

/// Two ledgers can be compared only where as many requests were sent, over the same time.
pub(in crate::gate) fn same_load(treated: &[Entry], twin: &[Entry]) -> Check {
    let last = |entries: &[Entry]| entries.iter().map(|entry| entry.scheduled_ms).fold(0.0, f64::max);
    let sent = |entries: &[Entry]| entries.iter().filter(|entry| entry.is_sent()).count() as f64;
    let (own, other) = (sent(treated), sent(twin));
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
