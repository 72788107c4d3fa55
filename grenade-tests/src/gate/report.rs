//! What a gate found, in four forms: text for a person, JSON, JUnit XML for a build, and one HTML file with pictures.

pub mod chart;
pub mod html;
pub mod junit;
pub mod progress;
pub mod text;

use serde::Serialize;

use crate::gate::file::Gate;
use crate::gate::host::HostSeen;
use crate::gate::mixed::Mixed;
use crate::gate::upgrade::{Survived, Upgraded};
use crate::gate::verdict::{TagVerdict, Word, words, worst};
use crate::gate::watch::Change;
use crate::gate::written::{Arrangement, TurningPoint};
use crate::load::entry::Entry;

/// The form of the JSON; raised when a field changes its meaning.
const FORM: u32 = 1;
/// How many failures are told in full.
const FIRST: usize = 10;

/// The whole report.
#[derive(Debug, Clone, Serialize)]
pub struct GateReport {
    /// The form of this document.
    pub form: u32,
    /// The gate's name.
    pub gate: String,
    /// The service.
    pub service: String,
    /// The base version.
    pub from: u32,
    /// The target version.
    pub to: u32,
    /// The worst verdict of all tags.
    pub verdict: Word,
    /// What is said of each tag.
    pub tags: Vec<TagVerdict>,
    /// Each frozen mix.
    pub mixes: Vec<Load>,
    /// Each upgrade that was rolled back, with where it turned.
    pub rollbacks: Vec<(TurningPoint, UpgradeReport)>,
    /// The upgrade.
    pub upgrade: UpgradeReport,
    /// From the first command to the verdict, in seconds.
    pub seconds: f64,
}

/// What was counted of one load.
#[derive(Debug, Clone, Serialize)]
pub struct Load {
    /// The frozen mix; absent: the upgrade.
    pub arrangement: Option<Arrangement>,
    /// Requests that came due.
    pub sent: usize,
    /// Of these, failed.
    pub failed: usize,
    /// Latency in milliseconds, from the scheduled instant, of those that did not fail.
    pub p50_ms: f64,
    /// 99 % were no slower.
    pub p99_ms: f64,
    /// None was slower.
    pub max_ms: f64,
    /// The first failures, in words.
    pub first_failures: Vec<String>,
    /// The machine.
    pub host: HostSeen,
}

impl Load {
    fn name(&self) -> String {
        self.arrangement.map_or("upgrade".to_owned(), |mix| format!("mix {}+{}", mix.base, mix.target))
    }

    /// From a ledger.
    pub fn of(arrangement: Option<Arrangement>, entries: &[Entry], host: HostSeen) -> Self {
        let mut latencies: Vec<f64> = entries.iter().filter(|e| e.is_ok()).map(Entry::latency_ms).collect();
        latencies.sort_by(f64::total_cmp);
        let failures = entries.iter().filter(|entry| !entry.is_ok());
        Self {
            arrangement,
            sent: entries.len(),
            failed: failures.clone().count(),
            p50_ms: quantile(&latencies, 0.5),
            p99_ms: quantile(&latencies, 0.99),
            max_ms: latencies.last().copied().unwrap_or_default(),
            first_failures: failures.take(FIRST).map(words).collect(),
            host,
        }
    }
}

/// Of sorted values; of none, 0.
pub fn quantile(sorted: &[f64], at: f64) -> f64 {
    let place = ((sorted.len() as f64 * at).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(place).copied().unwrap_or_default()
}

/// The upgrade.
#[derive(Debug, Clone, Serialize)]
pub struct UpgradeReport {
    /// How it ended.
    pub ended: String,
    /// Why, where it did not complete.
    pub because: Option<String>,
    /// Each phase, with seconds.
    pub phases: Vec<(String, f64)>,
    /// When it began and ended, in milliseconds since the load's start.
    pub span_ms: (f64, f64),
    /// Its load.
    pub load: Load,
    /// What was seen of the instances.
    pub changes: Vec<Change>,
    /// The survival checks.
    pub survival: Vec<Survived>,
    /// Objects of the load that were read again afterwards.
    pub read_again: usize,
}

impl GateReport {
    /// Of what was seen and judged.
    pub fn of(
        gate: &Gate,
        mixed: &[Mixed],
        rollbacks: &[(TurningPoint, Upgraded)],
        up: &Upgraded,
        tags: Vec<TagVerdict>,
        seconds: f64,
    ) -> Self {
        let mix = |mixed: &Mixed| Load::of(Some(mixed.arrangement), &mixed.entries, mixed.host);
        Self {
            form: FORM,
            gate: gate.name.clone(),
            service: gate.service.name.to_string(),
            from: gate.service.base.number.get(),
            to: gate.service.target.number.get(),
            verdict: worst(tags.iter().map(|tag| tag.verdict)),
            tags,
            mixes: mixed.iter().map(mix).collect(),
            rollbacks: rollbacks.iter().map(|(point, up)| (*point, UpgradeReport::of(up))).collect(),
            upgrade: UpgradeReport::of(up),
            seconds,
        }
    }

    /// Every load with its name.
    pub fn loads(&self) -> Vec<(String, &Load)> {
        let mixes = self.mixes.iter().map(|load| (load.name(), load));
        let rollbacks =
            self.rollbacks.iter().map(|(point, up)| (format!("back from {}", point.word()), &up.load));
        mixes.chain(rollbacks).chain(std::iter::once(("upgrade".to_owned(), &self.upgrade.load))).collect()
    }
}

impl UpgradeReport {
    fn of(up: &Upgraded) -> Self {
        Self {
            ended: up.ended.word.clone(),
            because: up.ended.because.clone(),
            phases: up.ended.phases.clone(),
            span_ms: up.span_ms,
            load: Load::of(None, &up.entries, up.host),
            changes: up.changes.clone(),
            survival: up.survival.clone(),
            read_again: up.sweep.0,
        }
    }
}
