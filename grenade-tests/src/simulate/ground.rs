//! The simulated world below the agents: nodes with their disks, services with their processes, a balancer before each
//! service. Everything that changes is told to the judge in the instant in which it changes.

use super::images::Images;
use super::judge::Facts;
use super::slot::{At, Behaviour, Cause, HookRun, Running, Slot};
use super::story::Story;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The balancer's checks until it takes an instance out, or in.
const CHECKS: u32 = 2;

/// How long a supervisor waits before it starts a service again, in milliseconds.
const RESTARTS_AFTER: u64 = 4_000;

/// What the disable-file of an agent begins with.
const BY_AGENT: &[u8] = b"put by tidegate-agent";

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
    /// The story.
    pub story: Story,
    /// What the judge needs to know.
    pub facts: Facts,
    next: u64,
}

/// The world; clones are handles on the same one.
#[derive(Debug, Clone)]
pub(super) struct Ground {
    state: Arc<Mutex<State>>,
    began: Instant,
    names: Arc<Names>,
    changed: Arc<Notify>,
}

/// How things are called.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Services, by place.
    pub services: Vec<String>,
    /// Nodes, by place.
    pub nodes: Vec<String>,
}

impl Names {
    /// The name of an instance.
    pub(super) fn instance(&self, (service, node): At) -> String {
        format!("{}/{}", self.services[service], self.nodes[node])
    }

    /// Which service is called so.
    pub(super) fn service(&self, name: &str) -> Option<usize> {
        self.services.iter().position(|service| service == name)
    }

    /// Which node is called so.
    pub(super) fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node == name)
    }
}

/// Where the disable-file of a service lies on each node.
pub(super) fn disable_file(service: &str) -> PathBuf {
    Path::new("/run").join(format!("{service}.disable"))
}

impl Ground {
    /// An empty world with so many nodes, that begins now.
    pub(super) fn new(
        names: Names,
        releases: BTreeMap<String, Behaviour>,
        story: Story,
        facts: Facts,
    ) -> Self {
        let disks = vec![Disk::default(); names.nodes.len()];
        let state = State { disks, slots: BTreeMap::new(), releases, story, facts, next: 0 };
        Self {
            state: Arc::new(Mutex::new(state)),
            began: Instant::now(),
            names: Arc::new(names),
            changed: Arc::default(),
        }
    }

    /// Told when an upgrade entered another phase.
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

    /// One more line of the story.
    pub(super) fn tell(&self, line: impl AsRef<str>) {
        let now = self.now();
        self.state().story.tell(now, line.as_ref());
    }

    /// Changes one service on one node, and looks what that means for its health URL.
    pub(super) fn change<T>(&self, at: At, change: impl FnOnce(&mut Slot, u64) -> T) -> T {
        let now = self.now();
        let mut state = self.state();
        let done = change(state.slots.entry(at).or_default(), now);
        self.look_at(&mut state, at, now, None);
        done
    }

    /// A process begins.
    pub(super) fn start(&self, at: At, tag: &str) -> i32 {
        let now = self.now();
        let mut state = self.state();
        state.next += 1;
        let pid = i32::try_from(state.next).unwrap_or(i32::MAX) + 1000;
        let Some(is) = state.releases.get(tag).cloned() else { return pid };
        let slot = state.slots.entry(at).or_default();
        let still = slot.alive(now).map(|run| run.tag.clone());
        slot.running = Some(Running { tag: tag.to_owned(), is, since: now, pid });
        slot.last = Some(tag.to_owned());
        let name = self.names.instance(at);
        state.story.tell(now, &format!("{name} starts {tag}"));
        if let Some(still) = still {
            state.facts.breach(now, 5, format!("{name} was started at {tag} while {still} ran"));
        }
        self.look_at(&mut state, at, now, None);
        pid
    }

    /// The lowest version of a service that runs anywhere.
    pub(super) fn lowest(&self, service: usize) -> u32 {
        let now = self.now();
        let state = self.state();
        let of = state.slots.iter().filter(|((of, _), _)| *of == service);
        of.filter_map(|(_, slot)| slot.alive(now)).map(|run| run.is.version).min().unwrap_or(1)
    }

    /// The highest version of a service that runs anywhere.
    pub(super) fn highest(&self, service: usize) -> u32 {
        let now = self.now();
        let state = self.state();
        let of = state.slots.iter().filter(|((of, _), _)| *of == service);
        of.filter_map(|(_, slot)| slot.alive(now)).map(|run| run.is.version).max().unwrap_or(1)
    }

    /// A release behaves from its next start on as it should.
    pub(super) fn mend(&self, tag: &str) {
        self.tell(format!("{tag} is mended"));
        if let Some(is) = self.state().releases.get_mut(tag) {
            *is = is.mended();
        }
    }

