//! A simulated node, as its agent touches it: the answers of its services, its hooks, its disk.

use super::dice::Dice;
use super::gate::Gate;
use super::ground::Ground;
use super::images;
use super::slot::{At, Running, Slot};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::StatusCode;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_agent::config::address::{Stats, Url};
use tidegate_agent::config::settings::{Artifact, Process};
use tidegate_agent::host::{
    Alive, Done, HookSet, HookState, Hooks, Host, Made, NoAnswer, NotRun, NotStaged, ProcessError,
    ServiceProcess, Started, Target, TaskRuns,
};
use tidegate_proto::{Digest, ReleaseTag};
use tokio::sync::oneshot;

/// A node for one agent's process.
#[derive(Debug, Clone)]
pub(super) struct Node {
    ground: Ground,
    node: usize,
    gate: Gate,
    dice: Arc<Mutex<Dice>>,
}

impl Node {
    /// The node at a place, as the process behind `gate` sees it.
    pub(super) fn new(ground: Ground, node: usize, gate: Gate, dice: Dice) -> Self {
        Self { ground, node, gate, dice: Arc::new(Mutex::new(dice)) }
    }

    fn throw<T>(&self, of: impl FnOnce(&mut Dice) -> T) -> T {
        of(&mut self.dice.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The service whose directory is `home`.
    fn at(&self, home: &Path) -> At {
        let name = home.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        (self.ground.names().service(name).unwrap_or(0), self.node)
    }

    async fn answer(&self, url: &Url) -> Result<(StatusCode, Bytes), NoAnswer> {
        self.gate.passes().await;
        let path = url.path.trim_start_matches('/');
        let (service, what) = path.split_once('/').unwrap_or((path, ""));
        let at = (self.ground.names().service(service).unwrap_or(0), self.node);
        let Some(answer) = self.answer_of(at, service, what, url) else {
            return std::future::pending().await;
        };
        self.gate.passes().await;
        answer
    }

    /// What an address answers now; none where it hangs.
    fn answer_of(
        &self,
        at: At,
        service: &str,
        what: &str,
        url: &Url,
    ) -> Option<Result<(StatusCode, Bytes), NoAnswer>> {
        let now = self.ground.now();
        let state = self.ground.state();
        let Some(slot) = state.slots.get(&at).filter(|slot| slot.listens(now).is_some()) else {
            return Some(Err(NoAnswer::Refused { url: url.to_string() }));
        };
        if slot.hangs(now) {
            return None;
        }
        let says = |good: bool| if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let hidden = state.disks[self.node].files.contains_key(&super::ground::disable_file(service));
        let answer = match what {
            "health" if hidden && slot.heeds(now) => {
                (StatusCode::SERVICE_UNAVAILABLE, "DISABLED BY FILE".to_owned())
            }
            "health" => (says(slot.is_healthy(now)), "health".to_owned()),
            "ready" => (says(slot.is_ready(now)), "ready".to_owned()),
            "version" => match slot.said_version(now) {
                Some(version) => (StatusCode::OK, version.to_string()),
                None => (StatusCode::SERVICE_UNAVAILABLE, String::new()),
            },
            "in-flight" => (StatusCode::OK, slot.in_flight(now).to_string()),
            _ => (StatusCode::NOT_FOUND, String::new()),
        };
        Some(Ok((answer.0, Bytes::from(answer.1))))
    }

    async fn stat(&self, stats: &Stats) -> io::Result<String> {
        self.gate.passes().await;
        let Stats::Unix(path) = stats else { return Err(io::ErrorKind::ConnectionRefused.into()) };
        let service = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let at = (self.ground.names().service(service).unwrap_or(0), self.node);
        let now = self.ground.now();
        let state = self.ground.state();
        let Some(slot) = state.slots.get(&at) else { return Err(io::ErrorKind::ConnectionRefused.into()) };
        let word = match (slot.server.up, slot.server.against) {
            (true, 0) => "UP",
            (true, _) => "UP 1/2",
            (false, 0) => "DOWN",
            (false, _) => "DOWN 1/2",
        };
        let sessions = slot.in_flight(now);
        let node = &self.ground.names().nodes[self.node];
        Ok(format!("# pxname,svname,status,scur,\n{service},{node},{word},{sessions},\n"))
    }
}

fn done(success: bool, stdout: &str, stderr: &str) -> Done {
    Done {
        success,
        code: Some(i32::from(!success)),
        ending: format!("exit status: {}", i32::from(!success)),
        stdout: stdout.into(),
        stderr: stderr.into(),
    }
}

impl Host for Node {
    fn get<'a>(&'a self, url: &'a Url) -> BoxFuture<'a, Result<(StatusCode, Bytes), NoAnswer>> {
        self.answer(url).boxed()
    }

    fn show_stat<'a>(&'a self, stats: &'a Stats) -> BoxFuture<'a, io::Result<String>> {
        self.stat(stats).boxed()
    }

    fn connections(&self, _port: u16) -> BoxFuture<'_, Option<u32>> {
        std::future::ready(None).boxed()
    }

    /// The status hook: `status SERVICE`.
    fn run<'a>(&'a self, argv: &'a [String], _limit: Duration) -> BoxFuture<'a, Result<Done, NotRun>> {
        async {
            self.gate.passes().await;
            let at = self.at(Path::new(argv.get(1).map_or("", String::as_str)));
            let now = self.ground.now();
            let runs = self.ground.state().slots.get(&at).is_some_and(|slot| slot.alive(now).is_some());
            Ok(done(runs, "", if runs { "" } else { "it does not run" }))
        }
        .boxed()
    }

    fn hooks(&self, home: &Path, set: HookSet) -> Arc<dyn Hooks> {
        let set = match set {
            HookSet::Moving => "moving",
            HookSet::Staging => "staging",
        };
        Arc::new(SetOfHooks { node: self.clone(), at: self.at(home), set })
    }

    fn process(&self, home: &Path, _spec: Process, _log: PathBuf) -> Arc<dyn ServiceProcess> {
        Arc::new(OwnProcess { node: self.clone(), at: self.at(home) })
    }

    fn task_runs(&self, _home: &Path) -> Arc<dyn TaskRuns> {
        let (ground, gate) = (self.ground.clone(), self.gate.clone());
        Arc::new(images::Hooks::new(ground, self.node, gate, Arc::clone(&self.dice)))
    }

    fn stage(
        &self,
        directory: &Path,
        tag: &ReleaseTag,
        _artifact: &Artifact,
        wanted: Option<Digest>,
    ) -> Result<Digest, NotStaged> {
        let at = self.at(directory.parent().and_then(Path::parent).unwrap_or(directory));
        self.ground.change(at, |slot, _| slot.staged.insert(tag.to_string()));
        Ok(wanted.unwrap_or_else(|| Digest::of(tag.as_str().as_bytes())))
    }

    fn verify(&self, directory: &Path, tag: &ReleaseTag, wanted: Digest) -> Result<(), NotStaged> {
        let at = self.at(directory.parent().and_then(Path::parent).unwrap_or(directory));
        let there = self.ground.state().slots.get(&at).is_some_and(|slot| slot.staged.contains(tag.as_str()));
        let missing = || NotStaged::Missing { tag: tag.clone(), directory: directory.to_owned(), wanted };
        there.then_some(()).ok_or_else(missing)
    }

    fn remove_release(&self, directory: &Path) -> Result<(), NotStaged> {
        let at = self.at(directory.parent().and_then(Path::parent).unwrap_or(directory));
        let tag = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.ground.change(at, |slot, _| slot.staged.remove(tag));
        Ok(())
    }

    fn read(&self, path: &Path, _most: usize) -> io::Result<Vec<u8>> {
        let bytes = self.ground.state().disks[self.node].files.get(path).cloned();
        bytes.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write_in_place(&self, path: &Path, bytes: Vec<u8>) -> io::Result<()> {
        self.ground.write(self.node, path, bytes)
    }

    fn make(&self, path: &Path, bytes: &[u8]) -> io::Result<Box<dyn Made>> {
        if self.ground.state().disks[self.node].full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(Box::new(MadeFile { node: self.clone(), path: path.to_owned(), bytes: bytes.to_owned() }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if self.gate.is_dead() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.ground.removed_by_agent(self.node, path);
        self.ground.remove(self.node, path)
    }

    fn make_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sweep(&self, _directory: &Path) {}

    fn aside(&self, work: Box<dyn FnOnce() + Send>) {
        let slow = self.ground.state().disks[self.node].slow_ms;
        let takes = self.throw(|dice| dice.within(0, 4)) + slow;
        let gate = self.gate.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(takes)).await;
            // What a killed process had not written is not written.
            gate.passes().await;
            work();
        });
    }
}

/// A file that is not yet in its place.
#[derive(Debug)]
struct MadeFile {
    node: Node,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Made for MadeFile {
    fn appear(self: Box<Self>) -> io::Result<()> {
        if self.node.gate.is_dead() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let there = self.node.ground.state().disks[self.node.node].files.contains_key(&self.path);
        if there {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.node.ground.write(self.node.node, &self.path, self.bytes)
    }
}

/// The hooks of one set. A hook goes on when its agent is killed.
#[derive(Debug)]
struct SetOfHooks {
    node: Node,
    at: At,
    set: &'static str,
}

impl SetOfHooks {
    fn runs(&self) -> bool {
        self.node.ground.state().slots.get(&self.at).is_some_and(|slot| slot.hooks.contains_key(self.set))
    }

    fn kill(&self) {
        let (ground, at) = (&self.node.ground, self.at);
        let id = ground.state().slots.get(&at).and_then(|slot| slot.hooks.get(self.set)).map(|run| run.id);
        if let Some(id) = id {
            ground.tell(format!("{}: a hook is killed", ground.names().instance(at)));
            ground.end_hook(at, self.set, id);
        }
    }

    async fn run_alone(&self, hook: &str, argv: &[String], limit: Duration) -> Result<Done, NotRun> {
        self.node.gate.passes().await;
        let end = tokio::time::Instant::now() + limit;
        while self.runs() {
            if tokio::time::Instant::now() >= end {
                self.kill();
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            self.node.gate.passes().await;
        }
        let (ground, at, set) = (self.node.ground.clone(), self.at, self.set);
        let tag = argv.get(1).cloned().unwrap_or_default();
        let now = ground.now();
        let (hangs, fails, lies) = {
            let state = ground.state();
            let until = |of: fn(&Slot) -> u64| state.slots.get(&at).is_some_and(|slot| now < of(slot));
            (until(|s| s.hangs_until), until(|s| s.fails_until), until(|s| s.lies_until))
        };
        let id = ground.begin_hook(at, set, hook);
        let takes = self.node.throw(|dice| dice.within(20, 1200));
        let (out, answer) = oneshot::channel();
        let hook = hook.to_owned();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(takes)).await;
            if hangs {
                std::future::pending::<()>().await;
            }
            if !ground.end_hook(at, set, id) {
                return;
            }
            if !fails && !lies {
                match hook.as_str() {
                    "start" => drop(ground.start(at, &tag)),
                    "stop" => ground.stop(at),
                    "stage" => drop(ground.change(at, |slot, _| slot.staged.insert(tag.clone()))),
                    "remove" => drop(ground.change(at, |slot, _| slot.staged.remove(&tag))),
                    _ => {}
                }
            }
            let _ = out.send(done(!fails, "", if fails { "the hook failed" } else { "" }));
        });
        let ended = tokio::time::timeout(limit, answer).await;
        self.node.gate.passes().await;
        match ended {
            Ok(Ok(done)) => Ok(done),
            _ => {
                self.kill();
                Err(NotRun::Late { program: argv.first().cloned().unwrap_or_default(), limit })
            }
        }
    }
}

impl Hooks for SetOfHooks {
    fn look(&self, hook: &str) -> HookState {
        let state = self.node.ground.state();
        let Some(slot) = state.slots.get(&self.at) else { return HookState::NotBegun };
        match (slot.hooks.get(self.set), slot.ended.get(self.set)) {
            _ if slot.booted.contains(self.set) => HookState::EarlierBoot,
            (Some(run), _) if run.name == hook => HookState::Runs,
            (None, Some(name)) if name == hook => HookState::Ended,
            _ => HookState::NotBegun,
        }
    }

