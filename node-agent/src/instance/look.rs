//! What an instance decides on: the service as it is seen, what the store has, and what the journal makes of both.

use super::{Fatal, Instance};
use crate::admit::{self, NotAdmitted};
use crate::directive::accept;
use crate::directive::identity::note_doubt;
use crate::directive::seen::Seen;
use crate::host::HookState;
use crate::journal::Phase;
use tidegate_proto::mutant;
use tokio::time::Instant;

/// The store is not the one that was obeyed so far.
#[derive(Debug, thiserror::Error)]
#[error(
    "the store has an older window or directive than the one that was journalled, or no window: it was restored or \
     replaced. Nothing is done before a person has reconciled it (`tidegate fleet reconcile`)"
)]
struct FellBack;

/// A person has disregarded what this agent obeyed.
#[derive(Debug, thiserror::Error)]
#[error(
    "the store was behind what this agent obeyed, and a person disregarded that. Nothing is done before a plan includes \
     this instance (`tidegate fleet reconcile --include`)"
)]
struct Disregarded;

impl Instance {
    /// Looks at the service and at what the store has.
    pub(super) async fn look(&mut self) -> Result<Seen, Fatal> {
        self.writer.write_before_look(&self.journal).await?;
        let store = self.look_at_the_store().await?;
        let now = Instant::now();
        if self.timers.begins_look(now, &self.journal.phase, &self.service) {
            self.observer.begins_again();
        }
        let look = self.observer.look(&self.journal.phase, now).await;
        self.timers.steady.ends_look(Instant::now());
        self.store.link.hangs(&self.service.name, look.hangs(&self.journal));
        let mut seen = Seen {
            store,
            window: self.store.last.shown_window(),
            wanted: self.store.last.directive.clone(),
            ..look
        };
        self.timers.take_in(&seen);
        self.timers.faults.take_in(&self.journal.phase, &seen, self.service.debounce);
        self.timers.answers.take_in(&self.journal.phase, &seen);
        self.look_again_at(&mut seen).await?;
        Ok(seen)
    }

    /// Reads the store again; what was seen of the service is kept.
    pub(super) async fn take_in_news(&mut self, seen: &mut Seen) -> Result<(), Fatal> {
        seen.store = self.look_at_the_store().await?;
        seen.window = self.store.last.shown_window();
        seen.wanted = self.store.last.directive.clone();
        self.look_again_at(seen).await
    }

    /// What the store has; returns whether it is to be obeyed.
    async fn look_at_the_store(&mut self) -> Result<bool, Fatal> {
        if self.reporter.publisher.has_ended() {
            self.reporter.finish().await?;
        }
        self.store.read();
        if self.store.takes_in_regression(self.reporter.publisher.at()) {
            self.reporter.publisher.forget();
        }
        self.reporter.publisher.seen_gone(self.store.last.no_report_at);
        self.take_in_lapse();
        self.reporter.may_write = self.store.last.reachable() && self.may_report()?;
        let (fell_back, disregarded) = (self.store.is_behind(&self.journal), self.is_disregarded());
        match disregarded {
            true => self.reporter.warn(&Disregarded),
            false if fell_back => self.reporter.warn(&FellBack),
            false => {}
        }
        Ok(self.reporter.may_write && !fell_back && !disregarded)
    }

    /// Where the report under which the version was admitted is gone, it is admitted again. Returns whether that is so.
    pub(super) fn take_in_lapse(&mut self) -> bool {
        let lapsed = self.reporter.publisher.takes_lapse() && !mutant::is("lapse-needs-no-admission");
        if lapsed {
            self.store.admitted_under = None;
        }
        lapsed
    }

    fn is_disregarded(&self) -> bool {
        let word = self.store.last.reconciliation.as_ref();
        accept::is_disregarded(&self.journal, &self.service.name, &self.own.id.node, word)
    }

    /// What the journal makes of what was seen: after each look, and after each act that only changes the journal.
    pub(super) async fn look_again_at(&mut self, seen: &mut Seen) -> Result<(), Fatal> {
        self.continue_staging().await?;
        let word = self.store.last.reconciliation.as_ref();
        seen.reconciled = accept::reconciled(&self.journal, &self.service.name, &self.own.id.node, word);
        seen.disregarded = self.is_disregarded();
        seen.readmit = self.store.must_readmit(&self.journal, self.store.epoch());
        seen.unasked = !self.store.last.known && !self.store.last.away;
        seen.recorded = self.store.last.unjournalled(&self.own.identity, &self.journal);
        seen.staging = self.stager.state(&self.journal);
        seen.booted = self.journal.was_booted_since_start(&self.own.identity.boot);
        seen.hook = self.moving_hook();
        if note_doubt(&mut self.journal, seen) {
            self.writer.mark_changed();
        }
        let (generation, accepted) =
            (seen.wanted.as_ref().map(|order| order.generation), self.journal.generation());
        self.reporter.log_directive(&accept::read(&self.journal, seen), generation, accepted);
        Ok(())
    }

    /// Takes in what was staged or removed, and begins with the next.
    async fn continue_staging(&mut self) -> Result<(), Fatal> {
        if self.stager.collect(&mut self.journal) {
            self.writer.mark_changed();
        }
        if let Some(task) = self.stager.next(&self.journal) {
            self.writer.flush(&self.journal).await?;
            self.stager.begin(task);
        }
        Ok(())
    }

    /// Whether the report's key is absent, or of this agent in this boot.
    fn may_report(&mut self) -> Result<bool, Fatal> {
        let Some((_, Some(holder))) = &self.store.last.report else { return Ok(true) };
        match admit::check_holder(&self.own.id, holder, &self.own.identity) {
            Ok(()) => Ok(true),
            Err(held @ NotAdmitted::Held { .. }) => Err(Fatal::Held(held)),
            Err(earlier) => {
                self.reporter.warn(&earlier);
                Ok(false)
            }
        }
    }

    /// The stop hook while it stops, and where a lost journal may have had a stop that still runs; else the start hook, until
    /// what was started is identified and verified, and once it has failed. Asked only where the answer matters, because it
    /// reads files.
    fn moving_hook(&self) -> HookState {
        match (&self.journal.phase, &self.driver) {
            _ if mutant::is("begun-hook-is-forgotten") => HookState::NotBegun,
            (Phase::Starting { .. } | Phase::Stopped | Phase::Verifying, Some(driver)) => driver.start_hook(),
            (Phase::Failed { .. }, Some(driver)) => driver.start_hook(),
            (Phase::Fresh | Phase::Refused { .. } | Phase::Stopping, Some(driver)) => driver.stop_hook(),
            (_, Some(driver)) if self.journal.unidentified.is_some() => driver.start_hook(),
            _ => HookState::NotBegun,
        }
    }
}
