//! What is observed of compute releases: streams, needs, evidence and the signals of computes about canaries. Releases
//! themselves, their tags and manifests are not here: there are thousands, and no turn asks for them.

use super::share::Places;
use super::{Fleet, Stored};

use std::collections::BTreeMap;
use tidegate_proto::key::SignalSubject;
use tidegate_proto::record::evidence::{Evidence, Verdict};
use tidegate_proto::record::need::Need;
use tidegate_proto::record::stream::Stream;
use tidegate_proto::record::task::{Task, TaskResult};
use tidegate_proto::{ComputeId, Key, NodeId, ReleaseTag, Revision, ServiceName, StreamName, TaskId, Value};

/// The records.
#[derive(Debug, Clone, Default)]
pub(super) struct ComputeRecords {
    streams: BTreeMap<StreamName, Stored<Stream>>,
    needs: BTreeMap<ServiceName, Stored<Need>>,
    evidence: BTreeMap<(ReleaseTag, ReleaseTag), Stored<Evidence>>,
    signals: BTreeMap<SignalSubject, Signals>,
    tasks: BTreeMap<(NodeId, TaskId), Stored<Task>>,
    results: BTreeMap<(NodeId, TaskId), Stored<TaskResult>>,
    strays: u64,
}

/// The signals of computes about one canary.
#[derive(Debug, Clone, Default)]
struct Signals {
    words: BTreeMap<ComputeId, StoredSignal>,
}

/// The signal of one compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredSignal {
    /// Whether it reported success.
    pub success: bool,
    /// The record's mod_revision.
    pub at: Revision,
    /// The compute's places in the canary. They are calculated when the record is read, because every turn asks.
    pub places: Places,
}

/// How many computes signalled success, and how many failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SignalCount {
    /// Of success.
    pub successes: usize,
    /// Of failure.
    pub failures: usize,
}

impl ComputeRecords {
    /// Whether a key is of a result that belongs to no task: an agent's user may write any number of them.
    pub(super) fn is_stray(&self, key: &Key) -> bool {
        matches!(key, Key::TaskResult(node, id) if !self.tasks.contains_key(&(node.clone(), id.clone())))
    }

    /// One more of these was seen.
    pub(super) fn saw_stray(&mut self) {
        self.strays += 1;
    }

    /// All of one revision is there: results come before their tasks, in the order of the keys.
    pub(super) fn loaded(&mut self) {
        let (tasks, before) = (&self.tasks, self.results.len());
        self.results.retain(|of, _| tasks.contains_key(of));
        self.strays += (before - self.results.len()) as u64;
    }

    pub(super) fn put(&mut self, key: Key, value: Value, at: Revision) {
        match (key, value) {
            (Key::Stream(name), Value::Stream(record)) => {
                self.streams.insert(name, Stored { record, at });
            }
            (Key::Need(service), Value::Need(record)) => {
                self.needs.insert(service, Stored { record, at });
            }
            (Key::Evidence(compute, storage), Value::Evidence(record)) => {
                self.evidence.insert((compute, storage), Stored { record, at });
            }
            (Key::Signal(subject, compute), Value::Signal(record)) => {
                let places = Places::of(&subject, &compute);
                let word = StoredSignal { success: record.body.success, at, places };
                self.signals.entry(subject).or_default().words.insert(compute, word);
            }
            (Key::Task(node, id), Value::Task(record)) => {
                self.tasks.insert((node, id), Stored { record, at });
            }
            (Key::TaskResult(node, id), Value::TaskResult(record)) => {
                self.results.insert((node, id), Stored { record, at });
            }
            _ => {}
        }
    }

    pub(super) fn delete(&mut self, key: &Key) {
        match key {
            Key::Stream(name) => drop(self.streams.remove(name)),
            Key::Need(service) => drop(self.needs.remove(service)),
            Key::Evidence(compute, storage) => {
                self.evidence.remove(&(compute.clone(), storage.clone()));
            }
            Key::Task(node, id) => {
                let of = (node.clone(), id.clone());
                self.tasks.remove(&of);
                self.results.remove(&of);
            }
            Key::TaskResult(node, id) => drop(self.results.remove(&(node.clone(), id.clone()))),
            Key::Signal(subject, compute) => {
                if let Some(signals) = self.signals.get_mut(subject) {
                    signals.words.remove(compute);
                    if signals.words.is_empty() {
                        self.signals.remove(subject);
                    }
                }
            }
            _ => {}
        }
    }
}

impl Fleet {
    /// A release stream.
    pub fn stream(&self, name: &StreamName) -> Option<&Stored<Stream>> {
        self.compute.streams.get(name)
    }

    /// Every release stream, by name.
    pub fn streams(&self) -> impl Iterator<Item = (&StreamName, &Stored<Stream>)> {
        self.compute.streams.iter()
    }

    /// What the floor of a service must not fall below.
    pub fn need(&self, service: &ServiceName) -> Option<&Stored<Need>> {
        self.compute.needs.get(service)
    }

    /// Every need, by service.
    pub fn needs(&self) -> impl Iterator<Item = (&ServiceName, &Stored<Need>)> {
        self.compute.needs.iter()
    }

    /// The verdict of a compatibility run, and its mod_revision.
    pub fn evidence(&self, compute: &ReleaseTag, storage: &ReleaseTag) -> Option<(Verdict, Revision)> {
        self.evidence_record(compute, storage).map(|stored| (stored.record.body.verdict, stored.at))
    }

    /// What is recorded of compatibility runs of a pair.
    pub fn evidence_record(&self, compute: &ReleaseTag, storage: &ReleaseTag) -> Option<&Stored<Evidence>> {
        self.compute.evidence.get(&(compute.clone(), storage.clone()))
    }

    /// A hook that is to be run on a node.
    pub fn task(&self, node: &NodeId, id: &TaskId) -> Option<&Stored<Task>> {
        self.compute.tasks.get(&(node.clone(), id.clone()))
    }

    /// Every hook that is to be run, or was.
    pub fn tasks(&self) -> impl Iterator<Item = (&NodeId, &TaskId, &Stored<Task>)> {
        self.compute.tasks.iter().map(|((node, id), task)| (node, id, task))
    }

    /// What came of a hook.
    pub fn task_result(&self, node: &NodeId, id: &TaskId) -> Option<&Stored<TaskResult>> {
        self.compute.results.get(&(node.clone(), id.clone()))
    }

    /// How often a result that belongs to no task was seen. None is kept; the leader removes them from the store.
    pub fn strays(&self) -> u64 {
        self.compute.strays
    }

    /// How many signals of a canary are stored; [`crate::release::canary::counted`] gives those that count.
    pub fn stored_signals(&self, subject: &SignalSubject) -> usize {
        self.compute.signals.get(subject).map_or(0, |signals| signals.words.len())
    }

    /// Every signal of a canary, with the compute that it is of.
    pub fn signals_of(
        &self,
        subject: &SignalSubject,
    ) -> impl Iterator<Item = (&ComputeId, &StoredSignal)> + use<'_> {
        self.compute.signals.get(subject).into_iter().flat_map(|signals| &signals.words)
    }

    /// The signal of one compute about a canary.
    pub fn signal(&self, subject: &SignalSubject, compute: &ComputeId) -> Option<&StoredSignal> {
        self.compute.signals.get(subject)?.words.get(compute)
    }

    /// Every subject that has signals, with the computes that signalled.
    pub fn signals(&self) -> impl Iterator<Item = (&SignalSubject, impl Iterator<Item = &ComputeId>)> {
        self.compute.signals.iter().map(|(subject, signals)| (subject, signals.words.keys()))
    }
}
