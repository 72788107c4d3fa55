//! The next act: one, or none. Pure; called after every look, and again after every act.

use super::accept::{self, Reading};
use super::phase::{Phase, Target};
use super::seen::{Alive, DisableFile, Hook, Seen, Staging};
use super::steady::DIP;
use super::timers::Timers;
use crate::config::Service;
use crate::config::settings::Driver;
use crate::journal::{Journal, Known, Order, Refusal};
use std::time::Duration;
use tidegate_proto::record::directive::{Directive, Disposition};
use tidegate_proto::record::report::Rotation;
use tidegate_proto::{ReleaseTag, Revision, ServiceVersion, mutant};

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Act {
    /// Nothing, for now.
    Wait,
    /// Journal that a person has reconciled the store, at this revision.
    Reconcile(Revision),
    /// Journal the window; the next look then acknowledges it.
    Acknowledge(Known),
    /// Journal the directive and the phase that it brings.
    Accept(Box<Order>, Phase),
    /// Journal another phase.
    Enter(Phase),
    /// Journal that the accepted directive is not carried out, and the phase with which the instance goes on.
    Decline(Phase),
    /// Put the disable-file.
    Hide,
    /// Remove the agent's own disable-file.
    Show,
    /// Have the version that runs admitted.
    AdmitRunning(ServiceVersion, Option<ReleaseTag>),
    /// Have a release admitted, then journal that it is being started.
    AdmitTarget(Target),
    /// Verify what is to be started once more, then journal that what runs is being stopped.
    BeginStop(Option<Target>),
    /// Stop what runs.
    Stop,
    /// Start the release.
    Start(Target),
    /// Kill the start hook that an earlier agent began: it takes too long.
    EndHook,
}

impl Act {
    /// Whether it takes no longer than the disk or the store does: what follows from it is reported, and not what was
    /// before it. An admission compares the report's key, so that none is written beside it.
    pub fn is_brief(&self) -> bool {
        matches!(
            self,
            Self::Reconcile(_)
                | Self::Acknowledge(_)
                | Self::Accept(..)
                | Self::Enter(_)
                | Self::Decline(_)
                | Self::Hide
                | Self::Show
                | Self::BeginStop(_)
                | Self::AdmitTarget(_)
        )
    }

    /// Whether what the store has is enough to decide on it where the service was alive when it was last looked at, however
    /// long ago: only the journal changes, or the service is hidden, which it may be at any time.
    pub fn follows_an_order(&self) -> bool {
        matches!(self, Self::Accept(..) | Self::Acknowledge(_) | Self::Hide)
    }

    /// Whether what was seen before it is still so after it: only the journal changes, and nobody is asked anything. After
    /// an acknowledgement the version is probed anew all the same (rule 1).
    pub fn leaves_the_world(&self) -> bool {
        matches!(self, Self::Accept(..) | Self::Enter(_) | Self::Decline(_) | Self::BeginStop(_))
    }
}

/// How long after the n-th fall in a row a service is started again: 1 s doubled each time, at most a minute.
pub fn backoff(falls: u32) -> Duration {
    Duration::from_secs(1 << falls.saturating_sub(1).min(6)).min(Duration::from_secs(60))
}

/// The next act.
pub fn decide(service: &Service, journal: &Journal, timers: &Timers, seen: &Seen) -> Act {
    if let Some(at) = seen.reconciled {
        return Act::Reconcile(at);
    }
    if let Some(act) = admission(service, journal, seen) {
        return act;
    }
    if let Some(Some(known)) = &seen.window
        && known.revision > journal.window_revision()
    {
        return Act::Acknowledge(known.clone());
    }
    let at = Place { service, journal, timers, seen };
    if let (Phase::Starting { target }, Hook::Runs) = (&journal.phase, seen.hook) {
        // Nothing else is begun before it has ended.
        return at.starting(target);
    }
    if let Reading::Newer(order) = accept::read(journal, seen) {
        let phase = accept::phase_for(&order, service, journal, seen, timers);
        return Act::Accept(order, phase);
    }
    match &journal.phase {
        Phase::Fresh => at.fresh(),
        Phase::Verifying => at.verifying(),
        Phase::Serving => at.serving(),
        Phase::Draining => at.draining(),
        Phase::Drained { .. } => at.drained(),
        Phase::Stopping => at.stopping(),
        Phase::Stopped => at.stopped(),
        Phase::Starting { target } => at.starting(target),
        Phase::Refused { reason, stays } => at.refused(reason, stays.is_some()),
        Phase::Failed { hidden, .. } => at.failed(*hidden),
    }
}

