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
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::time::Instant;

/// One node's disk, and what is true of its machine.
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
    /// How often its machine has lost its power.
    power_losses: u32,
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
    /// Nodes whose agent was started again by its supervisor since the auditor saw the last revision.
    pub restarted: Vec<usize>,
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
        let (slots, failure_output, restarted) = (BTreeMap::new(), String::new(), Vec::new());
        let state = State { disks, slots, releases, log, facts, failure_output, restarted, next: 0 };
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

    /// The lowest version of a service that runs anywhere and answers once it is up.
    pub(super) fn lowest(&self, service: usize) -> u32 {
        let now = self.now();
        let state = self.state();
        let of = state.slots.iter().filter(|((of, _), _)| *of == service);
        let runs = of.filter_map(|(_, slot)| slot.alive(now)).filter(|run| run.is.starts);
        runs.map(|run| run.is.version).min().unwrap_or(1)
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

    /// The release of a service with which a node is built again: the lowest of these versions that runs anywhere and answers
    /// once it is up; where none of them does, the lowest that there is. Of several of one version one that works. None that
    /// answers another version: a person sees that, and an instance of it that no upgrade put there is indistinguishable from
    /// one of that version.
    pub(super) fn built_again(&self, service: usize, allowed: &RangeInclusive<u32>) -> Option<String> {
        let now = self.now();
        let state = self.state();
        let of = state.slots.iter().filter(|((of, _), _)| *of == service);
        let runs = of.filter_map(|(_, slot)| slot.alive(now)).filter(|run| run.is.starts);
        let runs = runs.map(|run| (&run.tag, &run.is));
        let prefix = format!("{}-", self.names.services[service]);
        let built = state.releases.iter().filter(|(tag, _)| tag.starts_with(&prefix));
        lowest(runs, allowed).or_else(|| lowest(built, allowed)).cloned()
    }

    /// The release that a person starts in the place of a version outside the window: of the version above it, which was in
    /// rotation there where a person put it back, else as for a node that is built again. Another one that runs may be a
    /// newcomer's, and its rows not filled yet.
    pub(super) fn started_again(
        &self,
        service: usize,
        put_back: u32,
        allowed: &RangeInclusive<u32>,
    ) -> Option<String> {
        let replaced = Some(put_back + 1).filter(|version| allowed.contains(version));
        let release = replaced.and_then(|version| self.built_again(service, &(version..=version)));
        release.or_else(|| self.built_again(service, allowed))
    }
}

fn lowest<'a>(
    releases: impl Iterator<Item = (&'a String, &'a Behaviour)>,
    allowed: &RangeInclusive<u32>,
) -> Option<&'a String> {
    let found = releases.filter(|(_, is)| allowed.contains(&is.version) && is.says.is_none());
    found.min_by_key(|(_, is)| (is.version, **is != is.corrected())).map(|(tag, _)| tag)
}

#[cfg(test)]
mod tests {
    use super::super::judge::ServiceFacts;
    use super::*;

    /// A service with a good release of version 3, and two of version 4.
    fn testbed() -> Testbed {
        let names = Names { services: vec!["pantry".to_owned()], nodes: vec!["n00".to_owned()] };
        let bad = Behaviour { starts: false, ..Behaviour::good(4, 0) };
        let releases = [
            ("pantry-3", Behaviour::good(3, 0)),
            ("pantry-4", bad),
            ("pantry-4-mended", Behaviour::good(4, 0)),
        ];
        let releases = releases.map(|(tag, is)| (tag.to_owned(), is)).into();
        let facts = Facts { services: vec![ServiceFacts::default()], ..Facts::default() };
        Testbed::new(names, releases, EventLog::new(false), facts)
    }

    #[tokio::test(start_paused = true)]
    async fn node_is_built_again_with_what_runs_and_is_allowed() {
        let testbed = testbed();
        let built = |floor, ceiling| testbed.built_again(0, &(floor..=ceiling));
        // The floor of a window that admits all is 1, and no release has that version.
        assert_eq!(built(1, u32::MAX).as_deref(), Some("pantry-3"));
        assert_eq!(built(4, 4).as_deref(), Some("pantry-4-mended"), "of two the one that works");
        assert_eq!(built(5, 5), None);

        testbed.start((0, 0), "pantry-4-mended");
        assert_eq!(built(1, u32::MAX).as_deref(), Some("pantry-4-mended"), "it runs");
        assert_eq!(built(1, 3).as_deref(), Some("pantry-3"), "what runs is not allowed");
    }

    #[tokio::test(start_paused = true)]
    async fn version_put_back_is_replaced_by_the_one_it_replaced() {
        let testbed = testbed();
        testbed.start((0, 0), "pantry-4-mended");
        let started = |put_back, floor| testbed.started_again(0, put_back, &(floor..=4));
        assert_eq!(started(2, 3).as_deref(), Some("pantry-3"), "a newcomer runs another one");
        assert_eq!(started(2, 4).as_deref(), Some("pantry-4-mended"), "the window does not admit it");
        assert_eq!(started(1, 2).as_deref(), Some("pantry-4-mended"), "no release has that version");
    }

    #[tokio::test(start_paused = true)]
    async fn running_release_that_never_answers_is_not_chosen() {
        let testbed = testbed();
        testbed.start((0, 0), "pantry-4");
        let built = |floor, ceiling| testbed.built_again(0, &(floor..=ceiling));
        assert_eq!(built(1, u32::MAX).as_deref(), Some("pantry-3"));
        assert_eq!(built(4, 4).as_deref(), Some("pantry-4-mended"), "of two the one that works");
    }

    #[tokio::test(start_paused = true)]
    async fn release_that_never_answers_is_no_storage() {
        for (tag, lowest) in [("pantry-3", 3), ("pantry-4", 1), ("pantry-4-mended", 4)] {
            let testbed = testbed();
            testbed.start((0, 0), tag);
            assert_eq!(testbed.lowest(0), lowest, "{tag}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn release_that_answers_another_version_is_not_chosen() {
        let testbed = testbed();
        let lies = Behaviour { says: Some(3), ..Behaviour::good(4, 0) };
        testbed.state().releases.insert("pantry-4".to_owned(), lies);
        testbed.start((0, 0), "pantry-4");
        let built = |floor, ceiling| testbed.built_again(0, &(floor..=ceiling));
        assert_eq!(built(3, 4).as_deref(), Some("pantry-3"), "what runs answers another version");
        assert_eq!(built(4, 4).as_deref(), Some("pantry-4-mended"), "of two the one that answers its own");
    }
}
