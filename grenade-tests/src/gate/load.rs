//! The load of a fleet: the steps of the gate file, its command, or both, on one clock.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::time::Instant;

use crate::gate::by_command::{ByCommand, Zero};
use crate::gate::file::Gate;
use crate::gate::host::{HostSeen, Machine};
use crate::gate::launcher::Places;
use crate::gate::watch::Change;
use crate::load::entry::{self, Entry};
use crate::load::plan::Pace;
use crate::load::requests::{Requests, Target, Versions};
use crate::load::sweep::Sweep;
use crate::load::tally::Tally;
use crate::load::{Load, LoadHandle, LoadReport, Watched};
use crate::world::World;

/// The most objects of a kind that are read again afterwards.
pub(super) const SWEEP: usize = 5_000;
/// The most objects of a kind that are left alone from the upgrade's start until they are read again.
pub(super) const SET_ASIDE: usize = 100;

/// A load that runs.
pub struct FleetLoad {
    zero: Zero,
    machine: Machine,
    steps: Option<Steps>,
    command: Option<ByCommand>,
}

struct Steps {
    handle: LoadHandle,
    requests: Arc<Requests>,
    ledger: PathBuf,
}

/// What was sent.
pub struct Sent {
    /// The sums.
    pub report: LoadReport,
    /// The ledger: what the steps sent, and then what the command sent.
    pub entries: Vec<Entry>,
    /// The machine meanwhile.
    pub host: HostSeen,
    /// When the command sent requests, in milliseconds since the load's start, in order; absent: there is no command.
    pub by_command: Option<Vec<f64>>,
    /// The requests of the steps, whose objects may be read again; absent: there are no steps.
    requests: Option<Arc<Requests>>,
}

impl FleetLoad {
    /// Begins to send: to `at`, and the steps of companions to theirs.
    ///
    /// # Errors
    /// When a ledger cannot be written or the command cannot be started.
    pub fn start(
        world: &World,
        gate: &Gate,
        places: &Places,
        (at, beside): (SocketAddr, BTreeMap<String, Target>),
        versions: &Versions,
    ) -> anyhow::Result<Self> {
        let (machine, zero) = (Machine::watch(), Zero::now());
        let steps = match &gate.script {
            None => None,
            Some(script) => {
                let target = Target::Balancer(at, versions.clone());
                let requests = Arc::new(Requests::beside(Arc::clone(script), target, beside));
                let ledger = world.path("requests.csv");
                let pace =
                    Pace { rate: gate.pace.rate, seed: gate.pace.seed, jitter: None, ledger: ledger.clone() };
                let handle = Load::at(pace, Arc::clone(&requests), zero.instant)?;
                Some(Steps { handle, requests, ledger })
            }
        };
        let command = match &gate.load_command {
            None => None,
            Some(command) => {
                Some(ByCommand::start(world, gate, command, places.clone(), at, zero, "command")?)
            }
        };
        Ok(Self { zero, machine, steps, command })
    }

    /// The instant from which ledgers count.
    pub fn began(&self) -> Instant {
        self.zero.instant
    }

    /// What the steps count, to be watched.
    pub fn watched(&self) -> Watched {
        self.steps.as_ref().map(|steps| steps.handle.watched()).unwrap_or_default()
    }

    /// Sets objects of the steps aside that no request touches until they are read again.
    pub fn set_aside(&self) {
        if let Some(steps) = &self.steps {
            steps.requests.set_aside(SET_ASIDE);
        }
    }

    /// An error if the command has ended by itself.
    ///
    /// # Errors
    /// How it ended.
    pub fn must_run(&mut self) -> anyhow::Result<()> {
        self.command.as_mut().map_or(Ok(()), ByCommand::must_run)
    }