/// A version that runs and is not the one that was admitted goes to the inventory before anything else, and so
/// before the report.
fn admission(service: &Service, journal: &Journal, seen: &Seen) -> Option<Act> {
    let version = seen.probe.version().filter(|_| seen.alive != Alive::No && seen.store)?;
    if matches!(journal.phase, Phase::Stopping | Phase::Stopped | Phase::Starting { .. }) {
        return None;
    }
    let admitted = journal.admitted.as_ref().is_some_and(|a| a.version == version);
    let refused = journal
        .refusal
        .as_ref()
        .is_some_and(|r| r.version == version && r.window >= journal.window_revision());
    if admitted && !seen.readmit && journal.refusal.is_none() || refused {
        return None;
    }
    // Where another version came behind the agent's back, the configuration may say which release that is. What was started
    // and is hidden since is what was started, whichever version it answers.
    let same = journal.unexposed || journal.admitted.as_ref().is_none_or(|a| a.version == version);
    let release = journal.release.clone().filter(|_| same);
    Some(Act::AdmitRunning(version, release.or_else(|| service.release_of(version))))
}

/// What is to be started when nothing runs.
pub(super) fn target(service: &Service, journal: &Journal) -> Option<Target> {
    let directive = journal.order.as_ref().map(|order| &order.directive);
    if let Some(Disposition::Replace { release }) = journal.disposition() {
        return Some(release.into());
    }
    let admitted = journal.admitted.as_ref();
    let initial = service.initial_release.as_ref().filter(|_| admitted.is_none());
    // What was admitted and then not started, because the lease was lost between, is what is to be started still.
    let admitted = admitted.and_then(|admitted| admitted.release.as_ref());
    let tag = journal.release.as_ref().or(admitted).or(initial)?;
    let known = service.artifacts.get(tag).map(|artifact| Target::of_artifact(tag, artifact));
    let listed = directive.and_then(|d| d.releases.iter().find(|release| release.tag == *tag));
    listed.map(Target::from).or(known)
}

pub(super) struct Place<'a> {
    pub(super) service: &'a Service,
    pub(super) journal: &'a Journal,
    pub(super) timers: &'a Timers,
    pub(super) seen: &'a Seen,
}

