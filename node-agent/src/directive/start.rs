//! From a stop to a start: a start follows a confirmed stop and an admission, and no start hook runs twice at a time.

use super::act::Act;
use super::decide::{Context, target};
use super::identity::was_started;
use super::seen::{DisableFile, Staging, Url};
use crate::config::settings::Driver;
use crate::host::{Alive, HookState, Target};
use crate::journal::Phase;
use std::time::Duration;
use tidegate_proto::mutant;
use tidegate_proto::record::directive::Disposition;

/// How many stops something else may undo under one order: a person starts the service by hand, or the machine does. After one
/// more it is a supervisor that does so each time.
const UNDONE_STOPS: u32 = 2;

impl Context<'_> {
    pub(super) fn stopping(&self) -> Act {
        // Without a lock of the agent's own, silence is no proof: the stop hook runs, to its end.
        let provable = !matches!(self.service.driver, Some(Driver::Command(_)));
        let stopped = provable && self.seen.alive == Alive::No || mutant::is("stop-is-not-confirmed");
        let hook_runs = matches!(self.seen.hook, HookState::Runs | HookState::OtherRuns);
        match self.seen.file {
            _ if stopped => Act::Enter(Phase::Stopped),
            // It was taken out of the configuration: nothing here stops it any more.
            _ if !self.has_driver() => self.leave_again(),
            _ if self.came_in_before_its_stop() => self.leave_again(),
            _ if hook_runs && self.in_phase_for() >= self.hook_time() => Act::EndHook,
            // Its own supervisor may start it beside the hook: it must not come into rotation before it is stopped.
            DisableFile::Absent => Act::Disable,
            // An earlier agent began it: the service is looked at until the hook ends, and again before another one runs.
            DisableFile::Own | DisableFile::Foreign if hook_runs => Act::Wait,
            DisableFile::Own | DisableFile::Foreign => Act::Stop,
        }
    }

    /// Continues the stop whose hook an earlier agent began and whose journal is lost. The hook is not taken back: what it
    /// stops must not come into rotation.
    pub(super) fn takes_up_stop(&self) -> Option<Act> {
        let is_unknown = matches!(self.journal.phase, Phase::Fresh | Phase::Refused { .. });
        if !is_unknown || self.seen.hook != HookState::Runs {
            return None;
        }
        // Only the store shows that no other agent manages this instance.
        Some(if self.seen.store { Act::Enter(Phase::Stopping) } else { Act::Wait })
    }

    /// Whether it came into rotation after this phase was journalled and before it was stopped: the agent or the machine
    /// ended in between. Without hooks the agent itself stops it, to its end, in one act: if it still runs in a look, the
    /// stop was not begun, or its agent ended meanwhile. A stop hook that runs is not taken back; one that has ended has not
    /// stopped what answers.
    fn came_in_before_its_stop(&self) -> bool {
        let answers = matches!(self.seen.alive, Alive::Yes | Alive::Unknown);
        match self.seen.file {
            _ if self.seen.hook == HookState::Runs => false,
            // A person removed the file; or it went with the machine, and what its supervisor has started since is in the
            // open.
            DisableFile::Absent => answers,
            // Its health check does not heed the file; or it was without a file, or did not refuse, while its stop hook ran.
            DisableFile::Own | DisableFile::Foreign => {
                let was_in = self.timers.has_been_shown() || self.may_have_come_in_unseen();
                self.seen.url == Url::Good || answers && was_in
            }
        }
    }

    /// Whether it answers 503 only since this phase began, or its agent has begun in this phase and does not know since when: it
    /// may have answered 200 in between. What a declined directive of a former store stops was never shown, and no other step
    /// would stop it. A process that the agent stops itself may end at any moment, because the former agent may have asked it
    /// to: nothing but its stop may follow, lest another order shows it again.
    fn may_have_come_in_unseen(&self) -> bool {
        let was_never_in = self.journal.declined && self.journal.obeys_former_store();
        let may_be_ending = !matches!(self.service.driver, Some(Driver::Command(_)));
        match was_never_in || may_be_ending {
            true => self.timers.refuses_anew(),
            false => self.timers.may_refuse_anew(),
        }
    }

    /// It is stopped only after another drain, and not at all where no directive takes it out.
    fn leave_again(&self) -> Act {
        Act::Enter(match self.disposition() {
            Some(Disposition::Drain | Disposition::Replace { .. } | Disposition::Stop) => Phase::Draining,
            Some(Disposition::Serve { .. }) | None => Phase::Fresh,
        })
    }

    fn hook_time(&self) -> Duration {
        match &self.service.driver {
            Some(Driver::Command(hooks)) => hooks.timeout,
            _ => Duration::ZERO,
        }
    }

    fn unknown_outcome(&self) -> Act {
        let limit = self.hook_time();
        if self.in_phase_for() < limit {
            return Act::Wait;
        }
        let reason = format!(
            "the agent ended while the start hook ran, so that it is not known how that ended; and nothing answered at {} within {} s",
            self.service.ready_url,
            limit.as_secs_f64()
        );
        Act::Enter(Phase::failed(Phase::STARTING, reason, true))
    }

    pub(super) fn stopped(&self) -> Act {
        if self.seen.alive == Alive::Yes {
            // Something else started it: it stays disabled until it is admitted.
            return if self.seen.file == DisableFile::Absent {
                Act::Disable
            } else {
                Act::Enter(self.once_started_again(Phase::Fresh))
            };
        }
        match self.disposition() {
            _ if self.seen.file == DisableFile::Absent => Act::Disable,
            // What the machine has started by itself may not answer yet.
            _ if self.seen.hook == HookState::EarlierBoot => self.start_again(),
            Some(Disposition::Stop) => Act::Wait,
            Some(Disposition::Drain) => Act::Enter(Phase::Draining),
            Some(Disposition::Replace { .. }) => match &self.seen.staging {
                Staging::Pending => Act::Wait,
                Staging::Failed(reason) => Act::Enter(Phase::failed("staging", reason.clone(), true)),
                Staging::Ready => self.admit_target(),
            },
            Some(Disposition::Serve { .. }) | None => self.admit_target(),
        }
    }

    /// The phase of what something else has started since its stop: `next`, or a failure where the order stops it once more
    /// and too many of its stops were undone so.
    fn once_started_again(&self, next: Phase) -> Phase {
        // What does not answer cannot be admitted: it is stopped under every order.
        let is_stopped_again = self.seen.runs || self.phase_once_admitted() == Phase::Draining;
        if !is_stopped_again || self.timers.undone_stops < UNDONE_STOPS {
            return next;
        }
        let stops = self.timers.undone_stops + 1;
        let reason = format!(
            "something else started the service again after each of {stops} stops: the stop hook has to stop it by its supervisor (such as `systemctl stop`), so that the supervisor does not start it again"
        );
        Phase::failed(Phase::STOPPING, reason, true)
    }

    fn admit_target(&self) -> Act {
        let Some(target) = target(self.service, self.journal).filter(|_| self.has_driver()) else {
            return Act::Wait;
        };
        let stopped = self.seen.nothing_runs(&self.journal.phase);
        if !stopped || self.timers.restart_at.is_some_and(|at| self.seen.now < at) {
            return Act::Wait;
        }
        if self.seen.store {
            return Act::AdmitTarget(target);
        }
        let allowed = self.stands_without_store(target.version, Some(&target.tag));
        if allowed { Act::Enter(Phase::Starting { target }) } else { Act::Wait }
    }

    /// Whether the start has to go on before a newer order is accepted: its hook runs, or something answers, or may after a
    /// boot, that is not what was to be started.
    pub(super) fn is_start_unsettled(&self, target: &Target) -> bool {
        let is_begun = matches!(self.seen.hook, HookState::Runs | HookState::EarlierBoot);
        is_begun || self.answers_unstarted(target)
    }

    /// Whether something answers that is not what was to be started.
    fn answers_unstarted(&self, target: &Target) -> bool {
        let answers = matches!(self.seen.alive, Alive::Yes | Alive::Unknown);
        answers && !was_started(self.journal, self.seen, target)
    }

    pub(super) fn starting(&self, target: &Target) -> Act {
        let is_other = self.answers_unstarted(target);
        let may_start = !self.seen.readmit || self.stands_without_store(target.version, Some(&target.tag));
        match self.seen.alive {
            _ if self.seen.hook == HookState::Runs && self.in_phase_for() < self.hook_time() => Act::Wait,
            _ if self.seen.hook == HookState::Runs => Act::EndHook,
            // Only the store shows that no other agent manages this instance.
            _ if is_other && !self.seen.store => Act::Wait,
            // Something else may have started it since its stop: nothing is started beside what cannot be known.
            Alive::Unknown if self.seen.hook == HookState::NotBegun => Act::Enter(Phase::Stopped),
            _ if is_other => Act::Enter(self.once_started_again(Phase::Stopping)),
            // It runs already: the agent ended between starting it and journalling that.
            Alive::Yes => Act::Enter(Phase::Verifying),
            _ if self.seen.file == DisableFile::Absent => Act::Disable,
            // Begun, and its end was not seen: what answers shows whether it worked; it is not run a second time.
            _ if self.seen.hook == HookState::Ended => self.unknown_outcome(),
            _ if self.seen.hook == HookState::EarlierBoot => self.start_again(),
            // Something else has started it since its stop, and it does not answer.
            _ if self.seen.runs && !mutant::is("start-without-a-status-look") => match self.start_again() {
                Act::Enter(next) => Act::Enter(self.once_started_again(next)),
                act => act,
            },
            // The agent ended before it started it: the window may have moved since, or the configuration names no driver now.
            _ if self.seen.readmit && self.seen.store || !self.has_driver() => Act::Enter(Phase::Stopped),
            _ if !may_start => Act::Wait,
            _ => Act::Start(target.clone()),
        }
    }
}
