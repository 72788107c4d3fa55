//! Processes of a service that ended without having been asked to: with which exit code or signal, and what they wrote
//! last. A parent alone learns how a process ended. That is this program for the instances of a frozen mix, and for those of
//! an upgrade the agent, whose log has the system's word for it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::gate::launcher::Node;
use crate::gate::watch::Change;
use crate::world::{Process, World, tail};

/// From one look to the next. What is written to a service's log meanwhile may be of its successor.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The end of a process is seen within this time, in milliseconds: the agent writes it, and then it is read.
const SEEN_WITHIN_MS: f64 = 500.0;
/// What the agent writes when a process of its service has ended.
const ENDED: &str = "the service's process ended ";

/// A process that ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Death {
    /// Its node.
    pub node: String,
    /// Its version; absent: not known.
    pub version: Option<u32>,
    /// When that was seen, in milliseconds since the load's start; absent: at the end of a load.
    pub at_ms: Option<f64>,
    /// How, in words: `exited with code 3`, `was ended by SIGKILL`.
    pub how: String,
    /// The last lines of its log.
    pub log: String,
}

impl Death {
    /// Of a process that this program has started; `None`: it runs.
    pub fn of(process: &mut Process, node: &str, version: u32) -> Option<Self> {
        let how = words(&process.ended()?);
        let (node, version) = (node.to_owned(), Some(version));
        Some(Self { node, version, at_ms: None, how, log: process.tail() })
    }

    /// In words, without its log.
    pub fn words(&self) -> String {
        let Self { node, version, at_ms, how, .. } = self;
        let version = version.map(|version| format!(" at version {version}")).unwrap_or_default();
        let at = at_ms.map(|at| format!(" at {:.1} s", at / 1e3)).unwrap_or_default();
        format!("{node}{version} {how}{at}")
    }

    /// Whether it ended as a process does that is asked to end: after its instance had left rotation, and by SIGTERM.
    fn was_asked(&self, changes: &[Change]) -> bool {
        let clean = ["exited with code 0", "exited with code 143", "was ended by SIGTERM"];
        let before = |change: &&Change| change.node == self.node && Some(change.at_ms) <= self.at_ms;
        let own = |change: &&Change| !self.is_of_the_next(change);
        let served = changes.iter().filter(before).rfind(own).is_some_and(|change| change.in_rotation);
        clean.contains(&self.how.as_str()) && !served
    }

    /// Whether this was seen of the process that follows it, before its end was seen.
    fn is_of_the_next(&self, change: &Change) -> bool {
        let since = self.at_ms.unwrap_or_default() - change.at_ms;
        since < SEEN_WITHIN_MS && change.version.is_some() && change.version != self.version
    }
}

/// `exit status: 3` and `signal: 9 (SIGKILL) (core dumped)` in words.
fn words(status: &str) -> String {
    if let Some(code) = status.strip_prefix("exit status: ") {
        return format!("exited with code {code}");
    }
    let signal = status.strip_prefix("signal: ").and_then(|text| text.split(['(', ')']).nth(1));
    match signal {
        Some(signal) => format!("was ended by {signal}"),
        None => format!("ended: {status}"),
    }
}

/// The log of an agent, as far as it was read.
struct AgentLog {
    node: String,
    path: PathBuf,
    read: u64,
    /// The log of its service.
    service: PathBuf,
}

impl AgentLog {
    /// The statuses of the processes that ended since the last look, with the release of each. A line that is not whole is
    /// left for the next look.
    fn ended(&mut self) -> std::io::Result<Vec<(String, String)>> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut new = Vec::new();
        file.read_to_end(&mut new)?;
        let whole = new.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        self.read += whole as u64;
        Ok(String::from_utf8_lossy(&new[..whole]).lines().filter_map(ended).collect())
    }
}

/// `… the service's process ended pid=7 release=items-2 status=exit status: 3`
fn ended(line: &str) -> Option<(String, String)> {
    let (_, fields) = line.split_once(ENDED)?;
    let (fields, status) = fields.split_once("status=")?;
    let release = fields.split(' ').find_map(|field| field.strip_prefix("release="))?;
    Some((release.to_owned(), status.to_owned()))
}

/// Reads the agents' logs until it is dropped.
#[derive(Debug)]
pub struct DeathWatch {
    deaths: Arc<Mutex<Vec<Death>>>,
    over: Arc<AtomicBool>,
}

