//! The sums over a ledger.

use hdrhistogram::Histogram;

use crate::load::entry::Entry;
use crate::load::report::{LatencyMs, LoadReport};

/// Latencies above two minutes are all alike.
const SLOWEST_US: u64 = 120_000_000;
/// How many failures are kept in words.
const FIRST: usize = 20;

/// Sums while entries are added.
pub struct Tally {
    latencies: Histogram<u64>,
    report: LoadReport,
}

impl Default for Tally {
    fn default() -> Self {
        let latencies = Histogram::new_with_bounds(1, SLOWEST_US, 3)
            .expect("1 below 120,000,000 at 3 digits are valid bounds of a histogram");
        Self { latencies, report: LoadReport::default() }
    }
}

impl Tally {
    /// One more.
    pub fn add(&mut self, entry: &Entry) {
        let report = &mut self.report;
        if entry.is_ok() {
            self.latencies.saturating_record(((entry.latency_ms() * 1e3) as u64).clamp(1, SLOWEST_US));
            report.ok += 1;
            report.read_across += u64::from(entry.is_across());
            *report.by_version.entry(entry.version.unwrap_or_default()).or_default() += 1;
            *report.by_node.entry(entry.node.clone()).or_default() += 1;
            return;
        }
        if !entry.is_sent() {
            report.not_sent += 1;
            return;
        }
        report.failed += 1;
        *report.failures.entry(entry.failure().to_owned()).or_default() += 1;
        if report.first_failures.len() < FIRST {
            report.first_failures.push(format!("{} {}: {}", entry.kind, entry.seq, entry.reason));
        }
    }

    /// The sums.
    pub fn finish(mut self) -> LoadReport {
        let at = |quantile| self.latencies.value_at_quantile(quantile) as f64 / 1e3;
        if !self.latencies.is_empty() {
            let max = self.latencies.max() as f64 / 1e3;
            self.report.latency_ms = LatencyMs { p50: at(0.5), p99: at(0.99), p999: at(0.999), max };
        }
        self.report.sent = self.report.ok + self.report.failed + self.report.not_sent;
        self.report
    }
}
