//! The people of a metadata group: they set one document after the other. What a node shows is judged by its file.
//!
//! * A node shows a former document again only where the update to the later one was returned from or cancelled.
//! * Once nothing else goes on, every node shows the document that is in effect for all. Where there is none, a node whose
//!   journal was lost may show one that was returned from.
//!
//! Neither is asked where the store was replaced: what it knew of the group may be gone.

use super::advice::reconciled;
use super::document::{Fall, GROUP, METADATA_FILE, number};
use super::metadata_plan::{DocumentUpdate, MetadataPlan};
use super::operator::Operator;
use super::world::World;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use tidegate_coordinator::operation;
use tidegate_proto::metadata::MetadataGeneration;
use tidegate_proto::record::group::{Group, UpdateOutcome};
use tidegate_proto::wire::v1::SetMetadataRequest;
use tidegate_proto::{GroupName, Value};

/// How often they look, in milliseconds.
const LOOK: u64 = 1_000;

/// So long after everything else is over, the next document is set, or every node shows what it should, in milliseconds.
const PATIENCE: u64 = 300_000;

/// Since when people wait for one document, while nothing else goes on.
#[derive(Debug, Default)]
struct Waiting {
    since: Option<u64>,
}

impl Waiting {
    /// They look. The time begins again with each document that was set.
    fn looked(&mut self, rests: bool, is_set: bool, now: u64) {
        self.since = rests.then(|| self.since.filter(|_| !is_set).unwrap_or(now));
    }

    /// Whether that is too long.
    fn is_over(&self, now: u64) -> bool {
        self.since.is_some_and(|since| now >= since + PATIENCE)
    }
}

/// Who sets the documents.
#[derive(Debug)]
pub(super) struct MetadataPeople {
    plan: MetadataPlan,
    left: VecDeque<(u64, DocumentUpdate)>,
    looked_at: u64,
    waiting: Waiting,
    /// Everything was set, and every node was seen to show what it should.
    pub over: bool,
}

impl MetadataPeople {
    /// Those of the world's group.
    pub(super) fn of(world: &World) -> Option<Self> {
        let plan = world.scenario.metadata.clone()?;
        let left = (1..).zip(plan.updates.iter().cloned()).collect();
        Some(Self { plan, left, looked_at: 0, waiting: Waiting::default(), over: false })
    }

    /// What they do now. `rests` says that no upgrade and no fault goes on.
    pub(super) async fn step(&mut self, world: &World, rests: bool) {
        let now = world.testbed.now();
        if self.over || now < self.looked_at + LOOK {
            return;
        }
        self.looked_at = now;
        let mut is_set = false;
        if let Some((number, update)) = self.left.pop_front_if(|(_, update)| rests || update.at <= now) {
            is_set = self.set(world, number, &update).await;
            if !is_set {
                self.left.push_front((number, update));
            }
        }
        self.waiting.looked(rests, is_set, now);
        if !rests {
            return;
        }
        let wrong = self.shows_another(world);
        match wrong {
            None if self.left.is_empty() => self.over = true,
            _ if !self.waiting.is_over(now) => {}
            wrong => {
                let wrong = wrong.unwrap_or_else(|| "a document could not be set".to_owned());
                world.testbed.state().facts.breach(now, 0, format!("metadata group {GROUP}: {wrong}"));
                self.over = true;
            }
        }
    }

    /// Sets a document; whether it was taken. A store that is to be reconciled first is reconciled: the people of an upgrade
    /// may have ended with it before that was possible.
    async fn set(&self, world: &World, number: u64, update: &DocumentUpdate) -> bool {
        let Ok((context, leadership)) = Operator::new(&world.coordinators).leader() else { return false };
        let mut body = json!({
            "document": {"n": number}, "pattern": update.pattern,
            "service": world.scenario.services[self.plan.on].name,
        });
        if update.pattern != "immediate" {
            body["timeout"] = json!(format!("{}ms", update.timeout));
            body["tolerate"] = if update.returns { json!(0) } else { json!("100%") };
        }
        if update.pattern == "rolling" {
            body["batch"] = json!(update.batch);
        }
        let asked = SetMetadataRequest {
            group: GROUP.to_owned(),
            body: body.to_string(),
            who: "administrator".to_owned(),
            why: "another document".to_owned(),
        };
        let done = operation::metadata::set_metadata(context, &leadership, asked).await;
        world.testbed.log(format!("document {number}: {:?}", done.as_ref().map(|done| &done.what)));
        if let Err(why) = &done {
            reconciled(world, &why.to_string()).await;
        }
        done.is_ok()
    }