    /// Every release of a service behaves as it should, those that run included: what was wrong with their configuration is
    /// corrected where they run.
    pub(super) fn mend_all(&self, service: usize) {
        self.tell(format!("every release of {} is mended", self.names.services[service]));
        let now = self.now();
        let mut state = self.state();
        let State { releases, slots, .. } = &mut *state;
        let name = format!("{}-", self.names.services[service]);
        releases.iter_mut().filter(|(tag, _)| tag.starts_with(&name)).for_each(|(_, is)| *is = is.mended());
        for (_, slot) in slots.iter_mut().filter(|((of, _), _)| *of == service) {
            if slot.alive(now).is_some()
                && let Some(run) = &mut slot.running
            {
                run.is = run.is.mended();
            }
        }
    }

    /// A process ends because its agent wants it to.
    pub(super) fn stop(&self, at: At) {
        let now = self.now();
        let mut state = self.state();
        let slot = state.slots.entry(at).or_default();
        let (in_flight, hidden_at, ran) = (slot.in_flight(now), slot.hidden_at, slot.alive(now).is_some());
        let exposed = slot.serves || slot.server.up;
        slot.running = None;
        let name = self.names.instance(at);
        state.story.tell(now, &format!("{name} stops"));
        if ran && (in_flight > 0 || exposed) {
            state.facts.stopped_at_work(now, at, hidden_at, exposed, &name);
        }
        self.look_at(&mut state, at, now, Some("stop"));
    }

    /// A process ends by itself.
    pub(super) fn crash(&self, at: At) {
        self.tell(format!("{} crashes", self.names.instance(at)));
        self.change(at, |slot, now| {
            if let Some(run) = &mut slot.running {
                run.is.crashes_after = Some(now - run.since);
            }
        });
    }

    /// A node loses its power: nothing of it is left.
    pub(super) fn loses_power(&self, at: At) {
        self.tell(format!("{} loses its power", self.names.instance(at)));
        self.state().disks[at.1].images.lose_power();
        self.change(at, |slot, _| {
            slot.running = None;
            let begun = std::mem::take(&mut slot.hooks).into_keys();
            slot.booted.extend(begun.chain(std::mem::take(&mut slot.ended).into_keys()));
        });
    }

    /// A node is back: what its own supervisor starts is started, where the window admits it, as a unit with `tidegate-agent
    /// admit` does.
    pub(super) fn boots(&self, at: At) {
        let starts = {
            let state = self.state();
            let slot = state.slots.get(&at).filter(|slot| slot.supervised && slot.running.is_none());
            let tag = slot.and_then(|slot| slot.last.clone());
            let version = tag.as_ref().and_then(|tag| state.releases.get(tag)).map(|is| is.version);
            let window = state.facts.services.get(at.0).and_then(|service| service.windows.last().copied());
            let admits = |version| window.is_none_or(|(_, floor, top)| floor <= version && version <= top);
            tag.filter(|_| version.is_some_and(admits))
        };
        if let Some(tag) = starts {
            self.start(at, &tag);
        }
    }

    /// What ended by itself is started again by its own supervisor.
    fn supervise(&self) {
        let now = self.now();
        let ended: Vec<(At, String)> = {
            let state = self.state();
            let over = |slot: &Slot| {
                let run = slot.running.as_ref().filter(|_| slot.supervised && slot.hooks.is_empty())?;
                let ended = run.since + run.is.crashes_after?;
                (now >= ended + RESTARTS_AFTER).then(|| run.tag.clone())
            };
            state.slots.iter().filter_map(|(at, slot)| Some((*at, over(slot)?))).collect()
        };
        for (at, tag) in ended {
            self.start(at, &tag);
        }
    }

    /// One look of the balancers at every instance.
    pub(super) fn tick(&self) {
        self.supervise();
        let now = self.now();
        let mut state = self.state();
        let all: Vec<At> = state.slots.keys().copied().collect();
        for at in all {
            self.look_at(&mut state, at, now, None);
            let Some(slot) = state.slots.get_mut(&at) else { continue };
            let good = slot.serves && !slot.hangs(now);
            let server = &mut slot.server;
            server.against = if good == server.up { 0 } else { server.against + 1 };
            if server.against >= CHECKS {
                (server.up, server.against) = (good, 0);
                if !good {
                    server.down_at = now;
                }
            }
        }
    }

