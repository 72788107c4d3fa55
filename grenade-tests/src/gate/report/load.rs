//! What was counted of one load, with its failures by kind and the first of them in full.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::gate::host::HostSeen;
use crate::gate::mixed::Memory;
use crate::gate::quantile::quantile;
use crate::gate::report::mix_name;
use crate::gate::verdict::words;
use crate::gate::written::Arrangement;
use crate::load::entry::Entry;

/// How many failures are reported in full.
const FIRST: usize = 10;
/// How many kinds of failures are shown in text and HTML: of a foreign program, each reason may be a kind of its own.
const MOST_KINDS: usize = 10;

/// What was counted of one load.
#[derive(Debug, Clone, Serialize)]
pub struct Load {
    /// The frozen mix; absent: the upgrade.
    pub arrangement: Option<Arrangement>,
    /// Requests that came due.
    pub sent: usize,
    /// Of these, failed.
    pub failed: usize,
    /// Of these, not sent in time by the generator.
    pub not_sent: usize,
    /// Latency in milliseconds, from the scheduled instant, of those that did not fail.
    pub p50_ms: f64,
    /// 99 % were no slower.
    pub p99_ms: f64,
    /// None was slower.
    pub max_ms: f64,
    /// How many requests failed, by kind.
    pub failures: BTreeMap<String, u64>,
    /// The first failures, in words, in the order in which they were due.
    pub first_failures: Vec<String>,
    /// The same in full, with the columns of the ledger.
    pub first_failed: Vec<Entry>,
    /// The resident memory of each instance before and after, in KiB; none: it was not measured.
    pub memory: Vec<Memory>,
    /// The machine.
    pub host: HostSeen,
}

impl Load {
    /// What it is called in the report.
    pub(super) fn name(&self) -> String {
        self.arrangement.map_or("upgrade".to_owned(), mix_name)
    }

    /// From a ledger.
    pub fn of(arrangement: Option<Arrangement>, entries: &[Entry], host: HostSeen) -> Self {
        let mut latencies: Vec<f64> = entries.iter().filter(|e| e.is_ok()).map(Entry::latency_ms).collect();
        latencies.sort_by(f64::total_cmp);
        let mut failed: Vec<&Entry> = entries.iter().filter(|entry| entry.is_failed()).collect();
        failed.sort_by(|a, b| a.scheduled_ms.total_cmp(&b.scheduled_ms));
        let mut failures = BTreeMap::new();
        for entry in &failed {
            *failures.entry(entry.failure().to_owned()).or_default() += 1;
        }
        let first = &failed[..failed.len().min(FIRST)];
        Self {
            arrangement,
            sent: entries.len(),
            failed: failed.len(),
            not_sent: entries.iter().filter(|entry| !entry.is_sent()).count(),
            p50_ms: quantile(&latencies, 0.5),
            p99_ms: quantile(&latencies, 0.99),
            max_ms: latencies.last().copied().unwrap_or_default(),
            failures,
            first_failures: first.iter().map(|entry| words(entry)).collect(),
            first_failed: first.iter().map(|entry| (*entry).clone()).collect(),
            memory: Vec::new(),
            host,
        }
    }

    /// The kinds of its failures with their counts, the most frequent first; what is rare is counted together.
    pub fn by_kind(&self) -> Vec<(String, u64)> {
        let mut kinds: Vec<(String, u64)> =
            self.failures.iter().map(|(kind, count)| (kind.clone(), *count)).collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        if kinds.len() > MOST_KINDS {
            let rest = kinds.split_off(MOST_KINDS - 1);
            let count = rest.iter().map(|(_, count)| count).sum();
            kinds.push((format!("{} other kinds", rest.len()), count));
        }
        kinds
    }
}
