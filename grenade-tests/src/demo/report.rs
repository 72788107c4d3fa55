//! What a demo found: `report.json`. Only facts that were counted or seen.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde::Serialize;

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every instance was seen at the new version.
    Completed,
    /// Every instance was seen back at the old version.
    RolledBack,
    /// Neither.
    Failed,
}

impl Outcome {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::RolledBack => "rolled-back",
            Self::Failed => "failed",
        }
    }

    /// What may be said after this last phase and this spread: success only from what was seen.
    pub fn of(phase: &str, after: &VersionCounts, instances: u32) -> Self {
        let all_at = |version| *after == VersionCounts::from([(version, instances)]);
        match phase {
            "completed" if all_at(2) => Self::Completed,
            "rolled-back" if all_at(1) => Self::RolledBack,
            _ => Self::Failed,
        }
    }
}

/// How many instances at each version.
pub type VersionCounts = BTreeMap<u32, u32>;

/// The whole report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DemoReport {
    /// How it ended.
    pub outcome: Outcome,
    /// How many instances.
    pub instances: u32,
    /// How many waves were drawn.
    pub waves: u32,
    /// What became of the requests.
    pub requests: Requests,
    /// How long answers took.
    pub latency_ms: Latency,
    /// Each phase that was left, in order.
    pub phases: Vec<PhaseSeconds>,
    /// The spread.
    pub spread: BeforeAfter,
    /// What it must take at the least.
    pub ideal_seconds: f64,
    /// What it took, from the operator's command to the end.
    pub actual_seconds: f64,
    /// The certificate on which contract ran.
    pub certificate: Option<String>,
}

/// Requests; `sent = ok + failed + not_sent`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// That came due.
    pub sent: u64,
    /// Answered as they should.
    pub ok: u64,
    /// Not.
    pub failed: u64,
    /// Not sent in time by the load itself.
    pub not_sent: u64,
}

/// Milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Half took no longer.
    pub p50: f64,
    /// 99 % took no longer.
    pub p99: f64,
    /// 99.9 % took no longer.
    pub p999: f64,
}

/// One phase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PhaseSeconds {
    /// Its name.
    pub phase: String,
    /// How long it took, as the coordinator counted.
    pub seconds: f64,
}

/// The spread before the upgrade and after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BeforeAfter {
    /// Before.
    pub before: VersionCounts,
    /// After.
    pub after: VersionCounts,
}

impl DemoReport {
    /// Of a run that came to no verdict: nothing is claimed but that it failed.
    pub fn of_nothing(instances: u32) -> Self {
        Self {
            outcome: Outcome::Failed,
            instances,
            waves: 0,
            requests: Requests::default(),
            latency_ms: Latency::default(),
            phases: Vec::new(),
            spread: BeforeAfter::default(),
            ideal_seconds: 0.0,
            actual_seconds: 0.0,
            certificate: None,
        }
    }

    /// Whether it ended as it should, and every request was sent and answered.
    pub fn is_good(&self, called_for: Outcome) -> bool {
        self.outcome == called_for && self.requests.failed == 0 && self.requests.not_sent == 0
    }

    /// Writes it; the file is there whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let beside = path.with_extension("json.new");
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        std::fs::write(&beside, text)?;
        std::fs::rename(&beside, path)
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, VersionCounts};

    #[test]
    fn success_is_said_of_what_was_seen_only() {
        let counts = |pairs: &[(u32, u32)]| pairs.iter().copied().collect::<VersionCounts>();
        assert_eq!(Outcome::of("completed", &counts(&[(2, 6)]), 6), Outcome::Completed);
        assert_eq!(Outcome::of("rolled-back", &counts(&[(1, 6)]), 6), Outcome::RolledBack);
        for (phase, after) in [
            ("completed", counts(&[(1, 1), (2, 5)])),
            ("completed", counts(&[(2, 5)])),
            ("completed", counts(&[])),
            ("rolled-back", counts(&[(2, 6)])),
            ("failed", counts(&[(1, 6)])),
            ("roll", counts(&[(2, 6)])),
        ] {
            assert_eq!(Outcome::of(phase, &after, 6), Outcome::Failed, "{phase} {after:?}");
        }
    }
}
