//! Follows every key of the store as it is written, over lines that nothing disturbs, one to each member of etcd: a member
//! that is killed, stopped or cut off is silent, and what was compacted meanwhile was seen through another one.

use etcd_client::{
    Client, ConnectOptions, EventType, GetOptions, SortOrder, SortTarget, WatchOptions, WatchResponse,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tidegate_proto::record::upgrade::PhaseName;
use tidegate_proto::{Key, Prefix, Value};
use tokio::task::JoinHandle;

use super::event_log::EventLog;
use crate::trace::{Broken, Trace, Written};
use crate::world::wait::wait_for;

/// Between two tries to follow a member.
const AGAIN: Duration = Duration::from_millis(300);
/// How long all members may take to show what is there.
const CATCHES_UP: Duration = Duration::from_secs(30);

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    trace: Trace,
    last: i64,
    phases: BTreeMap<String, Vec<(PhaseName, Instant)>>,
    leader: Option<String>,
    /// The revision that made the leader's key, which is another one for each leadership.
    term: i64,
    leaderships: Vec<Instant>,
    gaps: Vec<String>,
}

/// The history of the store.
#[derive(Debug)]
pub(super) struct Auditor {
    seen: Arc<Mutex<Seen>>,
    endpoints: Vec<String>,
    follows: Vec<JoinHandle<()>>,
}

impl Auditor {
    /// Follows from the beginning.
    pub(super) fn begin(endpoints: Vec<String>, log: &EventLog) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let follows = endpoints
            .iter()
            .map(|endpoint| tokio::spawn(follow(endpoint.clone(), Arc::clone(&seen), log.clone())))
            .collect();
        Self { seen, endpoints, follows }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When an upgrade entered a phase first.
    pub(super) fn entered(&self, id: &str, phase: &str) -> Option<Instant> {
        let seen = self.seen();
        seen.phases.get(id)?.iter().find(|(name, _)| word(*name) == phase).map(|(_, at)| *at)
    }

    /// The phase of an upgrade, and since when.
    pub(super) fn phase(&self, id: &str) -> Option<(PhaseName, Instant)> {
        self.seen().phases.get(id)?.last().copied()
    }

    /// Where the coordinator that leads answers.
    pub(super) fn leader(&self) -> Option<String> {
        self.seen().leader.clone()
    }

    /// When the first leadership after this instant began.
    pub(super) fn led_after(&self, instant: Instant) -> Option<Instant> {
        self.seen().leaderships.iter().find(|at| **at > instant).copied()
    }

    /// The last revision that was seen.
    pub(super) fn revision(&self) -> i64 {
        self.seen().last
    }

    /// How many revisions wrote something.
    pub(super) fn revisions(&self) -> usize {
        self.seen().trace.revisions.len()
    }

    /// The agent of a node is started again.
    pub(super) fn note_restart(&self, node: &str) {
        let mut seen = self.seen();
        let at = seen.last;
        seen.trace.restarts.extend(node.parse().ok().map(|node| (node, at)));
    }

    /// Waits until everything that is there was seen.
    ///
    /// # Errors
    /// When the store does not answer, or history was missed.
    pub(super) async fn catch_up(&self) -> anyhow::Result<()> {
        // After a fault of etcd it may have no leader for a moment.
        let newest = wait_for("etcd to answer", CATCHES_UP, || async {
            newest(&self.endpoints).await.map_err(|error| error.to_string())
        });
        let newest = newest.await?;
        wait_for("the auditor to see all that etcd holds", CATCHES_UP, || async {
            let seen = self.revision();
            if seen >= newest { Ok(()) } else { Err(format!("revision {seen} of {newest}")) }
        })
        .await?;
        Ok(())
    }

    /// Every breach of a rule in the history, and what of it was missed.
    pub(super) fn breaches(&self) -> (Vec<Broken>, Vec<String>) {
        let (trace, gaps) = {
            let seen = self.seen();
            (seen.trace.clone(), seen.gaps.clone())
        };
        let mut broken = trace.breaches();
        broken.extend(trace.needless_drains());
        (broken, gaps)
    }
}

impl Drop for Auditor {
    fn drop(&mut self) {
        self.follows.iter().for_each(JoinHandle::abort);
    }
}