impl DeathWatch {
    /// Begins to read the logs of the agents of these nodes, which run in `world`; times count from `began`.
    pub fn start(world: &World, service: &str, nodes: &[Node], began: Instant) -> Self {
        let (deaths, over) = (Arc::<Mutex<Vec<Death>>>::default(), Arc::new(AtomicBool::new(false)));
        let log = |node: &Node| AgentLog {
            node: node.name.clone(),
            path: world.path(&format!("agent-{}.log", node.name)),
            read: 0,
            service: node.home.join("run").join(format!("{service}.log")),
        };
        let mut logs: Vec<AgentLog> = nodes.iter().map(log).collect();
        let (seen, ends) = (Arc::clone(&deaths), Arc::clone(&over));
        tokio::task::spawn_blocking(move || {
            while !ends.load(Ordering::SeqCst) {
                let at_ms = Some(began.elapsed().as_micros() as f64 / 1e3);
                for log in &mut logs {
                    // Where there is no agent there is no log.
                    for (release, status) in log.ended().unwrap_or_default() {
                        let death = Death {
                            node: log.node.clone(),
                            version: release.rsplit('-').next().and_then(|number| number.parse().ok()),
                            at_ms,
                            how: words(&status),
                            log: tail(&log.service),
                        };
                        seen.lock().unwrap_or_else(PoisonError::into_inner).push(death);
                    }
                }
                std::thread::sleep(LOOK_EVERY);
            }
        });
        Self { deaths, over }
    }

    /// What ended so far and was not asked to, as `changes` show; of each node the first of each kind.
    pub fn unasked(&self, changes: &[Change]) -> Vec<Death> {
        let deaths = self.deaths.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut first = BTreeMap::new();
        for death in deaths.into_iter().filter(|death| !death.was_asked(changes)) {
            first.entry((death.node.clone(), death.version, death.how.clone())).or_insert(death);
        }
        let mut unasked: Vec<Death> = first.into_values().collect();
        unasked.sort_by(|a, b| a.at_ms.unwrap_or_default().total_cmp(&b.at_ms.unwrap_or_default()));
        unasked
    }
}

impl Drop for DeathWatch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn death(how: &str, at_ms: f64) -> Death {
        let (node, log) = ("items-2".to_owned(), "boom".to_owned());
        Death { node, version: Some(2), at_ms: Some(at_ms), how: how.to_owned(), log }
    }

    #[test]
    fn exit_status_of_the_agents_log_is_in_words() {
        let line = |status: &str| {
            format!(
                "2026-11-25T21:00:00Z  INFO agent: the service's process ended pid=7 release=items-2 status={status}"
            )
        };
        for (status, expected) in [
            ("exit status: 3", "exited with code 3"),
            ("signal: 9 (SIGKILL)", "was ended by SIGKILL"),
            ("signal: 6 (SIGABRT) (core dumped)", "was ended by SIGABRT"),
        ] {
            let (release, status) = ended(&line(status)).unwrap();
            assert_eq!((release.as_str(), words(&status).as_str()), ("items-2", expected));
        }
        assert_eq!(ended("2026-11-25T21:00:00Z  INFO agent: the service's process is stopped pid=7"), None);
        assert_eq!(
            death("exited with code 3", 12_340.0).words(),
            "items-2 at version 2 exited with code 3 at 12.3 s"
        );
    }

    #[test]
    fn only_an_end_in_rotation_counts_as_a_death() {
        let change =
            |at_ms, in_rotation| Change { at_ms, node: "items-2".to_owned(), version: Some(2), in_rotation };
        let drained = [change(0.0, true), change(900.0, false), change(2_000.0, true)];
        for how in ["exited with code 0", "was ended by SIGTERM", "exited with code 143"] {
            assert!(death(how, 1_000.0).was_asked(&drained), "{how}");
            assert!(!death(how, 800.0).was_asked(&drained), "{how}");
        }
        assert!(!death("exited with code 3", 1_000.0).was_asked(&drained));
        // The next version serves before the end of the former one was read.
        let next = |at_ms| Change { version: Some(3), ..change(at_ms, true) };
        assert!(death("exited with code 0", 1_000.0).was_asked(&[drained[1].clone(), next(990.0)]));
        assert!(!death("exited with code 0", 1_000.0).was_asked(&[drained[0].clone(), next(990.0)]));
        assert!(!death("exited with code 0", 2_000.0).was_asked(&[drained[1].clone(), next(990.0)]));
        assert!(!death("was ended by SIGKILL", 1_000.0).was_asked(&drained), "it did not stop in its time");
    }

    #[test]
    fn line_that_is_not_whole_is_read_at_the_next_look() {
        use std::io::Write;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.log");
        let mut log =
            AgentLog { node: "n".into(), path: path.clone(), read: 0, service: dir.path().join("s.log") };
        assert!(log.ended().is_err());
        let mut file = File::options().create(true).append(true).open(&path).unwrap();
        file.write_all(b"x\nagent: the service's process ended pid=7 release=a-1 stat").unwrap();
        assert_eq!(log.ended().unwrap(), []);
        file.write_all(b"us=exit status: 3\nmore").unwrap();
        assert_eq!(log.ended().unwrap(), [("a-1".to_owned(), "exit status: 3".to_owned())]);
        assert_eq!(log.ended().unwrap(), []);
    }
}
