//! A plan for one upgrade in the making: what is known of it, what was decided so far, and the one way in which its
//! commits are built.
//!
//! # Invariants
//! * Every commit compares the leader's key and the upgrade's mod_revision, and writes its event.
//! * At most one commit of a turn rewrites the upgrade's record, and none follows it. What has to follow a move at once
//!   joins its commit.

use crate::action::{Action, PlannedCommit, SchemaJob};
use crate::contracted;
use crate::fleet::{Fleet, Stored};
use crate::gate::person::rollback::no_rollback;
use crate::gate::roll::stall::has_deadline;
use crate::gate::{Answer, Reason};
use crate::moment::Moment;
use crate::release::need;
use crate::upgrade::View;
use crate::upgrade::phase::{Move, transition};
use std::ops::Deref;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::key::Subject;
use tidegate_proto::record::upgrade::{PhaseTime, Upgrade};
use tidegate_proto::record::window::Window;
use tidegate_proto::{Key, Revision, ServiceVersion, UpgradeId, mutant};

pub(crate) struct Draft<'a> {
    view: View<'a>,
    who: String,
    next_event: u64,
    actions: Vec<Action>,
    reasons: Vec<Reason>,
    moved: bool,
}

impl<'a> Deref for Draft<'a> {
    type Target = View<'a>;

    fn deref(&self) -> &View<'a> {
        &self.view
    }
}

impl<'a> Draft<'a> {
    pub(crate) fn new(
        fleet: &'a Fleet,
        moment: &'a Moment,
        id: &'a UpgradeId,
        upgrade: &'a Stored<Upgrade>,
        next_event: u64,
    ) -> Self {
        Self {
            view: View { fleet, moment, id, upgrade },
            who: "coordinator".to_owned(),
            next_event,
            actions: Vec::new(),
            reasons: Vec::new(),
            moved: false,
        }
    }

