//! What must hold at each revision of a store, by the number of its rule in `docs/rules.md`.

mod admission;
mod capacity;
mod certificate;
mod domains;
mod fence;
mod phase;
mod window;
mod words;

use std::collections::BTreeSet;
use std::fmt;

use tidegate_proto::{InstanceId, NodeId, Value};

use super::releases;
use super::revision::{Revision, Written};
use super::seen::Seen;

/// Who sets a window when a restored store is reconciled.
pub(super) const RECONCILIATION: &str = "reconciliation";

/// A rule that a revision broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// The revision.
    pub at: i64,
    /// The rule's number; 0 is the fence, which holds for all of them.
    pub rule: u8,
    /// What was found.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "revision {}, rule {}: {}", self.at, self.rule, self.what)
    }
}

/// One step from `before` to `after`.
pub(super) struct Judge<'a> {
    pub(super) before: &'a Seen,
    pub(super) revision: &'a Revision,
    pub(super) after: &'a Seen,
    agents: Agents<'a>,
    /// The last revision that a coordinator had seen for certain when it wrote this one.
    pub(super) known: i64,
    /// It may have been planned on the store whose place this copy took: what reports and admissions of the copy say was not
    /// known.
    pub(super) of_former_view: bool,
    broken: Vec<Broken>,
}

/// What a coordinator knew when it wrote a revision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Known {
    /// The last revision that it had seen for certain.
    pub(super) last: i64,
    /// Whether it may have seen only the store whose place this copy took.
    pub(super) of_former_view: bool,
}

/// What is known of agents beside the history.
#[derive(Debug, Clone, Copy)]
pub(super) struct Agents<'a> {
    /// Which one was started again, and the revision then.
    pub(super) restarts: &'a [(NodeId, i64)],
    /// Instances whose agent was started without its journal, and the revision then.
    pub(super) without_journal: &'a [(InstanceId, i64)],
    /// Revisions that something else wrote in place of one.
    pub(super) lies: &'a BTreeSet<i64>,
}

/// Judges one revision of a history.
pub(super) fn judge(
    agents: Agents<'_>,
    before: &Seen,
    revision: &Revision,
    after: &Seen,
    known: Known,
) -> Vec<Broken> {
    let Known { last: known, of_former_view } = known;
    let mut judge = Judge { before, revision, after, agents, known, of_former_view, broken: Vec::new() };
    judge.only_a_leader_writes();
    judge.nothing_is_forgotten();
    judge.words_have_their_event();
    judge.admitted_within_the_window();
    judge.reports_lapse_with_their_lease();
    judge.reports();
    judge.capacity();
    judge.one_upgrade_a_service();
    releases::judge(&mut judge);
    for (id, upgrade) in &after.upgrades {
        judge.upgrade(id, upgrade);
    }
    judge.broken
}

/// Whether an event of a person was written: coordinators write under a name of their own.
pub(super) fn is_an_operators_request(written: &Written) -> bool {
    let value = written.put.as_ref().map(|put| &put.value);
    matches!(value, Some(Value::Event(event)) if event.body.who != "coordinator")
}

impl Judge<'_> {
    pub(super) fn holds(&mut self, rule: u8, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(Broken { at: self.revision.number, rule, what: what() });
        }
    }
}
