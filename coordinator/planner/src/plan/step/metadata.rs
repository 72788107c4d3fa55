//! The next step of one metadata group: the next batch of its update is exposed, all are returned, or the update ends. At
//! most one commit a turn rewrites the group.

use super::super::draft::BATCH;
use crate::action::{Action, PlannedCommit};
use crate::fleet::{Fleet, Stored};
use crate::gate::Reason;
use crate::metadata::{Next, judge};
use crate::moment::Moment;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::record::group::{EndedUpdate, Group, GroupUpdate, UpdateOutcome};
use tidegate_proto::{GroupName, Key, NodeId, Revision, mutant};

/// What a turn decides about one group.
#[derive(Default)]
pub(in crate::plan) struct Turn {
    pub(in crate::plan) actions: Vec<Action>,
    pub(in crate::plan) waiting: Vec<Reason>,
    /// How many event numbers the actions take.
    pub(in crate::plan) events: u64,
}

/// Decides the next step of a group. `number` is that of its next event.
pub(in crate::plan) fn turn(fleet: &Fleet, moment: &Moment, name: &GroupName, number: u64) -> Turn {
    let mut turn = Turn::default();
    turn.actions.extend(remove_stale_signals(fleet, name));
    let Some(stored) = fleet.group(name) else { return turn };
    let Some(update) = &stored.update else { return turn };
    let waited_ms = waited(moment, name, update);
    let by = Writer { moment, name, stored, number };
    let planned = match judge(fleet, name, update, waited_ms) {
        Next::Expose => Some(by.exposes(update)),
        Next::Finish(because) => Some(by.ends(fleet, UpdateOutcome::Finished, "coordinator", because)),
        Next::Return(because) => Some(by.ends(fleet, UpdateOutcome::Returned, "coordinator", because)),
        Next::Wait(reasons) => {
            turn.waiting = reasons;
            by.counts(update, waited_ms)
        }
    };
    if let Some((what, commit, events)) = planned {
        turn.events = events;
        let subject = Subject::Group(name.clone());
        turn.actions.push(Action::Commit(PlannedCommit::new(subject, what, commit)));
    }
    turn
}

/// How long the last batch has been exposed: the record says where that began, this leader counted on since it saw it.
pub(crate) fn waited(moment: &Moment, name: &GroupName, update: &GroupUpdate) -> u64 {
    update.waited_ms + moment.group_uncounted.get(name).copied().unwrap_or(0)
}

/// Who rewrites a group, and how.
pub(crate) struct Writer<'a> {
    pub(crate) moment: &'a Moment,
    pub(crate) name: &'a GroupName,
    pub(crate) stored: &'a Stored<Group>,
    pub(crate) number: u64,
}

impl Writer<'_> {
    /// The commit that rewrites the group, which compares it: two changes of a group never both happen.
    fn rewrites(&self, change: impl FnOnce(&mut Group)) -> Commit {
        let key = Key::Group(self.name.clone());
        let mut body = self.stored.record.body.clone();
        change(&mut body);
        let commit = match mutant::is("group-is-not-compared") {
            true => Commit::new(),
            false => Commit::new().when(Precondition::At(key.clone(), self.stored.at)),
        };
        commit.put(key, self.stored.record.with(body))
    }

    fn exposes(&self, update: &GroupUpdate) -> (String, Commit, u64) {
        let commit = self.rewrites(|group| {
            if let Some(update) = &mut group.update {
                (update.batch, update.waited_ms) = (update.batch + 1, 0);
            }
        });
        let batch =
            |batch: u32| format!("generation {} at batch {batch}/{}", update.to.generation, update.batches);
        let (from, to) = (batch(update.batch + 1), batch(update.batch + 2));
        let event = (Subject::Group(self.name.clone()), self.number);
        let because = "every instance of it has signalled";
        let commit = self.moment.with_event(commit, event, [from, to.clone()], "coordinator", because);
        (to, commit, 1)
    }

    /// The update is over: its outcome decides which document counts.
    pub(crate) fn ends(
        &self,
        fleet: &Fleet,
        outcome: UpdateOutcome,
        who: &str,
        because: String,
    ) -> (String, Commit, u64) {
        let mut generations = (None, None);
        let commit = self.rewrites(|group| {
            let Some(update) = group.update.take() else { return };
            let new = update.to;
            generations = (Some(new.generation), group.current.map(|current| current.generation));
            group.kept = match outcome {
                UpdateOutcome::Finished => group.current.replace(new).map(|former| former.generation),
                UpdateOutcome::Returned | UpdateOutcome::Cancelled => Some(new.generation),
            };
            group.last = Some(EndedUpdate {
                generation: new.generation,
                outcome,
                because: because.clone(),
                who: who.to_owned(),
                at: self.moment.wall,
            });
        });
        let commit = fleet
            .exposed_pages(self.name)
            .fold(commit, |commit, (page, _)| commit.delete(Key::Exposed(self.name.clone(), page)));
        let word = |generation: Option<_>| {
            generation
                .map_or_else(|| "no document".to_owned(), |generation| format!("generation {generation}"))
        };
        let (new, former) = (word(generations.0), word(generations.1));
        let to = match outcome {
            UpdateOutcome::Finished => format!("{new} is served to all"),
            UpdateOutcome::Returned | UpdateOutcome::Cancelled => format!("all are back at {former}"),
        };
        let event = (Subject::Group(self.name.clone()), self.number);
        let words = [format!("{new} is exposed"), to.clone()];
        let commit = self.moment.with_event(commit, event, words, who, &because);
        (to, commit, 1)
    }

    /// The count is stored every few seconds, so that another leader goes on from it.
    fn counts(&self, update: &GroupUpdate, waited_ms: u64) -> Option<(String, Commit, u64)> {
        const EVERY_MS: u64 = 5_000;
        if waited_ms < update.waited_ms + EVERY_MS {
            return None;
        }
        let commit = self.rewrites(|group| {
            if let Some(update) = &mut group.update {
                update.waited_ms = waited_ms;
            }
        });
        Some(("count".to_owned(), commit, 0))
    }
}

/// Removes the signals for documents that no update brings any more, a batch at a time.
fn remove_stale_signals(fleet: &Fleet, name: &GroupName) -> Option<Action> {
    let running =
        fleet.group(name).and_then(|group| group.update.as_ref()).map(|update| update.to.generation);
    let stale: Vec<(&NodeId, Revision)> = fleet
        .group_words(name)
        .filter(|(_, word)| running.is_none() || word.generation != running)
        .map(|(node, word)| (node, word.at))
        .take(BATCH)
        .collect();
    if stale.is_empty() {
        return None;
    }
    // A signal for another document that arrives meanwhile is kept.
    let commit = stale.into_iter().fold(Commit::new(), |commit, (node, at)| {
        let key = Key::GroupSignal(name.clone(), node.clone());
        commit.when(Precondition::At(key.clone(), at)).delete(key)
    });
    let what = format!("remove the signals of instances for {name}");
    Some(Action::Commit(PlannedCommit::new(Subject::Group(name.clone()), what, commit)))
}