    pub(crate) fn view(&self) -> View<'a> {
        self.view
    }

    /// Notes a reason; the same one said from two places is said once.
    pub(crate) fn wait(&mut self, reason: Reason) {
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }

    /// Adds the reasons of a gate; returns whether it is open.
    pub(crate) fn passes(&mut self, gate: Answer) -> bool {
        gate.reasons.into_iter().for_each(|reason| self.wait(reason));
        gate.is_open
    }

    /// Whether what is waited for is an approval, or the floor of another service: neither comes sooner by a deadline.
    pub(crate) fn waits_for_others(&self) -> bool {
        self.reasons.iter().any(Reason::is_owned_by_others)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.reasons.is_empty()
    }

    pub(crate) fn schema(&mut self, job: SchemaJob) {
        self.actions.push(Action::Schema { upgrade: self.id.clone(), job });
    }

    pub(crate) fn certify(&mut self) {
        self.actions.push(Action::Certify { upgrade: self.id.clone() });
    }

    /// A commit that this upgrade authorises, without a write yet.
    pub(crate) fn commit(&self) -> Commit {
        match mutant::is("upgrade-is-not-compared") {
            true => Commit::new(),
            false => Commit::new().when(Precondition::At(Key::Upgrade(self.id.clone()), self.upgrade.at)),
        }
    }

    /// Plans a commit, with its event.
    pub(crate) fn push(&mut self, commit: Commit, what: String, from: &str, to: &str, because: &str) {
        debug_assert!(!self.moved, "nothing follows the commit that rewrites the upgrade");
        let commit = self.with_event(commit, from, to, because);
        let subject = Subject::Upgrade(self.id.clone());
        self.actions.push(Action::Commit(PlannedCommit::new(subject, what, commit)));
    }

    /// Adds to the commit that moves the upgrade on, with an event of its own; where none was planned, does nothing.
    pub(crate) fn join(&mut self, more: Commit, to: String, because: &str) {
        if !self.moved {
            return;
        }
        let more = self.with_event(more, self.upgrade.phase.name().word(), &to, because);
        if let Some(Action::Commit(planned)) = self.actions.last_mut() {
            planned.commit = std::mem::take(&mut planned.commit).with(more);
            planned.what = format!("{}, {to}", planned.what);
        }
    }

    /// Adds the next event.
    fn with_event(&mut self, commit: Commit, from: &str, to: &str, because: &str) -> Commit {
        let number = self.next_event;
        self.next_event += 1;
        let subject = Subject::Upgrade(self.id.clone());
        let words = [from.to_owned(), to.to_owned()];
        self.moment.with_event(commit, (subject, number), words, &self.who, because)
    }

    /// Plans a rewrite of the upgrade's record: the last commit of this turn.
    pub(crate) fn rewrite(
        &mut self,
        extra: Commit,
        change: impl FnOnce(&mut Upgrade),
        what: String,
        to: &str,
        because: &str,
    ) {
        let from = self.upgrade.phase.name().word();
        let mut body = self.upgrade.record.body.clone();
        let elapsed = self.elapsed();
        body.stalled_ms = elapsed.stalled_ms;
        body.phase_ms = elapsed.phase_ms;
        change(&mut body);
        let commit = self.commit().put(Key::Upgrade(self.id.clone()), self.upgrade.record.with(body));
        self.push(commit.with(extra), what, from, to, because);
        self.moved = true;
    }

    /// Plans the move to where `happened` leads, with what else changes in the same transaction.
    pub(crate) fn advance(
        &mut self,
        happened: Move,
        extra: Commit,
        change: impl FnOnce(&mut Upgrade),
        because: &str,
    ) {
        let upgrade = &self.upgrade.record.body;
        match transition(&upgrade.phase, happened, upgrade.schema.as_ref()) {
            Err(refused) => self.wait(no_rollback(&refused)),
            Ok(next) => {
                let (left, name) = (upgrade.phase.name(), next.name());
                let to = next.step();
                let what = format!("{left} -> {to}");
                let ms = self.elapsed().phase_ms;
                let over = next.is_over();
                let done = self.service().map_or(0, |service| service.done());
                let extra = if over { self.release_locks(extra) } else { extra };
                let entered = move |body: &mut Upgrade| {
                    if left != name {
                        body.timetable.push(PhaseTime { phase: left, ms });
                        body.phase_ms = 0;
                        body.done = if over { u32::try_from(done).unwrap_or(u32::MAX) } else { 0 };
                    }
                    body.stalled_ms = 0;
                    body.phase = next;
                    change(body);
                };
                self.rewrite(extra, entered, what, &to, because);
            }
        }
    }

    fn release_locks(&self, extra: Commit) -> Commit {
        let service = self.spec().service.clone();
        let extra = extra.delete(Key::Active(service));
        match &self.upgrade.schema {
            Some(schema) => extra.delete(Key::ActiveSchema(schema.id.clone())),
            None => extra,
        }
    }

    /// A new window for the service, with its preconditions; nothing where the window is the same already.
    pub(crate) fn window(&self, commit: Commit, floor: ServiceVersion, ceiling: ServiceVersion) -> Commit {
        self.window_above(commit, floor, ceiling, ServiceVersion::ABSENT)
    }

    /// The same, where from the same transaction on a schema requires at least this version.
    pub(crate) fn window_above(
        &self,
        commit: Commit,
        floor: ServiceVersion,
        ceiling: ServiceVersion,
        required: ServiceVersion,
    ) -> Commit {
        let service = self.spec().service.clone();
        let (now, at) = self.service().map_or((None, Revision::ABSENT), |s| (s.window(), s.window_at()));
        let contracted = contracted::bound(self.fleet, &service).map(|before| before.max(required));
        let body = Window { floor, ceiling, set_by: self.id.clone(), contracted };
        if now.is_some_and(|window| window.record.body == body) {
            return commit;
        }
        // Rule 8: whatever lowers a floor compares what releases need of it.
        let lowers = now.is_some_and(|window| floor < window.floor);
        let commit = if lowers { need::same(self.fleet, commit, &service) } else { commit };
        let commit = commit.when(Precondition::At(Key::Window(service.clone()), at));
        let commit = contracted::compared(self.fleet, commit);
        match now {
            Some(window) => commit.put(Key::Window(service), window.record.with(body)),
            None => commit.put(Key::Window(service), body),
        }
    }

    /// Stores how long the upgrade has waited, every few seconds, and again when something was done or nothing is under
    /// way: then it waits for an operator, and that is no stall. Where it hardly waited before something was done, the
    /// next move stores that, without a commit between. Where the phase has no deadline, only its own time has changed: that is
    /// stored more and more seldom, down to once a minute.
    pub(crate) fn checkpoint(&mut self, done: usize, idle: bool) {
        const EVERY_MS: u64 = 5_000;
        const SELDOM_MS: u64 = 60_000;
        const HARDLY_MS: u64 = 1_000;
        if self.moved || self.has_commits() {
            return;
        }
        let elapsed = self.elapsed();
        let progressed = self.has_progressed(done);
        let moved_on = progressed && elapsed.stalled_ms >= HARDLY_MS;
        let has_deadline = has_deadline(&self.upgrade.phase);
        let every_ms = match has_deadline {
            true => EVERY_MS,
            false => (self.upgrade.phase_ms / 20).clamp(EVERY_MS, SELDOM_MS),
        };
        let due = elapsed.phase_ms >= self.upgrade.phase_ms + every_ms;
        let rested = has_deadline && idle && elapsed.stalled_ms >= EVERY_MS;
        if !(moved_on || due || rested) {
            return;
        }
        let mut body = self.upgrade.record.body.clone();
        body.stalled_ms = if progressed || idle { 0 } else { elapsed.stalled_ms };
        body.phase_ms = elapsed.phase_ms;
        body.done = body.done.max(done as u32);
        let commit = self.commit().put(Key::Upgrade(self.id.clone()), self.upgrade.record.with(body));
        let subject = Subject::Upgrade(self.id.clone());
        self.actions.push(Action::Commit(PlannedCommit::new(subject, "checkpoint".to_owned(), commit)));
        self.moved = true;
    }

    /// Whether more is done than was stored: what was counted as a stall until then is none.
    pub(crate) fn has_progressed(&self, done: usize) -> bool {
        done as u32 > self.upgrade.done
    }

    /// Whether this turn already decided something about the store.
    pub(crate) fn has_commits(&self) -> bool {
        self.actions.iter().any(|action| matches!(action, Action::Commit(_)))
    }

    /// Whether this turn already asks for work on the schema.
    pub(crate) fn works_on_schema(&self) -> bool {
        self.actions.iter().any(|action| matches!(action, Action::Schema { .. } | Action::Certify { .. }))
    }

    /// Has the next events name this person.
    pub(crate) fn on_behalf_of(&mut self, who: &str) {
        who.clone_into(&mut self.who);
    }

    pub(crate) fn next_event(&self) -> u64 {
        self.next_event
    }

    pub(crate) fn finish(self) -> (Vec<Action>, Vec<Reason>) {
        (self.actions, self.reasons)
    }
}

/// The most writes of one commit that a plan fills up to: room for fence, upgrade, budget and event is left.
pub(crate) const BATCH: usize = 50;

/// How many orders of one commit compare a report as well, at most: so many leave room for the others in one transaction.
pub(crate) const BATCH_AS_REPORTED: usize = BATCH / 3;
