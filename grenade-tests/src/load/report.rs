//! What a load found.

use std::collections::BTreeMap;

use serde::Serialize;

/// Counts while the load runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadProgress {
    /// Requests that came due.
    pub sent: u64,
    /// Of these, answered as they should.
    pub ok: u64,
    /// Of these, failed.
    pub failed: u64,
    /// Of these, not sent in time by the generator.
    pub not_sent: u64,
}

impl LoadProgress {
    /// Requests without an outcome yet.
    pub fn in_flight(&self) -> u64 {
        self.sent.saturating_sub(self.ok + self.failed + self.not_sent)
    }
}

/// Latency in milliseconds, from the scheduled instant to the whole answer; for uploads, beyond their own length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LatencyMs {
    /// Half of the requests took no longer.
    pub p50: f64,
    /// 99 % took no longer.
    pub p99: f64,
    /// 99.9 % took no longer.
    pub p999: f64,
    /// None took longer.
    pub max: f64,
}

/// The result of a load; `sent = ok + failed + not_sent` was checked.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LoadReport {
    /// Requests that came due.
    pub sent: u64,
    /// Of these, answered as they should.
    pub ok: u64,
    /// Of these, failed.
    pub failed: u64,
    /// Of these, not sent in time by the generator: this says nothing of the service.
    pub not_sent: u64,
    /// How long answers took.
    pub latency_ms: LatencyMs,
    /// How many requests failed for which reason.
    pub failures: BTreeMap<String, u64>,
    /// The first ones, in words.
    pub first_failures: Vec<String>,
    /// Good answers by the service version that gave them.
    pub by_version: BTreeMap<u32, u64>,
    /// Good answers by the node that gave them.
    pub by_node: BTreeMap<String, u64>,
    /// Good reads through one version of what another version had written.
    pub read_across: u64,
}
