//! Verification: an instance that was started or returned is enabled, and serves once it was healthy and in rotation
//! for long enough.

use super::act::Act;
use super::decide::Context;
use super::identity::may_be_another;
use super::seen::DisableFile;
use super::steady::DIP;
use crate::config::settings::Driver;
use crate::host::{Alive, HookState};
use crate::journal::Phase;
use std::time::Duration;
use tidegate_proto::mutant;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{NOT_VERIFIED, Rotation};

impl Context<'_> {
    pub(super) fn verifying(&self) -> Act {
        if let Some(refusal) = &self.journal.refusal {
            return Act::Enter(Phase::refused(&refusal.reason));
        }
        if let Some(act) = self.starts_over() {
            return act;
        }
        if self.awaits_admission() {
            return Act::Wait;
        }
        if let Some(failure) = self.broken() {
            return Act::Enter(failure);
        }
        if self.seen.alive == Alive::No && self.has_driver() {
            return Act::Enter(Phase::Stopped);
        }
        let healthy = self.timers.healthy_for(self.seen.now);
        match self.seen.file {
            DisableFile::Own if (healthy.is_some() || self.may_be_ready()) && self.may_enable() => {
                return Act::Enable;
            }
            DisableFile::Absent if self.is_unready_since_enabled() => return Act::Disable,
            // A person keeps it in maintenance, which is no failure of it.
            DisableFile::Foreign => return Act::Wait,
            _ => {}
        }
        let enough = self.min_healthy_time();
        let rise = self.service.rise_time();
        let back = self.timers.rotation(self.seen, self.service) == Rotation::In;
        let steady = match mutant::is("flapping-health-is-verified") {
            true => healthy,
            false => self.timers.steady_for(self.seen.now, rise),
        };
        if back && steady.is_some_and(|time| time >= enough) {
            return Act::Enter(Phase::Serving);
        }
        let deadline: Option<Duration> = self.directive().map(|d| d.health.healthy_deadline.into());
        match deadline {
            Some(deadline) if self.timers.not_kept_out_for(self.seen.now) >= deadline => {
                let found = match (healthy, self.timers.times_disabled()) {
                    (Some(_), _) => {
                        format!("healthy, but not in rotation for {} s without a break", enough.as_secs_f64())
                    }
                    (None, 0) => "not healthy".to_owned(),
                    (None, times) => {
                        format!("not ready when it was shown ({times} times, hidden again each time)")
                    }
                };
                let answers = self.seen.last_answers();
                let reason = format!("{found} within {} s of its start; {answers}", deadline.as_secs_f64());
                Act::Enter(Phase::failed(NOT_VERIFIED, reason, !self.is_let_in()))
            }
            _ => Act::Wait,
        }
    }

    /// Whether what has failed hidden is verified again: no order takes it out or starts a release, so that where no upgrade is
    /// active nothing but its agent lets it back, and since its failure it has been healthy for as long as a verification asks.
    /// Readiness that its disable-file hides is judged when it is shown. What a former store has started and is to be stopped,
    /// because it is not what its directive names, stays hidden.
    pub(super) fn is_well_again(&self) -> bool {
        if self.journal.obeys_former_store() && self.has_failed_unrecognised() {
            return false;
        }
        let enough = self.min_healthy_time();
        let is_healthy = self.timers.healthy_for(self.seen.now).is_some_and(|time| time >= enough);
        self.journal.is_let_in() && self.in_phase_for() >= enough && (is_healthy || self.may_be_ready())
    }

    /// Whether another version than the admitted one runs where requests may reach it, and no store says whether the window
    /// admits it: one that it does not admit stays until the coordinator drains it, and is no failure of what was started.
    fn awaits_admission(&self) -> bool {
        let admitted = self.journal.admitted.as_ref().map(|admitted| admitted.version);
        let is_another = self.seen.probe.version().is_some_and(|runs| Some(runs) != admitted);
        let is_shown = self.seen.file == DisableFile::Absent && self.seen.alive != Alive::No;
        is_another && is_shown && !self.seen.store
    }

    fn min_healthy_time(&self) -> Duration {
        self.directive().map_or(Duration::ZERO, |d| d.health.min_healthy_time.into())
    }

    /// Drains what answers and may not be the release that its order starts, once it is admitted. What was shown had answered
    /// since its start.
    fn starts_over(&self) -> Option<Act> {
        let unproven = self.journal.unexposed && may_be_another(self.journal, self.seen);
        let next = self.phase_once_admitted();
        if !unproven || self.seen.probe.version().is_none() || next != Phase::Draining {
            return None;
        }
        Some(if self.seen.readmit { Act::Wait } else { Act::Enter(next) })
    }

    /// Whether it is shown, and no order takes it out or starts another release. How many others serve is known to the
    /// coordinator only, so only an order takes it out, within capacity, also where it is not healthy. Shown before its
    /// readiness could be known, and not ready in any look since, it has not come into rotation.
    fn is_let_in(&self) -> bool {
        let unready = self.timers.enabled_unready_for(self.seen.now).is_some();
        let unjudged = self.journal.shown_unjudged && unready;
        self.seen.file == DisableFile::Absent && self.journal.is_let_in() && !unjudged
    }

    /// Whether nothing but its own disable-file keeps it from answering that it is ready: that is judged when it is shown.
    pub(super) fn may_be_ready(&self) -> bool {
        let answers = self.seen.probe.version().is_some() && self.seen.alive != Alive::No;
        self.seen.masked && answers && self.timers.may_try_to_enable(self.seen.now)
    }

    /// Whether it was shown before its readiness could be known, and has had time to answer that it is ready.
    fn is_unready_since_enabled(&self) -> bool {
        let unready = self.timers.enabled_unready_for(self.seen.now);
        let enough = DIP.max(self.service.fast_interval * self.service.debounce);
        let judged = !mutant::is("shown-unready-is-left-shown");
        judged && self.journal.shown_unjudged && unready.is_some_and(|time| time >= enough)
    }

    /// Whether the machine was booted since the start hook, and nothing of the service has listened since: the machine may be
    /// starting it.
    fn may_come_up_after_a_boot(&self) -> bool {
        self.seen.hook == HookState::EarlierBoot && !self.timers.has_listened()
    }

    /// A failure of a replaced instance that no waiting will fix.
    fn broken(&self) -> Option<Phase> {
        let Some(Disposition::Replace { release }) = self.disposition() else { return None };
        let is_denied = self.seen.gone && !self.may_come_up_after_a_boot();
        // A process that ended with its machine did not end by itself: it is started again.
        let has_ended = self.seen.alive == Alive::No && !self.seen.booted;
        if has_ended || is_denied {
            let (tag, answers) = (&release.tag, self.seen.last_answers());
            let help = match &self.service.driver {
                Some(Driver::Process(_)) => "its output is in the service's log in runtime_dir",
                _ => "the status hook says that it does not run",
            };
            let reason = format!("release {tag} ended by itself after its start ({help}); {answers}");
            return Some(Phase::failed(NOT_VERIFIED, reason, true));
        }
        let runs = self.seen.probe.version().filter(|version| *version != release.version)?;
        let reason =
            format!("release {} should carry version {}, it answers {runs}", release.tag, release.version);
        Some(Phase::failed(NOT_VERIFIED, reason, true))
    }
}