    /// Looks whether the health URL of an instance answers 200, and says so where that changed.
    fn look_at(&self, state: &mut State, at: At, now: u64, _by: Option<&str>) {
        let file = state.disks[at.1].files.get(&disable_file(&self.names.services[at.0]));
        let (hidden, by_agent) = (file.is_some(), file.is_some_and(|file| file.starts_with(BY_AGENT)));
        let Some(slot) = state.slots.get_mut(&at) else { return };
        let serves = slot.is_healthy(now) && !(hidden && slot.heeds(now));
        if by_agent && slot.hidden_at.is_none() {
            slot.hidden_at = Some(now);
        } else if !by_agent {
            slot.hidden_at = None;
        }
        let cause = match () {
            () if by_agent => Cause::Order,
            () if hidden => Cause::Misfortune("a person's disable-file"),
            () if slot.alive(now).is_none() => Cause::Misfortune("nothing runs"),
            () if !slot.is_healthy(now) => Cause::Misfortune("its health"),
            () => Cause::Misfortune("unknown"),
        };
        let (was, out) = (slot.serves, slot.out.clone());
        slot.serves = serves;
        let version = slot.alive(now).map(|run| run.is.version);
        match (was, serves) {
            (false, true) => {
                (slot.out, slot.came_at) = (None, now);
                let name = self.names.instance(at);
                state.story.tell(now, &format!("{name} answers 200 at version {}", version.unwrap_or(0)));
                state.facts.came_in(now, at, version.unwrap_or(0), &name);
            }
            (true, false) => {
                slot.out = Some((now, cause.clone()));
                slot.drains += u32::from(cause == Cause::Order);
                let name = self.names.instance(at);
                state.story.tell(now, &format!("{name} answers 200 no more: {cause:?}"));
                if cause == Cause::Order {
                    let State { slots, facts, .. } = state;
                    facts.taken_out(now, at, slots, &name);
                }
            }
            // What ended by itself was not taken out by the agent that hides it until it may come back.
            (false, false) if matches!((&out, &cause), (Some((_, Cause::Misfortune(_))), Cause::Order)) => {}
            (false, false) if out.as_ref().is_none_or(|(_, was)| *was != cause) => {
                slot.out = Some((now, cause));
            }
            _ => {}
        }
    }

    /// Writes a file of a node.
    pub(super) fn write(&self, node: usize, path: &Path, bytes: Vec<u8>) -> std::io::Result<()> {
        let mut state = self.state();
        let disk = &mut state.disks[node];
        if disk.full {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        disk.files.insert(path.to_owned(), bytes);
        drop(state);
        self.look_at_node(node);
        Ok(())
    }

    /// An agent removes a file: a disable-file that a person put is not its to touch.
    pub(super) fn removed_by_agent(&self, node: usize, path: &Path) {
        let now = self.now();
        let mut state = self.state();
        let Some(service) = self.names.services.iter().find(|service| *path == disable_file(service)) else {
            return;
        };
        let file = state.disks[node].files.get(path);
        if file.is_some_and(|file| !file.starts_with(BY_AGENT)) {
            let text = format!(
                "the agent of {} removed a person's disable-file of {service}",
                self.names.nodes[node]
            );
            state.facts.breach(now, 6, text);
        }
    }

    /// Removes a file of a node.
    pub(super) fn remove(&self, node: usize, path: &Path) -> std::io::Result<()> {
        let gone = self.state().disks[node].files.remove(path);
        self.look_at_node(node);
        gone.map(drop).ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }

    /// Removes a file of a node where it names this agent.
    pub(super) fn remove_of(&self, node: usize, path: &Path, nonce: &str) {
        let names = |file: &Vec<u8>| file.windows(nonce.len()).any(|part| part == nonce.as_bytes());
        let is_of = self.state().disks[node].files.get(path).is_some_and(names);
        if is_of && let Err(error) = self.remove(node, path) {
            self.tell(format!("{} stays: {error}", path.display()));
        }
    }

    fn look_at_node(&self, node: usize) {
        let now = self.now();
        let mut state = self.state();
        for service in 0..self.names.services.len() {
            if state.slots.contains_key(&(service, node)) {
                self.look_at(&mut state, (service, node), now, None);
            }
        }
    }

    /// A hook begins; its number.
    pub(super) fn begin_hook(&self, at: At, set: &'static str, name: &str) -> u64 {
        let now = self.now();
        let mut state = self.state();
        state.next += 1;
        let id = state.next;
        let slot = state.slots.entry(at).or_default();
        slot.booted.remove(set);
        if let Some(other) = slot.hooks.insert(set, HookRun { id, name: name.to_owned() }) {
            let name = self.names.instance(at);
            state.facts.breach(now, 5, format!("{name}: hook {} was begun beside another", other.name));
        }
        id
    }

    /// A hook ends, or is killed; whether it still ran.
    pub(super) fn end_hook(&self, at: At, set: &'static str, id: u64) -> bool {
        let mut state = self.state();
        let slot = state.slots.entry(at).or_default();
        let runs = slot.hooks.get(set).is_some_and(|run| run.id == id);
        if runs && let Some(run) = slot.hooks.remove(set) {
            slot.ended.insert(set, run.name);
        }
        runs
    }
}