    fn run<'a>(
        &'a self,
        hook: &'a str,
        argv: &'a [String],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Done, NotRun>> {
        self.run_alone(hook, argv, limit).boxed()
    }

    fn end(&self) -> BoxFuture<'_, io::Result<()>> {
        async {
            self.node.gate.passes().await;
            self.kill();
            Ok(())
        }
        .boxed()
    }
}

/// A process that the agent runs itself.
#[derive(Debug)]
struct OwnProcess {
    node: Node,
    at: At,
}

impl OwnProcess {
    fn running(&self) -> Option<Running> {
        let now = self.node.ground.now();
        self.node.ground.state().slots.get(&self.at).and_then(|slot| slot.alive(now).cloned())
    }
}

impl ServiceProcess for OwnProcess {
    fn alive(&self) -> Alive {
        if self.running().is_some() { Alive::Yes } else { Alive::No }
    }

    fn tag(&self) -> Option<ReleaseTag> {
        self.running()?.tag.parse().ok()
    }

    fn start(
        &self,
        target: &Target,
        _directory: &Path,
        _fill: &dyn Fn(&str) -> String,
    ) -> Result<Started, ProcessError> {
        if let Some(running) = self.running() {
            return Err(ProcessError::Running { pids: vec![running.pid] });
        }
        let pid = self.node.ground.start(self.at, target.tag.as_str());
        Ok(Started { pid, ticks: 1 })
    }

    fn stop<'a>(&'a self, _started: Option<&'a Started>) -> BoxFuture<'a, Result<(), ProcessError>> {
        async {
            self.node.gate.passes().await;
            let takes = self.node.throw(|dice| dice.within(5, 300));
            let (ground, at) = (self.node.ground.clone(), self.at);
            // The signal was sent: it ends, whether its agent lives or not.
            let ending = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(takes)).await;
                ground.stop(at);
            });
            let _ = ending.await;
            self.node.gate.passes().await;
            Ok(())
        }
        .boxed()
    }
}