impl Place<'_> {
    pub(super) fn directive(&self) -> Option<&Directive> {
        self.journal.order.as_ref().map(|order| &order.directive)
    }

    pub(super) fn disposition(&self) -> Option<&Disposition> {
        self.journal.disposition()
    }

    pub(super) fn in_phase_for(&self) -> Duration {
        self.seen.now.saturating_duration_since(self.timers.phase_since)
    }

    pub(super) fn has_driver(&self) -> bool {
        self.service.driver.is_some()
    }

    fn fresh(&self) -> Act {
        match self.seen.alive {
            // Its version was admitted above; where it was refused, it is hidden.
            Alive::Yes | Alive::Unknown => match (&self.journal.refusal, self.seen.probe.version()) {
                (Some(refusal), Some(_)) => Act::Enter(Phase::refused(&refusal.reason)),
                (None, Some(_)) if self.journal.admitted.is_some() && !self.seen.readmit => {
                    Act::Enter(Phase::Verifying)
                }
                _ => Act::Wait,
            },
            // Only the store tells that no other agent looks after this instance.
            Alive::No | Alive::Silent if target(self.service, self.journal).is_some() => self.start_anew(),
            Alive::No | Alive::Silent => Act::Wait,
        }
    }

    /// What does not answer is started anew: at once where nothing runs, after the stop hook's end where only that
    /// confirms it.
    fn start_anew(&self) -> Act {
        match self.seen.alive {
            _ if !self.has_driver() => Act::Wait,
            Alive::Silent if self.seen.store => Act::Enter(Phase::Stopping),
            Alive::No if self.seen.store || self.journal.phase != Phase::Fresh => Act::Enter(Phase::Stopped),
            _ => Act::Wait,
        }
    }

    fn refused(&self, reason: &str, stays: bool) -> Act {
        if stays && !self.stays_in_rotation() {
            // From here on it would come into rotation, and nothing comes there that was not admitted.
            return Act::Enter(Phase::refused(reason));
        }
        let moved = |refusal: &Refusal| refusal.window < self.journal.window_revision();
        let again = self.journal.refusal.as_ref().is_none_or(moved);
        let anew = match self.seen.alive {
            Alive::No | Alive::Silent if again => self.start_anew(),
            Alive::Yes | Alive::Unknown if self.journal.refusal.is_none() && !self.seen.readmit => {
                Act::Enter(Phase::Verifying)
            }
            _ => Act::Wait,
        };
        if anew == Act::Wait && !stays { self.keep_hidden() } else { anew }
    }

    /// Whether an instance whose version changed in rotation is still there.
    fn stays_in_rotation(&self) -> bool {
        let ended = self.seen.alive == Alive::No;
        !ended && !self.timers.has_left(self.seen.now, self.service.fall_time())
    }

    fn keep_hidden(&self) -> Act {
        if self.seen.file == DisableFile::Absent { Act::Hide } else { Act::Wait }
    }

    fn failed(&self, hidden: bool) -> Act {
        let asked = matches!(self.disposition(), Some(Disposition::Replace { .. } | Disposition::Stop));
        let again = self.timers.restart_at.is_some_and(|at| self.seen.now >= at);
        match (hidden, self.seen.file) {
            (true, DisableFile::Absent) => Act::Hide,
            (false, DisableFile::Own) if self.may_show() => Act::Show,
            // A service that nobody asked to replace is started again, ever more slowly.
            _ if matches!(self.seen.alive, Alive::No | Alive::Silent) && !asked && again => self.start_anew(),
            _ => Act::Wait,
        }
    }

    fn serving(&self) -> Act {
        match self.seen.file {
            _ if self.seen.alive == Alive::No && self.has_driver() => Act::Enter(Phase::Stopped),
            DisableFile::Own | DisableFile::Foreign => Act::Enter(Phase::Verifying),
            DisableFile::Absent => Act::Wait,
        }
    }

    fn verifying(&self) -> Act {
        if let Some(refusal) = &self.journal.refusal {
            return Act::Enter(Phase::refused(&refusal.reason));
        }
        if let Some(failure) = self.broken() {
            return Act::Enter(failure);
        }
        if self.seen.alive == Alive::No && self.has_driver() {
            return Act::Enter(Phase::Stopped);
        }
        let healthy = self.timers.healthy_for(self.seen.now);
        match self.seen.file {
            DisableFile::Own if (healthy.is_some() || self.may_be_ready()) && self.may_show() => {
                return Act::Show;
            }
            DisableFile::Absent if self.is_unready_now_that_it_is_shown() => return Act::Hide,
            // A person keeps it out, and waiting for a person is no failure.
            DisableFile::Foreign => return Act::Wait,
            _ => {}
        }
        let health = self.directive().map(|d| d.health.clone());
        let enough = health.as_ref().map_or(Duration::ZERO, |h| h.min_healthy_time.into());
        let rise = self.service.rise_time();
        let back = self.seen.rotation(self.timers, self.service) == Rotation::In;
        let steady = match mutant::is("flapping-health-is-verified") {
            true => healthy,
            false => self.timers.steady_for(self.seen.now, rise),
        };
        if back && steady.is_some_and(|time| time >= enough) {
            return Act::Enter(Phase::Serving);
        }
        let deadline: Option<Duration> = health.map(|h| h.healthy_deadline.into());
        match deadline {
            Some(deadline) if self.in_phase_for() >= deadline => {
                let found = match (healthy, self.timers.hidings()) {
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
                let stays = self.never_left_rotation() || healthy.is_some() && self.is_let_back();
                Act::Enter(Phase::failed("verifying", reason, !stays))
            }
            _ => Act::Wait,
        }
    }

    /// Whether it is in rotation and no order took it out: then only an order takes it out, within capacity.
    fn never_left_rotation(&self) -> bool {
        let taken_out = !matches!(self.disposition(), None | Some(Disposition::Serve { returning: false }));
        self.seen.file == DisableFile::Absent && !taken_out
    }

    /// Whether it was let back with the release that it served with, and is shown: one that answers as healthy serves, and
    /// whoever takes it out asks for capacity.
    fn is_let_back(&self) -> bool {
        self.seen.file == DisableFile::Absent && matches!(self.disposition(), Some(Disposition::Serve { .. }))
    }

    /// Whether nothing but its own disable-file keeps it from answering that it is ready: that is judged when it is shown.
    fn may_be_ready(&self) -> bool {
        let answers = self.seen.probe.version().is_some() && self.seen.alive != Alive::No;
        self.seen.masked && answers && self.timers.may_try_to_show(self.seen.now)
    }

    /// Whether it was shown before its readiness could be known, and has had time to answer that it is ready.
    fn is_unready_now_that_it_is_shown(&self) -> bool {
        let unready = self.timers.shown_unready_for(self.seen.now);
        let enough = DIP.max(self.service.fast_interval * self.service.debounce);
        let judged = !mutant::is("shown-unready-is-left-shown");
        judged && self.journal.shown_unjudged && unready.is_some_and(|time| time >= enough)
    }

    /// What no waiting will mend, of an instance that was replaced.
    fn broken(&self) -> Option<Phase> {
        let Some(Disposition::Replace { release }) = self.disposition() else { return None };
        if self.seen.alive == Alive::No || self.seen.gone {
            let (tag, answers) = (&release.tag, self.seen.last_answers());
            let help = match &self.service.driver {
                Some(Driver::Process(_)) => "its output is in the service's log in runtime_dir",
                _ => "the status hook says that it does not run",
            };
            let reason = format!("release {tag} ended by itself after its start ({help}); {answers}");
            return Some(Phase::failed("verifying", reason, true));
        }
        let runs = self.seen.probe.version().filter(|version| *version != release.version)?;
        let reason =
            format!("release {} should carry version {}, it answers {runs}", release.tag, release.version);
        Some(Phase::failed("verifying", reason, true))
    }

    fn stopping(&self) -> Act {
        // Without a lock of the agent's own, silence is no proof: the stop hook runs, to its end.
        let provable = !matches!(self.service.driver, Some(Driver::Command(_)));
        let stopped = provable && self.seen.alive == Alive::No || mutant::is("stop-is-not-confirmed");
        if stopped { Act::Enter(Phase::Stopped) } else { Act::Stop }
    }

    /// How long a hook may take.
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
        Act::Enter(Phase::failed("starting", reason, true))
    }

    fn stopped(&self) -> Act {
        if self.seen.alive == Alive::Yes {
            // Somebody started it behind the agent's back: looked at anew, and hidden until it is admitted.
            return if self.seen.file == DisableFile::Absent { Act::Hide } else { Act::Enter(Phase::Fresh) };
        }
        match self.disposition() {
            _ if self.seen.file == DisableFile::Absent => Act::Hide,
            // What the machine has started by itself may not answer yet.
            _ if self.seen.hook == Hook::EarlierBoot => self.start_anew(),
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

    /// Without the store nobody can admit anything; what was admitted here last may start where that is allowed.
    fn stands_without_store(&self, version: ServiceVersion, tag: Option<&ReleaseTag>) -> bool {
        let admitted = self.journal.admitted.as_ref().is_some_and(|a| {
            a.version == version && (a.release.is_none() || tag.is_none() || a.release.as_ref() == tag)
        });
        let floor = self.journal.witness.floor;
        self.service.start_without_store && admitted && floor.is_none_or(|floor| version >= floor)
    }

    fn may_show(&self) -> bool {
        let version = self.seen.probe.version();
        let alone = !self.seen.store && version.is_some_and(|v| self.stands_without_store(v, None));
        !self.seen.readmit || alone
    }

    fn starting(&self, target: &Target) -> Act {
        match self.seen.alive {
            _ if self.seen.hook == Hook::Runs && self.in_phase_for() < self.hook_time() => Act::Wait,
            _ if self.seen.hook == Hook::Runs => Act::EndHook,
            // It runs already: the agent ended between starting it and journalling that.
            Alive::Yes => Act::Enter(Phase::Verifying),
            _ if self.seen.file == DisableFile::Absent => Act::Hide,
            // Begun, and nobody saw its end: what answers tells whether it did its work; it is not run a second time.
            _ if self.seen.hook == Hook::Ended => self.unknown_outcome(),
            _ if self.seen.hook == Hook::EarlierBoot => self.start_anew(),
            // The agent ended before it started it: the window may have moved since.
            _ if self.seen.readmit && self.seen.store => Act::Enter(Phase::Stopped),
            _ if self.seen.readmit && !self.service.start_without_store => Act::Wait,
            _ => Act::Start(target.clone()),
        }
    }
}
