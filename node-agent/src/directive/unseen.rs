//! Time in which the agent did not look, because a slow store or disk kept it from that, or because it was stopped. What it saw
//! before says nothing of that time.

use super::steady::DIP;
use super::timers::Timers;
use crate::config::Service;
use crate::journal::Phase;
use tokio::time::Instant;

impl Timers {
    /// A look begins, in `phase`. Returns whether the agent did not look for so long that bad answers before and after that are
    /// not counted together.
    pub(crate) fn begins_look(&mut self, now: Instant, phase: &Phase, service: &Service) -> bool {
        let away = self.steady.away(now);
        // Before the first look in a phase the agent paused as in the phase before, which may have been at rest.
        let is_first = self.changed_at.is_some_and(|at| now.saturating_duration_since(at) < away);
        let pause = match phase {
            Phase::Draining if !is_first => Some(service.fast_interval),
            Phase::Draining | Phase::Drained { .. } => Some(service.interval),
            _ => None,
        };
        if pause.is_some_and(|pause| away > DIP.max(pause * 2)) {
            self.forget_refusal(now);
        }
        if self.steady.begins_look(now, service.fast_interval) {
            // It is the agent that kept it from being verified, which is no failure of it.
            self.kept_out_at = Some(now);
        }
        self.faults.begins_look(now, away, service.interval)
    }

    /// Between two looks that saw it refuse it may have answered 200, and balancers may have taken it in: the evidence of its
    /// drain begins again, and with that the time until its deadline.
    fn forget_refusal(&mut self, now: Instant) {
        (self.unavailable_since, self.refuses_since, self.deregistered_since) = (None, None, None);
        self.file_since = now;
    }
}
