//! Follows every key's history as it is written, over a line of its own that nothing disturbs.

use super::ground::Ground;
use super::judge::Facts;
use super::slot::{At, Slot};
use super::stream_facts::noticed;
use crate::trace::{Trace, Written};
use etcd_client::{Client, EventType, WatchOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::record::upgrade::{PhaseName, Upgrade};
use tidegate_proto::{Key, Prefix, Value};
use tokio::task::JoinHandle;

/// How often it is looked whether everything is followed.
const CATCHES_UP: u32 = 20;

/// The history of one store.
pub struct Auditor {
    trace: Arc<Mutex<Trace>>,
    follows: JoinHandle<()>,
}

impl Auditor {
    /// Follows a store from its beginning.
    ///
    /// # Errors
    /// None in practice: the store is reached in process.
    pub async fn begin(store: &Embedded, ground: Ground) -> Result<Self, etcd_client::Error> {
        Self::begin_after(store, ground, Trace::default(), 0).await
    }

    /// Follows a copy of the store that was made earlier: up to where it was made, its history is the former one's, which
    /// it may have compacted.
    ///
    /// # Errors
    /// None in practice: the store is reached in process.
    pub async fn follow_copy(&self, copy: &Embedded, ground: Ground) -> Result<Self, etcd_client::Error> {
        let now = copy.client().await?.get("revision", None).await?;
        let made = now.header().map_or(0, etcd_client::ResponseHeader::revision);
        let mut trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner).clone();
        trace.revisions.retain(|revision| revision.number <= made);
        for revision in &trace.revisions {
            revision.writes.iter().for_each(|written| notice(&ground, written, None));
        }
        Self::begin_after(copy, ground, trace, made).await
    }

    async fn begin_after(
        store: &Embedded,
        ground: Ground,
        trace: Trace,
        revision: i64,
    ) -> Result<Self, etcd_client::Error> {
        let (client, trace) = (store.client().await?, Arc::new(Mutex::new(trace)));
        let follows = tokio::spawn(follow(client, ground, Arc::clone(&trace), revision));
        Ok(Self { trace, follows })
    }

    /// Every breach of a rule in the history.
    pub fn breaches(&self) -> Vec<crate::trace::Broken> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).breaches()
    }

    /// The names of everybody who is in the history of events.
    pub fn names(&self) -> BTreeSet<String> {
        let trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        let written = trace.revisions.iter().flat_map(|revision| &revision.writes);
        let of = written.filter_map(|written| match &written.put.as_ref()?.value {
            Value::Event(event) => Some(event.body.who.clone()),
            _ => None,
        });
        of.collect()
    }

    /// Waits until everything is followed that was written so far.
    ///
    /// # Errors
    /// None in practice: the store is reached in process.
    pub async fn catch_up(&self, store: &Embedded) -> Result<(), etcd_client::Error> {
        let now = store.client().await?.get("revision", None).await?;
        let written = now.header().map_or(0, etcd_client::ResponseHeader::revision);
        let last = || {
            let trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
            trace.revisions.last().map_or(0, |revision| revision.number)
        };
        // The last revision may have written nothing that is followed.
        for _ in 0..CATCHES_UP {
            if last() >= written {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// The agent of a node is started again.
    pub fn note_restart(&self, node: &str) {
        let mut trace = self.trace.lock().unwrap_or_else(PoisonError::into_inner);
        let at = trace.revisions.last().map_or(0, |revision| revision.number);
        trace.restarts.extend(node.parse().ok().map(|node| (node, at)));
    }

    /// How many revisions wrote something.
    pub fn revisions(&self) -> usize {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).revisions.len()
    }
}

impl Drop for Auditor {
    fn drop(&mut self) {
        self.follows.abort();
    }
}

async fn follow(mut client: Client, ground: Ground, trace: Arc<Mutex<Trace>>, after: i64) {
    let prefix = Prefix::default();
    let options = WatchOptions::new().with_prefix().with_start_revision(after + 1).with_fragment();
    let Ok(mut stream) = client.watch(prefix.all(), Some(options)).await else { return };
    while let Ok(Some(message)) = stream.message().await {
        let mut trace = trace.lock().unwrap_or_else(PoisonError::into_inner);
        for event in message.events() {
            let Some(kv) = event.kv() else { continue };
            // What cannot be read was written by a misfortune: as a report it tells as little as none.
            if trace.take_in(&prefix, kv, event.event_type() == EventType::Delete).is_err() {
                if !matches!(prefix.parse(kv.key()), Some(Ok(Key::Report(..)))) {
                    continue;
                }
                drop(trace.take_in(&prefix, kv, true));
            }
            if let Some(written) = trace.revisions.last().and_then(|revision| revision.writes.last()) {
                notice(&ground, written, Some(kv.mod_revision()));
            }
        }
    }
}

/// Takes in what was written; without a revision it is known already, and what stands now is set back to it.
fn notice(ground: &Ground, written: &Written, revision: Option<i64>) {
    let now = ground.now();
    let mut state = ground.state();
    let value = written.put.as_ref().map(|put| &put.value);
    let mut line = None;
    match (&written.key, value) {
        (Key::Window(service), Some(Value::Window(window))) => {
            let (body, place) = (&window.body, ground.names().service(service.as_str()));
            line = Some(format!("window of {service}: {body}"));
            if let Some(facts) = place.and_then(|place| state.facts.services.get_mut(place)) {
                facts.windows.push((now, body.floor.get(), body.ceiling.get()));
                facts.contracted = body.contracted.map_or(body.floor.get(), |v| v.get());
            }
        }
        (Key::Directive(service, node), Some(Value::Directive(directive))) => {
            let at = place(ground, service.as_str(), node.as_str());
            line = Some(format!("directive of {service}/{node}: {}", directive.body.disposition.word()));
            if let Some(at) = at {
                state.facts.directed.insert(at, now);
            }
        }
        (Key::Upgrade(id), Some(Value::Upgrade(upgrade))) => {
            let phase = upgrade.body.phase.name();
            let paused = upgrade.body.paused.is_some();
            let super::ground::State { facts, slots, .. } = &mut *state;
            let changed = facts.phases.get(id.as_str()).is_none_or(|(was, _)| *was != phase);
            if changed {
                facts.phases.insert(id.to_string(), (phase, now));
                facts.reached.insert(phase);
                ground.changed().notify_one();
                line = Some(format!("{id}: {phase:?}"));
                if phase == PhaseName::Contract && revision.is_some() {
                    contracts(ground, facts, slots, &upgrade.body, now);
                }
            }
            if facts.paused.insert(id.to_string(), paused) != Some(paused) && (paused || !changed) {
                line = Some(format!("{id}: {}", if paused { "paused" } else { "not paused" }));
            }
        }
        (Key::Stream(name), Some(Value::Stream(stream))) => {
            noticed(ground, &mut state, name.as_str(), &stream.body, revision);
        }
        (Key::Leader, value) => {
            line = Some(match value {
                Some(Value::Leader(leader)) => format!("{} leads", leader.body.address),
                _ => "nobody leads".to_owned(),
            });
        }
        (Key::Report(service, node), None) => line = Some(format!("{service}/{node} falls silent")),
        _ => {}
    }
    if let (Some(line), Some(revision)) = (line, revision) {
        state.story.tell(now, &format!("[{revision}] {line}"));
    }
}

/// Nothing old runs when contract begins, nor can what runs be older than what was said: of the service itself and of each
/// that shares the schema.
fn contracts(ground: &Ground, facts: &mut Facts, slots: &BTreeMap<At, Slot>, upgrade: &Upgrade, now: u64) {
    let shared = upgrade.spec.schema.iter().flat_map(|schema| &schema.shared_with);
    for (service, needs) in std::iter::once((&upgrade.spec.service, &upgrade.spec.to)).chain(shared) {
        let Some(service) = ground.names().service(service.as_str()) else { continue };
        for (at, slot) in slots.iter().filter(|((of, _), _)| *of == service) {
            if facts.liars.contains(&at.1) {
                continue;
            }
            let Some(run) = slot.alive(now).filter(|run| run.is.version < needs.get()) else { continue };
            let name = ground.names().instance(*at);
            facts.breach(now, 1, format!("contract began while {name} ran version {}", run.is.version));
        }
    }
}

fn place(ground: &Ground, service: &str, node: &str) -> Option<At> {
    Some((ground.names().service(service)?, ground.names().node(node)?))
}
