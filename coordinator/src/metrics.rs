//! What is counted, in OpenMetrics text. What a view has (spread, phases) is read from it when asked, so
//! that a turn pays nothing for it.

mod groups;
mod streams;

use crate::report::View;
use groups::Groups;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::time::Duration;
use streams::Streams;
use tidegate_planner::Reason;
use tidegate_proto::UpgradeId;

/// The counts of one coordinator.
pub struct Metrics {
    /// 1 while this coordinator leads.
    pub leader: Gauge,
    turns: Counter,
    turn_seconds: Histogram,
    commits: Family<Committed, Counter>,
    waiting: Family<WaitsFor, Gauge>,
    spread: Family<AtVersion, Gauge>,
    silent: Family<OfService, Gauge>,
    unknown: Family<OfService, Gauge>,
    in_service: Family<OfService, Gauge>,
    phase: Family<InPhase, Gauge>,
    groups: Groups,
    streams: Streams,
    revision: Gauge,
    unreadable: Gauge,
    registry: Registry,
}

/// What came of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Outcome {
    /// Carried out.
    Done,
    /// A precondition did not hold.
    Conflict,
    /// The store could not be asked.
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Committed {
    outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WaitsFor {
    upgrade: String,
    kind: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AtVersion {
    service: String,
    version: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfService {
    service: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InPhase {
    upgrade: String,
    service: String,
    phase: String,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Counts that begin at nothing.
    pub fn new() -> Self {
        // A turn over a steady fleet takes microseconds; one that commits takes what the store's disk takes.
        let bounds = [0.000_1, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0];
        let mut metrics = Self {
            leader: Gauge::default(),
            turns: Counter::default(),
            turn_seconds: Histogram::new(bounds),
            commits: Family::default(),
            waiting: Family::default(),
            spread: Family::default(),
            silent: Family::default(),
            unknown: Family::default(),
            in_service: Family::default(),
            phase: Family::default(),
            groups: Groups::default(),
            streams: Streams::default(),
            revision: Gauge::default(),
            unreadable: Gauge::default(),
            registry: Registry::with_prefix("tidegate"),
        };
        metrics.register();
        metrics
    }

    fn register(&mut self) {
        let r = &mut self.registry;
        r.register("leader", "1 while this coordinator leads", self.leader.clone());
        r.register("turns", "Turns taken", self.turns.clone());
        r.register("turn_seconds", "How long a turn took, commits included", self.turn_seconds.clone());
        r.register("commits", "Transactions of the leader, by outcome", self.commits.clone());
        r.register("waiting", "Reasons for which an upgrade waits, by kind", self.waiting.clone());
        r.register("instances", "Instances known to be at a version", self.spread.clone());
        r.register("silent_instances", "Instances in the inventory that do not report", self.silent.clone());
        r.register("unknown_instances", "Instances that report no known version", self.unknown.clone());
        r.register("in_service_instances", "Instances in rotation and healthy", self.in_service.clone());
        r.register("upgrade_phase", "1 for the phase that an upgrade is in", self.phase.clone());
        r.register("seen_revision", "The store's revision that this coordinator sees", self.revision.clone());
        r.register("unreadable_records", "Records of the store that cannot be read", self.unreadable.clone());
        self.groups.register(r);
        self.streams.register(r);
    }

    /// A turn was taken.
    pub fn turned(&self, took: Duration) {
        self.turns.inc();
        self.turn_seconds.observe(took.as_secs_f64());
    }

    /// A commit was tried.
    pub fn committed(&self, outcome: Outcome) {
        self.commits.get_or_create(&Committed { outcome }).inc();
    }

    /// What the upgrades wait for, after a turn.
    pub fn waits_for(&self, reasons: &BTreeMap<UpgradeId, Vec<Reason>>) {
        self.waiting.clear();
        for (id, reasons) in reasons {
            for reason in reasons {
                let label = WaitsFor { upgrade: id.to_string(), kind: reason.kind().to_owned() };
                self.waiting.get_or_create(&label).inc();
            }
        }
    }

    /// Everything, as OpenMetrics text.
    pub fn text(&self, view: &View) -> Result<String, std::fmt::Error> {
        self.read(view);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    fn read(&self, view: &View) {
        self.revision.set(view.fleet.revision().0);
        self.unreadable.set(count(view.fleet.unreadable().count()));
        self.spread.clear();
        for service in view.fleet.services() {
            let of = OfService { service: service.name().to_string() };
            for (version, instances) in &service.spread().by_version {
                let at = AtVersion { service: of.service.clone(), version: version.get() };
                self.spread.get_or_create(&at).set(count(*instances));
            }
            self.silent.get_or_create(&of).set(count(service.spread().silent));
            self.unknown.get_or_create(&of).set(count(service.spread().unknown));
            self.in_service.get_or_create(&of).set(count(service.in_service()));
        }
        self.phase.clear();
        for (id, upgrade) in view.fleet.active_upgrades() {
            let phase = if upgrade.paused.is_some() { "paused" } else { upgrade.phase.name().word() };
            let label = InPhase {
                upgrade: id.to_string(),
                service: upgrade.spec.service.to_string(),
                phase: phase.to_owned(),
            };
            self.phase.get_or_create(&label).set(1);
        }
        self.groups.read(&view.fleet);
        self.streams.read(&view.fleet);
    }
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
