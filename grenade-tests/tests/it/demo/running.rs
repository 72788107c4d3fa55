//! A demo as a process, and how its files and its processes are looked at.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use grenade_tests::world::wait::wait_for;
use grenade_tests::world::{Process, Spawn, program};
use rustix::process::Signal;
use serde_json::Value;

use crate::rig::Rig;

/// How long a demo may take to end everything that it started.
const ENDING: Duration = Duration::from_secs(20);

/// A demo in a directory of its own, printing lines.
pub(super) struct Running {
    process: Process,
    dir: PathBuf,
    rig: Rig,
}

impl Running {
    pub(super) fn start(arguments: &[&str]) -> Self {
        let rig = Rig::new();
        let dir = rig.world.path("demo");
        let spawn = Spawn::new("tidegate-demo", &program::own("tidegate-demo").unwrap())
            .args(arguments)
            .arg("--dir")
            .arg(&dir);
        let process = rig.world.spawn(spawn).unwrap();
        Self { process, dir, rig }
    }

    /// Everything that it said.
    pub(super) fn said(&self) -> String {
        std::fs::read_to_string(self.process.log()).unwrap()
    }

    /// Waits until it has said this.
    pub(super) async fn says(&mut self, what: &str, limit: Duration) {
        let log = self.process.log().to_owned();
        let process = std::sync::Mutex::new(&mut self.process);
        let hope = format!("the demo to say {what:?}");
        let said = wait_for(&hope, limit, || async {
            let text = std::fs::read_to_string(&log).unwrap();
            if text.contains(what) {
                return Ok(());
            }
            // One that has ended will say nothing more: no use to wait for the limit.
            match process.lock().unwrap().ended() {
                None => Err(text),
                Some(status) => panic!("the demo ended with {status} and never said {what:?}:\n{text}"),
            }
        });
        said.await.unwrap();
    }

    pub(super) fn signal(&self, signal: Signal) {
        self.process.signal(signal).unwrap();
    }

    /// Waits for its end; answers its exit code, and is sure that nothing of it is left.
    pub(super) async fn ends(&mut self, limit: Duration) -> Option<i32> {
        let mut seen = HashSet::new();
        let end = Instant::now() + limit;
        let status = loop {
            seen.extend(self.below());
            match self.process.wait(Duration::from_millis(200)).await {
                Ok(status) => break status,
                Err(_) if Instant::now() < end => {}
                Err(late) => panic!("{late}\n{}", self.said()),
            }
        };
        let table = table();
        let left: Vec<_> =
            seen.iter().filter_map(|(pid, _)| table.get(pid).filter(|now| !now.gone)).collect();
        // A pid may have been reused: only one that still names the directory or was there before counts.
        let left: Vec<_> = left.into_iter().filter(|now| seen.contains(&(now.pid, now.born))).collect();
        assert!(left.is_empty(), "still there after the demo's end: {left:?}\n{}", self.said());
        let naming = naming(&self.dir);
        assert!(naming.is_empty(), "still there, naming the demo's directory: {naming:?}\n{}", self.said());
        status.code()
    }

    /// Its descendants now: pid and start time.
    fn below(&self) -> Vec<(u32, u64)> {
        let table = table();
        let mut found = vec![self.process.pid()];
        let mut at = 0;
        while at < found.len() {
            let parent = found[at];
            found.extend(table.values().filter(|p| p.parent == parent && !p.gone).map(|p| p.pid));
            at += 1;
        }
        found[1..].iter().map(|pid| (*pid, table[pid].born)).collect()
    }

    /// How many processes it has now.
    pub(super) fn count(&self) -> usize {
        self.below().len()
    }

    /// The pid of a descendant whose command line holds this.
    pub(super) fn pid_of(&self, what: &str) -> u32 {
        let line = |pid: u32| String::from_utf8_lossy(&cmdline(pid)).replace('\0', " ");
        let mut pids = self.below().into_iter().map(|(pid, _)| pid).filter(|pid| line(*pid).contains(what));
        pids.next().unwrap_or_else(|| panic!("no process of the demo has {what:?} in its command line"))
    }

    pub(super) fn report(&self) -> Value {
        let path = self.dir.join("report.json");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{e}\n{}", self.said()));
        serde_json::from_str(&text).unwrap()
    }

    pub(super) fn ledger(&self) -> Vec<Request> {
        let text = std::fs::read_to_string(self.dir.join("requests.csv")).unwrap();
        let mut lines = text.lines();
        let names: Vec<&str> = lines.next().unwrap().split(',').collect();
        lines.map(|line| Request::of(&names, line)).collect()
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that failed in mid-run: the demo ends its own processes, which bear its mark and not the rig's.
        if self.process.ended().is_none() && self.process.signal(Signal::INT).is_ok() {
            let end = Instant::now() + ENDING;
            while self.process.ended().is_none() && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        self.rig.world.sweep();
    }
}

/// One line of the ledger, as far as tests ask.
pub(super) struct Request {
    pub seq: u64,
    pub scheduled_ms: f64,
    pub outcome: String,
    pub version: String,
    pub kind: String,
}

impl Request {
    fn of(names: &[&str], line: &str) -> Self {
        let fields: Vec<&str> = line.split(',').collect();
        let field = |name| fields[names.iter().position(|known| *known == name).unwrap()];
        Self {
            seq: field("seq").parse().unwrap(),
            scheduled_ms: field("scheduled_ms").parse().unwrap(),
            kind: field("kind").to_owned(),
            outcome: field("outcome").to_owned(),
            version: field("version").to_owned(),
        }
    }
}

/// What report and ledger of any run must have in common; answers the counts by outcome.
pub(super) fn agrees(report: &Value, ledger: &[Request]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for request in ledger {
        *counts.entry(request.outcome.clone()).or_insert(0) += 1;
    }
    let said = |what: &str| report["requests"][what].as_u64().unwrap();
    assert_eq!(said("sent"), said("ok") + said("failed"), "{report:#}");
    assert_eq!(said("sent"), ledger.len() as u64, "{report:#}");
    assert_eq!(said("ok"), counts.get("ok").copied().unwrap_or(0), "{report:#}");
    assert_eq!(said("failed"), counts.get("failed").copied().unwrap_or(0), "{report:#}");
    let mut order: Vec<u64> = ledger.iter().map(|request| request.seq).collect();
    order.sort_unstable();
    assert!(
        order.iter().copied().eq(0..ledger.len() as u64),
        "a request is missing in the ledger, or twice in it"
    );
    counts
}

#[derive(Debug)]
struct Seen {
    pid: u32,
    parent: u32,
    born: u64,
    gone: bool,
}

fn table() -> HashMap<u32, Seen> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat[stat.rfind(')')? + 1..].split_whitespace().collect();
        let gone = matches!(fields[0], "Z" | "X");
        Some((pid, Seen { pid, parent: fields[1].parse().ok()?, born: fields[19].parse().ok()?, gone }))
    })
    .collect()
}

fn cmdline(pid: u32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// Processes that name a directory in their command line, wherever they hang now.
fn naming(dir: &Path) -> Vec<(u32, String)> {
    let name = dir.to_str().unwrap();
    let lines = table().into_keys().map(|pid| (pid, String::from_utf8_lossy(&cmdline(pid)).into_owned()));
    lines.filter(|(_, line)| line.contains(name)).collect()
}