    /// What differs from the document that is in effect for all, on a node whose agent runs.
    fn shows_another(&self, world: &World) -> Option<String> {
        let seen = Seen::of(world);
        let group = seen.group.as_ref().filter(|_| !world.store_lost)?;
        if let Some(update) = &group.update {
            return Some(format!("the update to generation {} has no end", update.to.generation));
        }
        let wanted = group.current.and_then(|current| seen.numbers.get(&current.generation).copied());
        let state = world.testbed.state();
        let follows = |node: &usize| world.agents[*node].is_some() && !world.byzantine.contains(node);
        let mut nodes = world.scenario.services[self.plan.on].nodes.iter().copied().filter(follows);
        nodes.find_map(|node| {
            let shown = state.disks[node].files.get(Path::new(METADATA_FILE)).and_then(|file| number(file));
            let name = &world.testbed.names().nodes[node];
            // Without its state directory an agent cannot know that the file is its own.
            let may_stay = wanted.is_none() && state.facts.journals_lost.contains_key(&node);
            (shown != wanted && !may_stay)
                .then(|| format!("{name} shows document {shown:?}, and {wanted:?} is served to all"))
        })
    }
}

/// Judges each fall by the history of the group.
pub(super) fn judge_falls(world: &World) {
    if world.scenario.metadata.is_none() || world.store_lost {
        return;
    }
    let seen = Seen::of(world);
    let falls = std::mem::take(&mut world.testbed.state().facts.falls);
    for Fall { at, node, from, to } in falls {
        let returned = seen.returned.iter().any(|generation| seen.numbers.get(generation) == Some(&from));
        if !returned {
            let what =
                format!("{node} shows document {to} of {GROUP} after {from}, which was not returned from");
            world.testbed.state().facts.breach(at, 0, what);
        }
    }
}

/// What the history says of the group.
#[derive(Default)]
struct Seen {
    group: Option<Group>,
    /// The number of each document.
    numbers: BTreeMap<MetadataGeneration, u64>,
    /// Updates that did not finish.
    returned: BTreeSet<MetadataGeneration>,
}

impl Seen {
    fn of(world: &World) -> Self {
        let (mut seen, name) = (Self::default(), GROUP.parse::<GroupName>().expect("a plain word is a name"));
        let trace = world.auditor.trace();
        for written in trace.revisions.iter().flat_map(|revision| &revision.writes) {
            match (&written.key, written.put.as_ref().map(|put| &put.value)) {
                (tidegate_proto::Key::Group(group), Some(Value::Group(record))) if *group == name => {
                    let ended = record.body.last.as_ref();
                    seen.returned.extend(
                        ended
                            .filter(|last| last.outcome != UpdateOutcome::Finished)
                            .map(|last| last.generation),
                    );
                    seen.group = Some(record.body.clone());
                }
                (tidegate_proto::Key::Document(group, generation), Some(Value::Document(record)))
                    if *group == name =>
                {
                    if let Some(n) = record.body.document.get("n").and_then(serde_json::Value::as_u64) {
                        seen.numbers.insert(*generation, n);
                    }
                }
                _ => {}
            }
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_have_patience_for_each_document() {
        let mut waiting = Waiting::default();
        waiting.looked(false, true, 1_000);
        assert!(!waiting.is_over(1_000 + 2 * PATIENCE), "an upgrade goes on");
        waiting.looked(true, false, 10_000);
        let set_at = 9_000 + PATIENCE;
        waiting.looked(true, true, set_at);
        assert!(!waiting.is_over(10_000 + PATIENCE), "another document was set since");
        waiting.looked(true, false, set_at + LOOK);
        assert!(!waiting.is_over(set_at + PATIENCE - 1) && waiting.is_over(set_at + PATIENCE));
        waiting.looked(false, false, set_at + PATIENCE);
        assert!(!waiting.is_over(set_at + PATIENCE), "a fault begins");
    }
}
