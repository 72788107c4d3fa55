//! The next act, or none. Pure; called after every look and after every act.

use super::accept::{self, Reading};
use super::act::Act;
use super::identity::{may_be_another, release_that_answers, runs_already};
use super::seen::{DisableFile, Seen};
use super::timers::Timers;
use crate::config::Service;
use crate::host::{Alive, Target};
use crate::journal::{Journal, Phase, Refusal};
use std::time::Duration;
use tidegate_proto::record::directive::{Directive, Disposition};
use tidegate_proto::{Release, ReleaseTag, ServiceVersion, mutant};

/// The next act.
pub(crate) fn decide(service: &Service, journal: &Journal, timers: &Timers, seen: &Seen) -> Act {
    if let Some(at) = seen.reconciled {
        return Act::Reconcile(at);
    }
    let has_left = timers.has_left(seen.now, service.fall_time());
    if let Some(act) = admission(service, journal, seen, has_left) {
        return act;
    }
    if let Some(Some(known)) = &seen.window
        && known.revision > journal.window_revision()
        && !accept::is_fallen(journal, seen)
    {
        return Act::Acknowledge(known.clone());
    }
    let context = Context { service, journal, timers, seen };
    if let Some(taken_up) = context.takes_up_stop() {
        return taken_up;
    }
    if let Phase::Starting { target } = &journal.phase
        && context.is_start_unsettled(target)
    {
        // Nothing else is begun before it has ended; what was started by other means is not taken for what an order asks for.
        return context.starting(target);
    }
    // Under a store that fell back a newer directive would replace the claim that a person has to reconcile.
    if let Reading::Newer(order) = accept::read(journal, seen)
        && !accept::is_fallen(journal, seen)
    {
        let phase = accept::phase_for(&order, service, journal, seen, timers);
        return Act::Accept(order, phase);
    }
    if let Some(declined) = context.declines_former() {
        return declined;
    }
    if let Some(refused) = context.refuses_while_out() {
        return refused;
    }
    match &journal.phase {
        Phase::Fresh => context.fresh(),
        Phase::Verifying => context.verifying(),
        Phase::Serving => context.serving(),
        Phase::Draining => context.draining(),
        Phase::Drained { .. } => context.drained(),
        Phase::Stopping => context.stopping(),
        Phase::Stopped => context.stopped(),
        Phase::Starting { target } => context.starting(target),
        Phase::Refused { reason, stays } => context.refused(reason, stays.is_some()),
        Phase::Failed { hidden, .. } => context.failed(*hidden),
    }
}

/// A version that runs and is not the one that was admitted goes to the inventory before anything else, and so
/// before the report. `has_left`: it has left rotation.
fn admission(service: &Service, journal: &Journal, seen: &Seen, has_left: bool) -> Option<Act> {
    let version = seen.probe.version().filter(|_| seen.alive != Alive::No && seen.store)?;
    if matches!(journal.phase, Phase::Stopping | Phase::Stopped | Phase::Starting { .. }) {
        return None;
    }
    let admitted = journal.admitted.as_ref().is_some_and(|a| a.version == version);
    let refused = journal
        .refusal
        .as_ref()
        .is_some_and(|r| r.version == version && r.window >= journal.window_revision());
    let stands = admitted && !seen.readmit && !would_return_outside(journal, seen, has_left, version);
    if stands && journal.refusal.is_none() || refused {
        return None;
    }
    Some(Act::AdmitRunning(version, release_that_answers(service, journal, seen, version)))
}

/// Whether an instance that is hidden, or that is shown and has left rotation because its health URL fails, would come into
/// rotation outside the window that its agent obeys. A person may have reconciled that window after the version was admitted.
fn would_return_outside(journal: &Journal, seen: &Seen, has_left: bool, version: ServiceVersion) -> bool {
    let returns = match (&journal.phase, seen.file) {
        (Phase::Verifying | Phase::Failed { hidden: false, .. }, DisableFile::Own) => true,
        (Phase::Verifying | Phase::Serving | Phase::Failed { hidden: false, .. }, DisableFile::Absent) => {
            has_left
        }
        _ => false,
    };
    let is_outside = seen
        .window
        .iter()
        .flatten()
        .any(|known| known.revision >= journal.window_revision() && !known.window.admits(version));
    returns && is_outside
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
    if let Some(instead) = instead_of(tag, journal) {
        return Some(instead);
    }
    let known = service.artifacts.get(tag).map(|artifact| Target::of_artifact(tag, artifact));
    let listed = directive.and_then(|d| d.releases.iter().find(|release| release.tag == *tag));
    listed.map(Target::from).or(known)
}

