//! A simulated node, as its agent touches it: the answers of its services, its hooks, its disk.

mod document;
mod done;
mod hooks;
mod process;

pub(super) use document::show_former_document;

use self::document::DocumentHook;
use self::done::done;
use self::hooks::SetOfHooks;
use self::process::OwnProcess;
use super::dice::Dice;
use super::gate::Gate;
use super::images;
use super::slot::At;
use super::testbed::Testbed;
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
    Done, HookSet, Hooks, Host, Made, NoAnswer, NotRun, NotStaged, ServiceProcess, TaskRuns,
};
use tidegate_proto::{Digest, ReleaseTag};

/// A node for one agent's process.
#[derive(Debug, Clone)]
pub(super) struct Node {
    testbed: Testbed,
    node: usize,
    gate: Gate,
    dice: Arc<Mutex<Dice>>,
}

impl Node {
    /// The node at a place, as the process behind `gate` sees it.
    pub(super) fn new(testbed: Testbed, node: usize, gate: Gate, dice: Dice) -> Self {
        Self { testbed, node, gate, dice: Arc::new(Mutex::new(dice)) }
    }

    fn throw<T>(&self, of: impl FnOnce(&mut Dice) -> T) -> T {
        of(&mut self.dice.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The service whose directory is `home`.
    fn at(&self, home: &Path) -> At {
        let name = home.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        (self.testbed.names().service(name).unwrap_or(0), self.node)
    }

    async fn answer(&self, url: &Url) -> Result<(StatusCode, Bytes), NoAnswer> {
        self.gate.passes().await;
        let path = url.path.trim_start_matches('/');
        let (service, what) = path.split_once('/').unwrap_or((path, ""));
        let at = (self.testbed.names().service(service).unwrap_or(0), self.node);
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
        let now = self.testbed.now();
        let state = self.testbed.state();
        let Some(slot) = state.slots.get(&at).filter(|slot| slot.listens(now).is_some()) else {
            return Some(Err(NoAnswer::Refused { url: url.to_string() }));
        };
        if slot.hangs(now) {
            return None;
        }
        let says = |good: bool| if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        let hidden = state.disks[self.node].files.contains_key(&super::testbed::disable_file(service));
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
        let at = (self.testbed.names().service(service).unwrap_or(0), self.node);
        let now = self.testbed.now();
        let state = self.testbed.state();
        let Some(slot) = state.slots.get(&at) else { return Err(io::ErrorKind::ConnectionRefused.into()) };
        let word = match (slot.server.up, slot.server.against) {
            (true, 0) => "UP",
            (true, _) => "UP 1/2",
            (false, 0) => "DOWN",
            (false, _) => "DOWN 1/2",
        };
        let sessions = slot.in_flight(now);
        let node = &self.testbed.names().nodes[self.node];
        Ok(format!("# pxname,svname,status,scur,\n{service},{node},{word},{sessions},\n"))
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
            let now = self.testbed.now();
            let runs = self.testbed.state().slots.get(&at).is_some_and(|slot| slot.alive(now).is_some());
            Ok(done(runs, "", if runs { "" } else { "it does not run" }))
        }
        .boxed()
    }

    fn hooks(&self, home: &Path, set: HookSet) -> Arc<dyn Hooks> {
        if DocumentHook::is_at(home) {
            return Arc::new(DocumentHook::of(self));
        }
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
        let (testbed, gate) = (self.testbed.clone(), self.gate.clone());
        Arc::new(images::Hooks::new(testbed, self.node, gate, Arc::clone(&self.dice)))
    }

    fn stage(
        &self,
        directory: &Path,
        tag: &ReleaseTag,
        _artifact: &Artifact,
        wanted: Option<Digest>,
    ) -> Result<Digest, NotStaged> {
        let at = self.at(directory.parent().and_then(Path::parent).unwrap_or(directory));
        self.testbed.change(at, |slot, _| slot.staged.insert(tag.to_string()));
        Ok(wanted.unwrap_or_else(|| Digest::of(tag.as_str().as_bytes())))
    }

    fn verify(&self, directory: &Path, tag: &ReleaseTag, wanted: Digest) -> Result<(), NotStaged> {
        let at = self.at(directory.parent().and_then(Path::parent).unwrap_or(directory));
        let there =
            self.testbed.state().slots.get(&at).is_some_and(|slot| slot.staged.contains(tag.as_str()));
        let missing = || NotStaged::Missing { tag: tag.clone(), directory: directory.to_owned(), wanted };
        there.then_some(()).ok_or_else(missing)
    }

    fn remove_release(&self, directory: &Path) -> Result<(), NotStaged> {
        let at = self.at(directory.parent().and_then(Path::parent).unwrap_or(directory));
        let tag = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.testbed.change(at, |slot, _| slot.staged.remove(tag));
        Ok(())
    }

    fn read(&self, path: &Path, _most: usize) -> io::Result<Vec<u8>> {
        let bytes = self.testbed.state().disks[self.node].files.get(path).cloned();
        bytes.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write_in_place(&self, path: &Path, bytes: Vec<u8>) -> io::Result<()> {
        self.testbed.write(self.node, path, bytes)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if self.gate.is_dead() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let former = self.testbed.state().disks[self.node].files.get(path).cloned();
        self.testbed.write(self.node, path, bytes.to_owned())?;
        document::notice(&self.testbed, self.node, path, former.as_deref(), bytes);
        Ok(())
    }

    fn erase(&self, path: &Path) -> io::Result<()> {
        match self.remove(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn make(&self, path: &Path, bytes: &[u8]) -> io::Result<Box<dyn Made>> {
        if self.testbed.state().disks[self.node].full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(Box::new(MadeFile { node: self.clone(), path: path.to_owned(), bytes: bytes.to_owned() }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if self.gate.is_dead() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.testbed.removed_by_agent(self.node, path);
        self.testbed.remove(self.node, path)
    }

    fn make_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sweep(&self, _directory: &Path) {}

    fn aside(&self, work: Box<dyn FnOnce() + Send>) {
        let slow = self.testbed.state().disks[self.node].slow_ms;
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
        let there = self.node.testbed.state().disks[self.node.node].files.contains_key(&self.path);
        if there {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.node.testbed.write(self.node.node, &self.path, self.bytes)
    }
}
