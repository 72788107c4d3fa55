//! The simulated world below the agents: nodes with their disks, services with their processes, a balancer before each
//! service. The judge is notified of each change at the instant of the change.

mod files;
mod process;
mod rotation;

pub(super) use files::disable_file;

use super::event_log::EventLog;
use super::images::Images;
use super::judge::Facts;
use super::names::Names;
use super::slot::{At, Behaviour, Slot};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::time::Instant;

/// One node's disk.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    /// Its files.
    pub files: BTreeMap<PathBuf, Vec<u8>>,
    /// Nothing can be written.
    pub full: bool,
    /// How long a write takes, in milliseconds.
    pub slow_ms: u64,
    /// Its images of compute releases.
    pub images: Images,
}

/// What there is.
#[derive(Debug)]
pub(super) struct State {
    /// Disks, by node.
    pub disks: Vec<Disk>,
    /// Services on nodes.
    pub slots: BTreeMap<At, Slot>,
    /// How each release behaves.
    pub releases: BTreeMap<String, Behaviour>,
    /// The event log.
    pub log: EventLog,
    /// What the judge needs to know.
    pub facts: Facts,
    /// What a hook prints before it fails.
    pub failure_output: String,
    next: u64,
}

/// The world; clones are handles on the same one.
#[derive(Debug, Clone)]
pub(super) struct Testbed {
    state: Arc<Mutex<State>>,
    began: Instant,
    names: Arc<Names>,
    changed: Arc<Notify>,
}

impl Testbed {
    /// An empty world with so many nodes, that begins now.
    pub(super) fn new(
        names: Names,
        releases: BTreeMap<String, Behaviour>,
        log: EventLog,
        facts: Facts,
    ) -> Self {
        let disks = vec![Disk::default(); names.nodes.len()];
        let (slots, failure_output) = (BTreeMap::new(), String::new());
        let state = State { disks, slots, releases, log, facts, failure_output, next: 0 };
        Self {
            state: Arc::new(Mutex::new(state)),
            began: Instant::now(),
            names: Arc::new(names),
            changed: Arc::default(),
        }
    }

    /// Notified when an upgrade entered another phase, and when the judge has to look at a database.
    pub(super) fn changed(&self) -> &Notify {
        &self.changed
    }

    /// How things are called.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Milliseconds since it began.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// All of it, for a computation.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a line to the event log.
    pub(super) fn log(&self, line: impl AsRef<str>) {
        let now = self.now();
        self.state().log.log(now, line.as_ref());
    }

    /// Changes one service on one node, and looks what that means for its health URL.
    pub(super) fn change<T>(&self, at: At, change: impl FnOnce(&mut Slot, u64) -> T) -> T {
        let now = self.now();
        let mut state = self.state();
        let done = change(state.slots.entry(at).or_default(), now);
        self.look_at(&mut state, at, now);
        done
    }

    /// The lowest version of a service that runs anywhere.
    pub(super) fn lowest(&self, service: usize) -> u32 {
        let now = self.now();
        let state = self.state();
        let of = state.slots.iter().filter(|((of, _), _)| *of == service);
        of.filter_map(|(_, slot)| slot.alive(now)).map(|run| run.is.version).min().unwrap_or(1)
    }

    /// The lowest version of a service that any of its programs is built to answer.
    pub(super) fn lowest_said(&self, service: usize) -> u32 {
        let now = self.now();
        let state = self.state();
        let of = state.slots.iter().filter(|((of, _), _)| *of == service);
        let runs = of.filter_map(|(_, slot)| slot.alive(now));
        runs.map(|run| run.is.says.unwrap_or(run.is.version)).min().unwrap_or(1)
    }

    /// The highest version of a service that runs anywhere.
    pub(super) fn highest(&self, service: usize) -> u32 {
        let now = self.now();
        let state = self.state();
        let of = state.slots.iter().filter(|((of, _), _)| *of == service);
        of.filter_map(|(_, slot)| slot.alive(now)).map(|run| run.is.version).max().unwrap_or(1)
    }
}