/// What is started instead of what ran last, where a declined directive of a former store names that: the first release of the
/// directive that the window admits, which is the former one unless that is refused. What ran last gives way where the window
/// does not admit it, where the directive was to replace the instance with it, which has failed then, and where the directive
/// was to replace it with that first one, as in a rollback: it may never have answered.
fn instead_of(last: &ReleaseTag, journal: &Journal) -> Option<Target> {
    let order = journal.order.as_ref().filter(|_| journal.declined && journal.obeys_former_store())?;
    let window = journal.window.as_ref().map(|known| &known.window);
    let admits = |release: &Release| window.is_none_or(|window| window.admits(release.version));
    let Directive { disposition, releases, .. } = &order.directive;
    let instead = releases.iter().find(|release| admits(release))?;
    let gives_way = match disposition {
        Disposition::Replace { release } if release.tag == *last || release == instead => true,
        _ => releases.iter().any(|release| release.tag == *last && !admits(release)),
    };
    gives_way.then(|| Target::from(instead))
}

pub(super) struct Context<'a> {
    pub(super) service: &'a Service,
    pub(super) journal: &'a Journal,
    pub(super) timers: &'a Timers,
    pub(super) seen: &'a Seen,
}

impl Context<'_> {
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

    /// Whether balancers may still send requests to what does not listen.
    pub(super) fn is_unnoticed(&self) -> bool {
        self.timers.is_unnoticed(self.seen.now, self.service.fall_time())
    }

    fn fresh(&self) -> Act {
        match self.seen.alive {
            // Its version was admitted above; where it was refused, it is hidden.
            Alive::Yes | Alive::Unknown => match (&self.journal.refusal, self.seen.probe.version()) {
                (Some(refusal), Some(_)) => Act::Enter(Phase::refused(&refusal.reason)),
                (None, Some(_)) if self.journal.admitted.is_some() && !self.seen.readmit => {
                    Act::Enter(self.phase_once_admitted())
                }
                (_, None) if self.hangs_unadmitted() => self.keep_disabled(),
                _ => Act::Wait,
            },
            // Only the store shows that no other agent manages this instance.
            Alive::No | Alive::Silent if target(self.service, self.journal).is_some() => self.start_again(),
            // Only an order says what is started here. Until then it is out of rotation by evidence, and what something else
            // starts is admitted before it is shown. What is silent may have a supervisor of its own that starts it.
            Alive::No if self.seen.store => self.keep_disabled(),
            Alive::No | Alive::Silent => Act::Wait,
        }
    }

    /// The phase in which what runs continues once it is admitted. Under an order to drain, to stop or to replace it by another
    /// release it is drained, also where that has failed before: the coordinator counts it as out and waits for the end of the
    /// drain. The other release may answer the same version; after a boot it may run in place of the one that was started. For
    /// one that the window does not admit, nothing is stopped: verification fails the replacement.
    pub(super) fn phase_once_admitted(&self) -> Phase {
        let runs = self.journal.release.as_ref().filter(|_| !may_be_another(self.journal, self.seen));
        let window = self.journal.window.as_ref().map(|known| &known.window);
        let starts = |release: &Release| window.is_none_or(|window| window.admits(release.version));
        match self.disposition() {
            Some(Disposition::Drain | Disposition::Stop) => Phase::Draining,
            Some(Disposition::Replace { release }) if runs != Some(&release.tag) && starts(release) => {
                Phase::Draining
            }
            Some(Disposition::Replace { .. } | Disposition::Serve { .. }) | None => Phase::Verifying,
        }
    }

    /// The same for what was refused and has stayed in rotation. The coordinator counts it as in rotation: under an order to
    /// replace it by another release it serves, as where the window admitted the changed version at once, until the coordinator
    /// drains it within capacity.
    fn phase_in_rotation(&self) -> Phase {
        match self.disposition() {
            Some(Disposition::Replace { release }) if !runs_already(release, self.journal, self.seen) => {
                Phase::Serving
            }
            _ => self.phase_once_admitted(),
        }
    }

    /// Starts what does not answer again: at once where nothing runs, after the stop hook's end where only that
    /// confirms it. That hook is not begun while balancers may send requests to what its own supervisor starts meanwhile.
    pub(super) fn start_again(&self) -> Act {
        match self.seen.alive {
            _ if !self.has_driver() => Act::Wait,
            Alive::Silent if self.seen.store && !self.is_unnoticed() => Act::Enter(Phase::Stopping),
            Alive::No if self.seen.store || self.journal.phase != Phase::Fresh => Act::Enter(Phase::Stopped),
            _ => Act::Wait,
        }
    }

    fn refused(&self, reason: &str, stays: bool) -> Act {
        if stays && !self.stays_in_rotation() {
            // From here on it would come into rotation, and nothing comes there that was not admitted.
            return Act::Enter(Phase::refused(reason));
        }
        let moved = |refusal: &Refusal| {
            refusal.window < self.journal.window_revision() || self.starts_instead_of(refusal)
        };
        let again = self.journal.refusal.as_ref().is_none_or(moved);
        let next = match self.seen.alive {
            Alive::No | Alive::Silent if again => self.start_again(),
            Alive::Yes | Alive::Unknown if self.journal.refusal.is_none() && !self.seen.readmit => {
                Act::Enter(if stays { self.phase_in_rotation() } else { self.phase_once_admitted() })
            }
            _ => Act::Wait,
        };
        if next == Act::Wait && !stays { self.keep_disabled() } else { next }
    }

    /// Refuses the version that was admitted last, where the acknowledged window does not admit it, and it has to be admitted
    /// again: once what hangs has left rotation, because it would come back before its probe answers, and be refused only there;
    /// and what is verified while no store can refuse it, hidden or not: a person may show it at any moment.
    fn refuses_while_out(&self) -> Option<Act> {
        let is_shown = self.seen.file == DisableFile::Absent
            && matches!(
                self.journal.phase,
                Phase::Fresh | Phase::Verifying | Phase::Serving | Phase::Failed { hidden: false, .. }
            );
        let why = match self.seen.store {
            true if is_shown && self.hangs_while_out() => "it hangs",
            false if self.comes_in_without_store() => "no store that is obeyed can be asked",
            _ => return None,
        };
        if !self.seen.readmit {
            return None;
        }
        let version = self.journal.admitted.as_ref()?.version;
        let window = &self.journal.window.as_ref()?.window;
        let reason = format!("{why}, and version {version}, admitted last, is outside the window {window}");
        (!window.admits(version)).then(|| Act::Enter(Phase::refused(reason)))
    }

    /// Whether what was admitted last is verified without a store that is obeyed, and was seen out of rotation, where it still
    /// is: a person may have removed its disable-file, or remove their own.
    fn comes_in_without_store(&self) -> bool {
        let admitted = self.journal.admitted.as_ref().map(|admitted| admitted.version);
        let is_admitted = self.seen.probe.version().is_none_or(|runs| Some(runs) == admitted);
        let runs = matches!(self.seen.alive, Alive::Yes | Alive::Unknown);
        let (rise, fall) = (self.service.rise_time(), self.service.fall_time());
        // What an agent that has just begun sees answer 200 in each look may be in rotation for long.
        let is_in = self.timers.has_no_gap() || self.timers.is_still_in(self.seen.now, rise, fall);
        self.journal.phase == Phase::Verifying && is_admitted && runs && !is_in
    }

    /// Whether a window is acknowledged, and what hangs and has left rotation was never admitted: its version is unknown, and
    /// it would come into rotation before its probe answers.
    fn hangs_unadmitted(&self) -> bool {
        let is_bound = self.journal.window.is_some() && self.seen.store;
        is_bound && self.journal.admitted.is_none() && self.hangs_while_out()
    }

    /// Whether what runs does not say its version, and has left rotation. What has ended is admitted before it is started again.
    fn hangs_while_out(&self) -> bool {
        self.seen.probe.version().is_none()
            && matches!(self.seen.alive, Alive::Yes | Alive::Unknown)
            && self.timers.has_left(self.seen.now, self.service.fall_time())
    }

    /// Whether another release than the refused one is started instead of what ran last.
    fn starts_instead_of(&self, refusal: &Refusal) -> bool {
        let last = self.journal.release.as_ref();
        let instead = last.and_then(|last| instead_of(last, self.journal));
        instead.is_some_and(|target| target.version != refusal.version)
    }

    /// Whether an instance that is refused and stays in rotation is still there.
    fn stays_in_rotation(&self) -> bool {
        let ended = self.seen.alive == Alive::No;
        !ended && !self.timers.has_left(self.seen.now, self.service.fall_time())
    }

    fn keep_disabled(&self) -> Act {
        if self.seen.file == DisableFile::Absent { Act::Disable } else { Act::Wait }
    }

    fn failed(&self, hidden: bool) -> Act {
        let asked = matches!(self.disposition(), Some(Disposition::Replace { .. } | Disposition::Stop));
        match (hidden, self.seen.file) {
            (true, DisableFile::Absent) => Act::Disable,
            (false, DisableFile::Own) if self.may_enable() => Act::Enable,
            (true, DisableFile::Own) if self.is_well_again() => Act::Enter(Phase::Verifying),
            // A service that no directive replaces is started again, after growing pauses.
            _ if matches!(self.seen.alive, Alive::No | Alive::Silent) && !asked && self.is_due_again() => {
                self.start_again()
            }
            _ if self.has_ended_unpaused() => self.start_again(),
            _ => Act::Wait,
        }
    }

    /// Whether its process has ended after a failure that no pause follows, as one of its verification, and no order takes it
    /// out: nothing else starts it, as after a boot of the machine.
    fn has_ended_unpaused(&self) -> bool {
        self.seen.alive == Alive::No && self.journal.is_let_in() && self.timers.restart_at.is_none()
    }

    /// Whether the pause is over after which a stop or a start is tried again.
    pub(super) fn is_due_again(&self) -> bool {
        self.timers.restart_at.is_some_and(|at| self.seen.now >= at)
    }

    fn serving(&self) -> Act {
        match self.seen.file {
            _ if self.seen.alive == Alive::No && self.has_driver() => Act::Enter(Phase::Stopped),
            DisableFile::Own | DisableFile::Foreign => Act::Enter(Phase::Verifying),
            DisableFile::Absent => Act::Wait,
        }
    }

    /// Without the store nothing can be admitted; what was admitted here last may start where that is allowed, unless a version
    /// was refused since, or the window that was acknowledged since does not admit it. That the store is away is known once it
    /// was asked: an agent that begins waits for the first answer.
    pub(super) fn stands_without_store(&self, version: ServiceVersion, tag: Option<&ReleaseTag>) -> bool {
        let admitted = self.journal.admitted.as_ref().is_some_and(|a| {
            a.version == version && (a.release.is_none() || tag.is_none() || a.release.as_ref() == tag)
        });
        let window = self.journal.window.as_ref().map(|known| &known.window);
        let is_within = window.is_none_or(|window| window.admits(version))
            && self.journal.witness.floor.is_none_or(|floor| version >= floor);
        let is_within = is_within || mutant::is("acknowledged-window-is-not-asked");
        let is_asked = !self.seen.unasked || mutant::is("store-is-away-before-it-is-asked");
        self.service.start_without_store && is_asked && admitted && !self.journal.was_refused() && is_within
    }

    pub(super) fn may_enable(&self) -> bool {
        let version = self.seen.probe.version();
        let alone = !self.seen.store && version.is_some_and(|v| self.stands_without_store(v, None));
        !self.seen.readmit || alone
    }
}
