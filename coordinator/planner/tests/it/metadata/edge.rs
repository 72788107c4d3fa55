//! A world with one metadata group, and what is asked of it.

use crate::sim::{World, node};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use tidegate_planner::ask::metadata::{self as ask, Asked, MetadataSignal};
use tidegate_planner::ask::{Asker, Refusal};
use tidegate_planner::{Fleet, Moment, Reason, Stored, metadata, plan};
use tidegate_proto::metadata::UpdateRequest;
use tidegate_proto::record::group::Group;
use tidegate_proto::{GroupName, Key, NodeId, Value};

pub(super) fn group() -> GroupName {
    "edge".parse().unwrap()
}

pub(super) fn asker(why: &str) -> Asker {
    Asker { who: "anna".into(), why: why.into(), accepts: BTreeSet::new() }
}

/// A document that says `x`, with changes in JSON.
pub(super) fn request(x: u64, change: Json) -> UpdateRequest {
    let mut value = json!({"document": {"x": x}});
    value.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    serde_json::from_value(value).unwrap()
}

impl World {
    fn asked_of_group(
        &mut self,
        ask: impl FnOnce(&Fleet, &Moment) -> Result<Asked, Refusal>,
    ) -> Result<Asked, Refusal> {
        let asked = ask(self.store.fleet(), &self.moment())?;
        if let Some(commit) = &asked.commit {
            assert!(self.store.commit(commit), "no other writer is here");
            self.events += 1;
        }
        Ok(asked)
    }

    pub(crate) fn set(&mut self, x: u64, change: Json) -> Result<Asked, Refusal> {
        let request = request(x, change);
        let asked = self
            .asked_of_group(|fleet, moment| ask::set(fleet, moment, &group(), &request, &asker("better")))?;
        self.group_uncounted.clear();
        Ok(asked)
    }

    pub(crate) fn cancel(&mut self) -> Result<Asked, Refusal> {
        self.asked_of_group(|fleet, moment| ask::cancel(fleet, moment, &group(), &asker("not today")))
    }

    pub(crate) fn signal_metadata(
        &mut self,
        node: &NodeId,
        success: bool,
        failure: Option<&str>,
    ) -> Result<Asked, Refusal> {
        let failure = failure.map(|kind| kind.parse().unwrap());
        let signal = MetadataSignal { generation: None, success, failure };
        self.asked_of_group(|fleet, moment| ask::signal(fleet, moment, &group(), node, &signal, &asker("")))
    }

    /// Turns until nothing changes; what is waited for.
    pub(crate) fn rest(&mut self) -> Vec<Reason> {
        for _ in 0..1_000 {
            let planned = plan(self.store.fleet(), &self.moment());
            if planned.actions.is_empty() {
                return planned.groups.get(&group()).cloned().unwrap_or_default();
            }
            self.turn();
            self.group_uncounted.clear();
        }
        panic!("it never came to rest");
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        *self.group_uncounted.entry(group()).or_default() += ms;
    }

    pub(crate) fn group(&self) -> &Stored<Group> {
        self.store.fleet().group(&group()).expect("the group is there")
    }

    /// The generation that an instance is served.
    pub(crate) fn serves(&self, node: &NodeId) -> Option<u64> {
        let fleet = self.store.fleet();
        let group_now = fleet.group(&group())?;
        let served = metadata::document_of(fleet, &group(), group_now, node).expect("the pages are there");
        served.map(|served| served.generation.get())
    }

    /// What every instance is served, by node.
    pub(crate) fn all_serve(&self) -> Vec<Option<u64>> {
        (0..self.agents.len()).map(|n| self.serves(&node(n))).collect()
    }

    /// Those that are served this generation.
    pub(crate) fn exposed_to(&self, generation: u64) -> BTreeSet<NodeId> {
        (0..self.agents.len()).map(node).filter(|node| self.serves(node) == Some(generation)).collect()
    }

    pub(crate) fn documents(&self) -> BTreeSet<u64> {
        let generation = |key: &Key| match key {
            Key::Document(_, generation) => Some(generation.get()),
            _ => None,
        };
        self.store.keys.keys().filter_map(generation).collect()
    }

    /// Whether anything but the group, its documents and its history is left of its updates.
    pub(crate) fn is_tidy(&self) -> bool {
        !self.store.keys.keys().any(|key| matches!(key, Key::Exposed(..) | Key::GroupSignal(..)))
    }

    pub(crate) fn events_of_group(&self) -> Vec<String> {
        let events = self.store.keys.iter().filter_map(|(key, (value, ..))| match (key, value) {
            (Key::Event(tidegate_proto::key::Subject::Group(_), _), Value::Event(event)) => Some(event),
            _ => None,
        });
        events.map(|event| format!("{} -> {} ({})", event.body.from, event.body.to, event.body.who)).collect()
    }
}
