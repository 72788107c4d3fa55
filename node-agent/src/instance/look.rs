//! What an instance decides on: the service as it is seen, what the store has, and what the journal makes of both.

use super::{Fatal, Instance};
use crate::admit::{self, NotAdmitted};
use crate::directive::accept::{self, Reading};
use crate::directive::seen::{Probed, Seen, Staging};
use crate::host::HookState;
use crate::journal::Phase;
use crate::link::inputs::Inputs;
use tidegate_proto::{Revision, mutant};
use tokio::time::Instant;

/// The store is not the one that was obeyed so far.
#[derive(Debug, thiserror::Error)]
#[error(
    "the store has an older window than the one that was journalled, or none: it was restored or replaced. Nothing is \
     done before a person has reconciled it (`tidegate fleet reconcile`)"
)]
struct FellBack;

impl Instance {
    /// Looks at the service and at what the store has.
    pub(super) async fn look(&mut self) -> Result<Seen, Fatal> {
        let store = self.look_at_the_store().await?;
        self.begin_save().await?;
        let look = match self.looked.take() {
            Some(look) => look,
            None => self.observer.look(&self.journal.phase, Instant::now()).await,
        };
        self.note_hanging(&look.probe);
        let inputs = &self.seen_inputs;
        let mut seen = Seen {
            now: look.now,
            store,
            alive: look.alive,
            probe: look.probe,
            ready: look.ready,
            masked: look.masked,
            gone: look.gone,
            said: look.said,
            health: look.health,
            file: look.file,
            url: look.url,
            balancers: look.balancers,
            in_flight: look.in_flight,
            window: inputs.shown_window(),
            wanted: inputs.directive.clone(),
            reconciled: None,
            readmit: true,
            staging: Staging::Pending,
            hook: HookState::NotBegun,
        };
        self.timers.take_in(&seen);
        self.timers.faults.take_in(&self.journal.phase, &seen, self.service.debounce);
        self.timers.answers.take_in(&self.journal.phase, &seen);
        self.look_again_at(&mut seen).await?;
        Ok(seen)
    }

    /// What the store has is looked at anew, and the service is as it was seen before.
    pub(super) async fn take_in_news(&mut self, seen: &mut Seen) -> Result<(), Fatal> {
        seen.store = self.look_at_the_store().await?;
        seen.window = self.seen_inputs.shown_window();
        seen.wanted = self.seen_inputs.directive.clone();
        self.look_again_at(seen).await
    }

    /// What the store has, and whether it is to be obeyed.
    async fn look_at_the_store(&mut self) -> Result<bool, Fatal> {
        if self.publisher.has_ended() {
            self.be_silent().await?;
        }
        self.seen_inputs = self.inputs.borrow_and_update().clone();
        let inputs = self.seen_inputs.clone();
        self.note_fall_of_the_store(&inputs);
        self.publisher.seen_gone(inputs.no_report_at);
        self.speaks = inputs.reachable() && self.may_speak(&inputs)?;
        let fell_back = accept::fell_back(&self.journal, inputs.shown_window().as_ref());
        if fell_back {
            self.trouble(&FellBack);
        }
        Ok(self.speaks && !fell_back)
    }

    /// What the journal makes of what was seen: after each look, and after each act that leaves the world as it was seen.
    pub(super) async fn look_again_at(&mut self, seen: &mut Seen) -> Result<(), Fatal> {
        self.see_to_releases().await?;
        let word = self.seen_inputs.reconciliation.as_ref();
        seen.reconciled = accept::reconciled(&self.journal, &self.service.name, &self.id.node, word);
        seen.readmit = self.must_readmit(&self.seen_inputs, self.lease_epoch());
        seen.staging = self.stager.state(&self.journal);
        seen.hook = self.start_hook();
        self.raise_alarm(seen);
        Ok(())
    }

    /// Takes in what was brought or removed, and begins with the next.
    async fn see_to_releases(&mut self) -> Result<(), Fatal> {
        if self.stager.collect(&mut self.journal) {
            self.note();
        }
        if let Some(errand) = self.stager.next(&self.journal) {
            self.save().await?;
            self.stager.begin(errand);
        }
        Ok(())
    }

    /// A store that fell back has an older report than the last one, or none: whoever leads must hear what this agent
    /// obeyed since. Also where the fall itself went unseen, because its revisions were raised.
    fn note_fall_of_the_store(&mut self, inputs: &Inputs) {
        let lies = inputs.report.as_ref().map_or(Revision::ABSENT, |(revision, _)| *revision);
        let older = inputs.listed >= self.publisher.at() && lies < self.publisher.at();
        if std::mem::replace(&mut self.falls, inputs.falls) != inputs.falls || older {
            self.publisher.forget();
            self.admitted_under = None;
        }
    }

    /// Whether the report's key is ours to write: absent, or of this agent in this boot.
    fn may_speak(&mut self, inputs: &Inputs) -> Result<bool, Fatal> {
        let Some((_, Some(holder))) = &inputs.report else { return Ok(true) };
        match admit::check_holder(&self.id, holder, &self.identity) {
            Ok(()) => Ok(true),
            Err(held @ NotAdmitted::Held { .. }) => Err(Fatal::Held(held)),
            Err(earlier) => {
                self.trouble(&earlier);
                Ok(false)
            }
        }
    }

    /// The running version is admitted anew when the agent begins, after its lease was lost, and when somebody else
    /// (`admit` on the command line) has written the inventory since.
    pub(super) fn must_readmit(&self, inputs: &Inputs, epoch: Option<u64>) -> bool {
        let under = self.admitted_under;
        let is_another = under != epoch && !mutant::is("new-lease-needs-no-admission");
        under.is_none() || is_another || inputs.inventory > self.journal.admission()
    }

    /// Asked only where the answer matters: it reads files.
    fn start_hook(&self) -> HookState {
        match (&self.journal.phase, &self.driver) {
            _ if mutant::is("begun-hook-is-forgotten") => HookState::NotBegun,
            (Phase::Starting { .. } | Phase::Stopped, Some(driver)) => driver.start_hook(),
            _ => HookState::NotBegun,
        }
    }

    fn note_hanging(&self, probe: &Probed) {
        // While it starts up, nothing is expected of it yet.
        let expected = !matches!(
            self.journal.phase,
            Phase::Fresh | Phase::Verifying | Phase::Stopping | Phase::Stopped | Phase::Starting { .. }
        );
        self.link.hangs(&self.service.name, expected && *probe == Probed::Late);
    }

    fn raise_alarm(&mut self, seen: &Seen) {
        let generation = seen.wanted.as_ref().map(|order| order.generation);
        let reading = accept::read(&self.journal, seen);
        let text = match reading {
            Reading::Older => {
                "the store has an older directive than the one that was accepted: it was restored or replaced; the accepted one stands"
            }
            Reading::Different => {
                "the store has another directive under the generation that was accepted; the accepted one stands"
            }
            Reading::Known | Reading::Newer(_) => {
                self.alarmed = None;
                return;
            }
        };
        if self.alarmed != generation {
            tracing::error!(service = %self.service.name, ?generation, accepted = %self.journal.generation(), "{text}");
            self.alarmed = generation;
        }
    }
}
