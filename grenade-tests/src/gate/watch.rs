//! What is seen of each instance from outside, ten times a second: which version answers, and whether its health check
//! says that it may be sent requests. Knows nothing of any upgrade.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

use crate::gate::file::Gate;
use crate::gate::launcher::Node;
use crate::gate::written::VersionProbe;
use crate::load::requests::Versions;
use crate::world::wait::get;

/// From one look to the next.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(2);

/// Something that changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// When, in milliseconds since the load's start.
    pub at_ms: f64,
    /// Where.
    pub node: String,
    /// Which version answers; absent: none.
    pub version: Option<u32>,
    /// Whether the health check says 200.
    pub in_rotation: bool,
}

/// Looks until it is dropped.
#[derive(Debug)]
pub struct Watch {
    changes: Arc<Mutex<Vec<Change>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Watch {
    /// Begins to look at these nodes; times count from `began`.
    pub fn start(gate: &Gate, nodes: &[Node], began: Instant, versions: &Versions) -> Self {
        let changes = Arc::new(Mutex::new(Vec::new()));
        let tasks = nodes.iter().map(|node| {
            let (health_at, health) = match &gate.service.health {
                Some(path) => (node.address, path.clone()),
                None => (node.health, "/healthcheck".to_owned()),
            };
            let look = Look {
                node: node.name.clone(),
                address: node.address,
                probe: Probe::of(&gate.service.version),
                health_at,
                health,
            };
            tokio::spawn(look.keep(began, Arc::clone(&changes), versions.clone()))
        });
        let tasks = tasks.collect();
        Self { changes, tasks }
    }

    /// What changed so far, in order.
    pub fn changes(&self) -> Vec<Change> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

struct Look {
    node: String,
    address: SocketAddr,
    probe: Probe,
    health_at: SocketAddr,
    health: String,
}

impl Look {
    async fn keep(self, began: Instant, changes: Arc<Mutex<Vec<Change>>>, versions: Versions) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = None;
        loop {
            ticks.tick().await;
            let version = self.probe.ask(self.address).await.ok();
            let health = tokio::time::timeout(ANSWER, get(self.health_at, &self.health)).await;
            let in_rotation = matches!(health, Ok(Ok((200, _))));
            if let Some(version) = version {
                versions.saw(&self.node, version);
            }
            if last == Some((version, in_rotation)) {
                continue;
            }
            last = Some((version, in_rotation));
            let at_ms = began.elapsed().as_micros() as f64 / 1e3;
            let change = Change { at_ms, node: self.node.clone(), version, in_rotation };
            changes.lock().unwrap_or_else(PoisonError::into_inner).push(change);
        }
    }
}

/// How a version is learned.
#[derive(Debug, Clone)]
pub struct Probe {
    path: String,
    pointer: Option<String>,
    means: BTreeMap<String, u32>,
}

impl Probe {
    /// As a gate file says.
    pub fn of(written: &VersionProbe) -> Self {
        let means = written.means.iter().map(|(said, number)| (said.clone(), number.get())).collect();
        Self { path: written.path.clone(), pointer: written.pointer.clone(), means }
    }

    /// The same, from the command line.
    pub fn new(path: String, pointer: Option<String>, means: BTreeMap<String, u32>) -> Self {
        Self { path, pointer, means }
    }

    /// Asks an instance.
    ///
    /// # Errors
    /// When it does not answer, or not with a version; in words.
    pub async fn ask(&self, address: SocketAddr) -> Result<u32, String> {
        let asked = tokio::time::timeout(ANSWER, get(address, &self.path)).await;
        let (status, body) = asked.map_err(|_| format!("{} gives no answer", self.path))??;
        if status != 200 {
            return Err(format!("{} answers {status}", self.path));
        }
        let said = match &self.pointer {
            None => body.trim().to_owned(),
            Some(pointer) => {
                let body: Value =
                    serde_json::from_str(&body).map_err(|_| format!("{} answers no JSON", self.path))?;
                match body.pointer(pointer) {
                    Some(Value::String(text)) => text.clone(),
                    Some(other) => other.to_string(),
                    None => return Err(format!("{} has no {pointer} in its answer", self.path)),
                }
            }
        };
        let number = if self.means.is_empty() { said.parse().ok() } else { self.means.get(&said).copied() };
        number.ok_or_else(|| {
            format!("{} says `{said}`, which is no version that the gate file knows", self.path)
        })
    }
}