    /// Sends nothing more, waits for what is in flight, and accounts for everything.
    ///
    /// # Errors
    /// When a ledger is wrong or could not be written.
    pub async fn stop(self, gate: &Gate, changes: impl Fn() -> Vec<Change>) -> anyhow::Result<Sent> {
        let Self { machine, steps, command, .. } = self;
        let command = match command {
            None => None,
            Some(command) => Some(with_versions(command.stop(gate).await?, &changes())),
        };
        let (mut own, mut requests) = (None, None);
        if let Some(steps) = steps {
            let report = steps.handle.stop().await?;
            own = Some((report, entry::read(&steps.ledger)?));
            requests = Some(steps.requests);
        }
        let mut host = machine.seen(own.as_ref().map_or(&[], |(_, entries)| entries));
        let Some(command) = command else {
            let (report, entries) = own.unwrap_or_default();
            return Ok(Sent { report, entries, host, by_command: None, requests });
        };
        host = host.worse(machine.seen(&command));
        let sent = command.iter().filter(|entry| entry.is_sent()).map(|entry| entry.sent_ms);
        let mut sent: Vec<f64> = sent.collect();
        sent.sort_by(f64::total_cmp);
        let mut entries = own.map(|(_, entries)| entries).unwrap_or_default();
        entries.extend(command);
        let mut tally = Tally::default();
        entries.iter().for_each(|entry| tally.add(entry));
        Ok(Sent { report: tally.finish(), entries, host, by_command: Some(sent), requests })
    }
}

impl Sent {
    /// Reads every object that the steps left; `None`: there are no steps.
    pub async fn sweep(&self) -> Option<Sweep> {
        match &self.requests {
            Some(requests) => Some(requests.sweep(SWEEP).await),
            None => None,
        }
    }

    /// The longest time between these instants in which the command sent nothing; `None`: there is no command.
    pub fn silence(&self, (began, ended): (f64, f64)) -> Option<(f64, f64)> {
        Some(silence(self.by_command.as_ref()?, began, ended))
    }
}

/// The longest stretch from `began` to `ended` without one of these instants, which are in order.
fn silence(sent: &[f64], began: f64, ended: f64) -> (f64, f64) {
    let within = sent.iter().copied().filter(|ms| (began..=ended).contains(ms));
    let mut longest = (began, began);
    let mut last = began;
    for ms in within.chain([ended]) {
        if ms - last > longest.1 - longest.0 {
            longest = (last, ms);
        }
        last = ms;
    }
    longest
}

/// Where the version that answered is empty, it is the one that the node was last seen at.
fn with_versions(mut entries: Vec<Entry>, changes: &[Change]) -> Vec<Entry> {
    for entry in entries.iter_mut().filter(|entry| entry.version.is_none() && !entry.node.is_empty()) {
        let before =
            changes.iter().filter(|change| change.node == entry.node && change.at_ms <= entry.done_ms);
        entry.version = before.filter_map(|change| change.version).next_back();
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::entry::good;

    #[test]
    fn longest_silence_counts_within_the_upgrade() {
        let sent = [100.0, 1_100.0, 1_200.0, 2_900.0, 9_000.0];
        assert_eq!(silence(&sent, 1_000.0, 3_000.0), (1_200.0, 2_900.0));
        assert_eq!(silence(&sent, 3_000.0, 5_000.0), (3_000.0, 5_000.0));
    }

    #[test]
    fn empty_version_is_the_one_that_the_node_was_last_seen_at() {
        let change = |at_ms, version| Change { at_ms, node: "node-1".to_owned(), version, in_rotation: true };
        let changes = [change(0.0, Some(1)), change(500.0, None), change(900.0, Some(2))];
        let entry = |node: &str, at| Entry { version: None, ..good(0, node, at, 1.0) };
        let mut known = entry("node-1", 950.0);
        known.version = Some(1);
        let entries = vec![entry("node-1", 600.0), entry("node-1", 950.0), known, entry("", 950.0)];
        let versions: Vec<_> = with_versions(entries, &changes).iter().map(|entry| entry.version).collect();
        assert_eq!(versions, [Some(1), Some(2), Some(1), None]);
    }
}
