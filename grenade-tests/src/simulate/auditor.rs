//! Follows every key's history as it is written, over a line of its own that nothing disturbs.

mod notice;

use self::notice::notice;
use super::database::TermOrigin;
use super::record_size;
use super::testbed::Testbed;
use crate::trace::Trace;
use crate::trace::falsify::FalseRecord;
use etcd_client::{Client, EventType, GetOptions, WatchOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::{InstanceId, Key, Prefix, ServiceName, UpgradeId, Value};
use tokio::task::JoinHandle;

/// How often it is looked whether everything is followed.
const CATCHES_UP: u32 = 20;

/// The last directive of each instance, with the revision that wrote it: its generation.
pub(super) type Directives = BTreeMap<Key, (i64, Value)>;

/// The history of one store.
pub(super) struct Auditor {
    trace: Arc<Mutex<Trace>>,
    follows: JoinHandle<()>,
}

impl Auditor {
    /// Follows a store from the first revision after this one.
    ///
    /// # Errors
    /// None in practice: the store is reached in process.
    pub(super) async fn begin(
        store: &Embedded,
        testbed: Testbed,
        after: i64,
    ) -> Result<Self, etcd_client::Error> {
        Self::begin_after(store, testbed, Trace::default(), after).await
    }

    /// Follows a copy that was made earlier of the store with this history: up to where it was made, that is its own too,
    /// which it may have compacted. The store whose place it takes had these directives.
    ///
    /// # Errors
    /// None in practice: the store is reached in process.
    pub(super) async fn follow_copy(
        mut trace: Trace,
        former: &Directives,
        copy: &Embedded,
        testbed: Testbed,
    ) -> Result<Self, etcd_client::Error> {
        let prefix = Prefix::default();
        let all = GetOptions::new().with_prefix();
        let found = copy.client().await?.get(prefix.all(), Some(all)).await?;
        let made = found.header().map_or(0, etcd_client::ResponseHeader::revision);
        trace.go_back_to(made);
        trace.copied = Some((made, testbed.now()));
        // As they are in the copy: what could not be read when it was made is unreadable again, and nothing else is.
        trace.spoilt = unreadable(&prefix, found.kvs().iter().map(|kv| (kv.key(), kv.value())));
        let ordered_before = {
            let facts = &mut testbed.state().facts;
            facts.silent.begin_again();
            facts.drains.begin_again();
            facts.late_failures.begin_again();
            facts.obeyed.begin_again();
            facts.forget_copied();
            facts.ordered_out.clone()
        };
        // An agent reads the last directive only, and goes on under one that the former store had with the same generation.
        let mut new = directives(&trace);
        new.retain(|key, last| former.get(key) != Some(&*last));
        for revision in &trace.revisions {
            for written in &revision.writes {
                let last = new.get(&written.key).map(|(number, _)| *number);
                if !matches!(written.key, Key::Directive(..)) || last == Some(revision.number) {
                    notice(&testbed, written, None);
                }
            }
        }
        testbed.state().facts.note_copied(&ordered_before);
        Self::begin_after(copy, testbed, trace, made).await
    }

    async fn begin_after(
        store: &Embedded,
        testbed: Testbed,
        trace: Trace,
        revision: i64,
    ) -> Result<Self, etcd_client::Error> {
        let (client, trace) = (store.client().await?, Arc::new(Mutex::new(trace)));
        let follows = tokio::spawn(follow(client, testbed, Arc::clone(&trace), revision));
        Ok(Self { trace, follows })
    }

    /// What is known of the store's history so far.
    pub(super) fn history(&self) -> Trace {
        self.trace().clone()
    }

    /// The same, to be read at once.
    pub(super) fn trace(&self) -> MutexGuard<'_, Trace> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last directive of each instance.
    pub(super) fn directives(&self) -> Directives {
        directives(&self.trace())
    }

    /// Every breach of a rule in the history, falsified where that is asked for.
    pub(super) fn breaches(&self, record: Option<FalseRecord>) -> Vec<crate::trace::Broken> {
        let trace = self.trace();
        let Some(record) = record else {
            return trace.breaches().into_iter().chain(trace.needless_drains()).collect();
        };
        let mut falsified = trace.clone();
        record.apply(&mut falsified);
        falsified.breaches()
    }

    /// Every name in the history of events.
    pub(super) fn names(&self) -> BTreeSet<String> {
        let trace = self.trace();
        let written = trace.revisions.iter().flat_map(|revision| &revision.writes);
        let of = written.filter_map(|written| match &written.put.as_ref()?.value {
            Value::Event(event) => Some(event.body.who.clone()),
            _ => None,
        });
        of.collect()
    }

    /// Of each service, the upgrade that began last.
    pub(super) fn begun_last(&self) -> BTreeMap<ServiceName, UpgradeId> {
        let trace = self.trace();
        let written = trace.revisions.iter().flat_map(|revision| &revision.writes);
        let begun = written.filter_map(|written| match (&written.key, &written.put.as_ref()?.value) {
            (Key::Active(service), Value::Active(active)) => {
                Some((service.clone(), active.body.upgrade.clone()))
            }
            _ => None,
        });
        begun.collect()
    }

    /// Where the store has a term from.
    pub(super) fn origin(&self, term: &str) -> TermOrigin {
        let trace = self.trace();
        let written = trace.revisions.iter().flat_map(|revision| &revision.writes);
        let origins =
            written.map(|written| match (&written.key, written.put.as_ref().map(|put| &put.value)) {
                (Key::Term(given), Some(_)) if given.as_str() == term => TermOrigin::Given,
                (_, Some(Value::Reconciliation(by)))
                    if by.body.terms.iter().any(|known| known.as_str() == term) =>
                {
                    TermOrigin::Reconciled
                }
                _ => TermOrigin::Unknown,
            });
        origins.max().unwrap_or(TermOrigin::Unknown)
    }

    /// Waits until everything is followed that was written so far.
    ///
    /// # Errors
    /// None in practice: the store is reached in process.
    pub(super) async fn catch_up(&self, store: &Embedded) -> Result<(), etcd_client::Error> {
        let now = store.client().await?.get("revision", None).await?;
        let written = now.header().map_or(0, etcd_client::ResponseHeader::revision);
        let last = || {
            let trace = self.trace();
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
    pub(super) fn note_restart(&self, node: &str) {
        self.trace().note_restart(node);
    }

    /// The agent of an instance is started without its journal.
    pub(super) fn note_lost_journal(&self, instance: InstanceId) {
        self.trace().note_lost_journal(instance);
    }

    /// A leader was stopped at `began`, went on at `ended`, and has led all that time.
    pub(super) fn note_stop(&self, began: u64, ended: u64) {
        self.trace().stops.push((began, ended));
    }

    /// From now on requests of coordinators are late or lost, or are not any more.
    pub(super) fn note_network(&self, is_bad: bool, now: u64) {
        self.trace().note_network(is_bad, now);
    }

    /// In this revision something else wrote in place of an agent.
    pub(super) fn note_lie(&self, revision: i64) {
        self.trace().lies.insert(revision);
    }

    /// How many revisions wrote something.
    pub(super) fn revisions(&self) -> usize {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).revisions.len()
    }
}

impl Drop for Auditor {
    fn drop(&mut self) {
        self.follows.abort();
    }
}

fn directives(trace: &Trace) -> Directives {
    let mut last = Directives::new();
    for revision in &trace.revisions {
        for written in &revision.writes {
            if let (Key::Directive(..), Some(put)) = (&written.key, &written.put) {
                last.insert(written.key.clone(), (revision.number, put.value.clone()));
            }
        }
    }
    last
}

/// Keys whose record cannot be read. An unreadable report counts as no report.
fn unreadable<'a>(prefix: &Prefix, records: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> BTreeSet<Key> {
    let read = records.filter_map(|(key, bytes)| Some((prefix.parse(key)?.ok()?, bytes)));
    let unreadable =
        read.filter(|(key, bytes)| !matches!(key, Key::Report(..)) && Value::decode(key, bytes).is_err());
    unreadable.map(|(key, _)| key).collect()
}

async fn follow(mut client: Client, testbed: Testbed, trace: Arc<Mutex<Trace>>, after: i64) {
    let prefix = Prefix::default();
    let options = WatchOptions::new().with_prefix().with_start_revision(after + 1).with_fragment();
    let mut live = trace.lock().unwrap_or_else(PoisonError::into_inner).live();
    let Ok(mut stream) = client.watch(prefix.all(), Some(options)).await else { return };
    while let Ok(Some(message)) = stream.message().await {
        let mut trace = trace.lock().unwrap_or_else(PoisonError::into_inner);
        for event in message.events() {
            let restarted = std::mem::take(&mut testbed.state().restarted);
            restarted.iter().for_each(|node| trace.note_restart(&testbed.names().nodes[*node]));
            let Some(kv) = event.kv() else { continue };
            // An unreadable report was written by a fault: it counts as no report.
            if trace.take_in(&prefix, kv, event.event_type() == EventType::Delete).is_err() {
                match prefix.parse(kv.key()) {
                    Some(Ok(Key::Report(..))) => drop(trace.take_in(&prefix, kv, true)),
                    Some(Ok(key)) => {
                        trace.spoilt.insert(key);
                        continue;
                    }
                    _ => continue,
                }
            } else if let Some(Ok(key)) = prefix.parse(kv.key())
                && trace.spoilt.remove(&key)
            {
                trace.by_hand.insert(kv.mod_revision());
            }
            trace.seen_at.insert(kv.mod_revision(), testbed.now());
            let bytes = kv.key().len() + kv.value().len();
            testbed.state().facts.sizes.take_in(kv.mod_revision(), bytes);
            if let Some(written) = trace.revisions.last().and_then(|revision| revision.writes.last()) {
                let (now, number) = (testbed.now(), kv.mod_revision());
                let known = testbed.state().facts.known_after(now);
                let by_hand = trace.by_hand.contains(&number);
                let broken = live.take_in(number, written, now, known);
                if let Some(broken) = broken.filter(|_| !by_hand) {
                    testbed.state().facts.breach(now, broken.rule, broken.what);
                }
                if let Some(what) = record_size::judge(&written.key, kv.value().len()) {
                    testbed.state().facts.breach(now, 11, what);
                }
                let endless = testbed.state().facts.rate.take_in(number, now, &written.key);
                if let Some(what) = endless {
                    testbed.state().facts.breach(now, 0, what);
                }
                notice(&testbed, written, Some(number));
            }
        }
    }
}

#[cfg(test)]
mod tests;