/// The revision that wrote the newest key.
async fn newest(endpoints: &[String]) -> Result<i64, etcd_client::Error> {
    let options = ConnectOptions::new().with_timeout(Duration::from_secs(5));
    let mut client = Client::connect(endpoints, Some(options)).await?;
    let newest = GetOptions::new()
        .with_prefix()
        .with_sort(SortTarget::Mod, SortOrder::Descend)
        .with_limit(1)
        .with_keys_only();
    let found = client.get(Prefix::default().all(), Some(newest)).await?;
    Ok(found.kvs().first().map_or(0, etcd_client::KeyValue::mod_revision))
}

async fn follow(endpoint: String, seen: Arc<Mutex<Seen>>, log: EventLog) {
    loop {
        let from = seen.lock().unwrap_or_else(PoisonError::into_inner).last + 1;
        // An error of a member is its end, its silence or its being behind; the others are followed meanwhile.
        let _ = follow_from(&endpoint, from, &seen, &log).await;
        tokio::time::sleep(AGAIN).await;
    }
}

async fn follow_from(
    endpoint: &str,
    from: i64,
    seen: &Mutex<Seen>,
    log: &EventLog,
) -> Result<(), etcd_client::Error> {
    let every = Duration::from_secs(2);
    let options = ConnectOptions::new()
        .with_connect_timeout(every)
        .with_keep_alive(every, every)
        .with_keep_alive_while_idle(true);
    let mut client = Client::connect([endpoint], Some(options)).await?;
    // Not in fragments: all of a revision comes in one message.
    let options = WatchOptions::new().with_prefix().with_start_revision(from);
    let mut stream = client.watch(Prefix::default().all(), Some(options)).await?;
    while let Some(message) = stream.message().await? {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        if message.compact_revision() > seen.last + 1 {
            let (from, to) = (seen.last + 1, message.compact_revision());
            seen.gaps.push(format!("revisions {from} to {to} were compacted before the auditor saw them"));
            seen.last = to - 1;
        }
        if message.canceled() {
            return Ok(());
        }
        seen.take_in(&message, log);
    }
    Ok(())
}

impl Seen {
    fn take_in(&mut self, message: &WatchResponse, log: &EventLog) {
        let (prefix, last) = (Prefix::default(), self.last);
        for event in message.events() {
            let Some(kv) = event.kv() else { continue };
            if kv.mod_revision() <= last {
                continue;
            }
            self.last = self.last.max(kv.mod_revision());
            if let Err(error) = self.trace.take_in(&prefix, kv, event.event_type() == EventType::Delete) {
                self.gaps.push(error.to_string());
                continue;
            }
            let written = self.trace.revisions.last().and_then(|revision| revision.writes.last()).cloned();
            if let Some(line) = written.and_then(|written| self.notice(&written)) {
                log.log(format!("[{}] {line}", kv.mod_revision()));
            }
        }
    }

    /// Notes what others ask for; answers what of it is worth a line.
    fn notice(&mut self, written: &Written) -> Option<String> {
        let value = written.put.as_ref().map(|put| &put.value);
        match (&written.key, value) {
            (Key::Upgrade(id), Some(Value::Upgrade(upgrade))) => {
                let phase = upgrade.body.phase.name();
                let phases = self.phases.entry(id.to_string()).or_default();
                if phases.last().is_some_and(|(last, _)| *last == phase) {
                    let paused = upgrade.body.paused.is_some();
                    return paused.then(|| format!("{id}: {} (paused)", upgrade.body.phase));
                }
                phases.push((phase, Instant::now()));
                Some(format!("{id}: {}", upgrade.body.phase))
            }
            (Key::Directive(_, node), Some(Value::Directive(directive))) => {
                Some(format!("directive of {node}: {}", directive.body.disposition.word()))
            }
            (Key::Window(_), Some(Value::Window(window))) => Some(format!("window: {}", window.body)),
            (Key::Leader, Some(Value::Leader(leader))) => {
                let term = written.put.as_ref().map_or(0, |put| put.created);
                self.leader = Some(leader.body.address.clone());
                if std::mem::replace(&mut self.term, term) == term {
                    return None;
                }
                self.leaderships.push(Instant::now());
                Some(format!("{} leads", leader.body.address))
            }
            (Key::Leader, None) => {
                self.leader = None;
                Some("no coordinator leads".to_owned())
            }
            (Key::Report(_, node), None) => Some(format!("{node} falls silent")),
            _ => None,
        }
    }
}

/// A phase in the words of a plan.
pub(super) fn word(phase: PhaseName) -> String {
    serde_json::to_value(phase).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
