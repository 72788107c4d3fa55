//! What really happened, as the store shows it to a watcher from the beginning: what was decided, and for each instance
//! what was ordered and what it did. Two runs that did the same have the same trace.

use crate::herd::service;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tidegate_proto::record::report::{Health, Rotation};
use tidegate_proto::{Key, NodeId, Value};
use tidegate_store::{Change, Entry, Scope, Seen, Store};
use tokio_util::sync::CancellationToken;

/// What happened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Trace {
    /// Each event of the upgrade.
    pub decided: Vec<String>,
    /// Each window.
    pub windows: Vec<String>,
    /// What was wanted of each instance and what it did: directives, admissions, steps.
    pub instances: BTreeMap<NodeId, Vec<String>>,
}

/// A watcher of the store.
#[derive(Clone)]
pub(super) struct Onlooker {
    seen: Arc<Mutex<Sights>>,
}

#[derive(Default)]
struct Sights {
    trace: Trace,
    in_service: BTreeMap<NodeId, bool>,
    least: Option<usize>,
}

impl Onlooker {
    /// Looks on from now to the end.
    pub(super) fn begin(store: &Store, end: CancellationToken) -> Self {
        let onlooker = Self { seen: Arc::default() };
        let (seen, mut stream) = (onlooker.seen.clone(), store.watch(vec![Scope::All], end));
        tokio::spawn(async move {
            while let Some(next) = stream.recv().await {
                let entries = match next {
                    Seen::Listed(snapshot) => snapshot.entries,
                    Seen::Changed { changes, .. } => changes.into_iter().filter_map(put).collect(),
                    _ => continue,
                };
                let mut sights = seen.lock().unwrap();
                entries.into_iter().for_each(|entry| sights.take_in(entry));
                sights.count();
            }
        });
        onlooker
    }

    /// What was seen so far.
    pub(super) fn trace(&self) -> Trace {
        self.seen.lock().unwrap().trace.clone()
    }

    /// The fewest instances that were in rotation and healthy at any revision.
    pub(super) fn least_in_service(&self) -> usize {
        self.seen.lock().unwrap().least.expect("it has seen the beginning")
    }
}

fn put(change: Change) -> Option<Entry> {
    match change {
        Change::Put(entry) => Some(entry),
        Change::Gone { .. } | Change::Foreign { .. } => None,
    }
}

impl Sights {
    fn take_in(&mut self, entry: Entry) {
        match (entry.key, entry.value) {
            (Key::Event(..), Ok(Value::Event(event))) => {
                self.trace.decided.push(format!("{} -> {}", event.body.from, event.body.to));
            }
            (Key::Window(of), Ok(Value::Window(window))) if of == service() => {
                self.trace.windows.push(window.body.to_string());
            }
            (Key::Directive(_, node), Ok(Value::Directive(directive))) => {
                let present: Vec<&str> = directive.body.releases.iter().map(|r| r.tag.as_str()).collect();
                let disposition = serde_json::to_string(&directive.body.disposition).unwrap();
                self.step(node, format!("wanted: {disposition} with {present:?}"), false);
            }
            (Key::Inventory(_, node), Ok(Value::Inventory(inventory))) => {
                self.step(node, format!("admitted at {}", inventory.body.version), false);
            }
            (Key::Report(_, node), Ok(Value::Report(report))) => {
                let report = report.body;
                let serves = report.rotation == Rotation::In && report.health == Health::Healthy;
                self.in_service.insert(node.clone(), serves);
                let step = serde_json::to_string(&report.step).unwrap();
                self.step(node, format!("{step} {:?} at {:?}", report.rotation, report.version), true);
            }
            _ => {}
        }
    }

    /// A report may be written again for other reasons than its step.
    fn step(&mut self, node: NodeId, line: String, repeats: bool) {
        let lines = self.trace.instances.entry(node).or_default();
        let last_step =
            lines.iter().rev().find(|line| !line.starts_with("wanted") && !line.starts_with("admitted"));
        if !repeats || last_step != Some(&line) {
            lines.push(line);
        }
    }

    fn count(&mut self) {
        let serving = self.in_service.values().filter(|serves| **serves).count();
        self.least = Some(self.least.map_or(serving, |least| least.min(serving)));
    }
}
