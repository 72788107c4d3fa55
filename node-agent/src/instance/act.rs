//! Carrying out an act: the journal first, on the disk before the effect; what became of it then follows with the next
//! write, before the next effect or the next wait. Killed between, the agent sees it again.

use super::{Fatal, Instance};
use crate::admit::{self, Candidate, NotAdmitted, Refused, Told};
use crate::config::settings::Driver as Configured;
use crate::directive::act::Act;
use crate::directive::seen::Seen;
use crate::directive::{presumption, refusal};
use crate::host;
use crate::host::{Alive, Target};
use crate::journal::{Admitted, Phase, Refusal};
use crate::replace::driver::Driver;
use tidegate_proto::{Chain, ReleaseTag, ServiceVersion, mutant};
use tokio::time::Instant;

const DECLINED: &str = "directive declined: it presumes that the instance is out of rotation, and it is in";

/// Why nothing was admitted.
enum Unadmitted {
    /// By the window.
    ByWindow(Refusal),
    /// It could not be asked; later perhaps.
    NotNow,
}

impl Instance {
    /// Carries out `act`; says whether the next look may follow at once.
    pub(super) async fn carry_out(&mut self, act: Act, seen: &Seen) -> Result<bool, Fatal> {
        if act != Act::Wait {
            tracing::debug!(service = %self.service.name, ?act, "act");
        }
        match act {
            Act::Wait => Ok(true),
            Act::Reconcile(at) => {
                tracing::warn!(service = %self.service.name, revision = %at,
                    "a person has reconciled the store; it is obeyed from here on");
                self.journal.reconcile(at);
                // What it was admitted to is another store's.
                self.admitted_under = None;
                self.note();
                Ok(true)
            }
            Act::Acknowledge(known) => {
                self.journal.witness.floor = Some(known.window.floor);
                self.journal.window = Some(known);
                self.note();
                Ok(true)
            }
            Act::Accept(order, phase) => {
                tracing::info!(service = %self.service.name, generation = %order.generation,
                    disposition = order.directive.disposition.word(), phase = ?phase, "directive accepted");
                self.journal.witness.term = Some(order.directive.term.clone());
                self.journal.declined = presumption::fails(&order, &self.journal, seen);
                if self.journal.declined {
                    tracing::warn!(service = %self.service.name, generation = %order.generation, "{DECLINED}");
                }
                // The same directive under another generation is a retry.
                let again = self.journal.order.as_ref().is_some_and(|o| o.directive == order.directive);
                if again || phase != Phase::Serving {
                    self.timers.faults.forget();
                }
                self.journal.order = Some(*order);
                self.journal.refusal = None;
                self.timers.restart_at = None;
                self.note();
                self.enter(phase);
                Ok(true)
            }
            Act::Enter(phase) => {
                self.note_fall(&phase, seen);
                if let Phase::Starting { target } = &self.journal.phase
                    && phase == Phase::Verifying
                {
                    self.journal.release = Some(target.tag.clone());
                }
                self.enter(phase);
                Ok(true)
            }
            Act::Decline(phase) => {
                tracing::warn!(service = %self.service.name, generation = %self.journal.generation(), "{DECLINED}");
                self.journal.declined = true;
                self.enter(phase);
                Ok(true)
            }
            Act::Hide => {
                self.expose(seen);
                let hidden = self.hide().await?;
                if hidden && std::mem::take(&mut self.journal.shown_unjudged) {
                    tracing::warn!(service = %self.service.name, answers = %seen.last_answers(),
                        "not ready after it was shown: hidden again");
                    self.timers.hid_again(Instant::now());
                    self.note();
                }
                Ok(hidden)
            }
            Act::Show => {
                self.expose(seen);
                if self.journal.phase == Phase::Verifying && seen.masked {
                    self.journal.shown_unjudged = true;
                    self.note();
                }
                self.save_first().await?;
                let shown = self.hand.take_away();
                Ok(self.touched("remove", shown))
            }
            Act::AdmitRunning(version, release) => self.admit_running(version, release, seen.now).await,
            Act::AdmitTarget(target) => self.admit_target(target).await,
            Act::BeginStop(target) => self.begin_stop(target, seen).await,
            Act::Stop => self.stop().await,
            Act::Start(target) => self.start(target).await,
            Act::EndHook => self.end_hook().await,
        }
    }

    fn enter(&mut self, phase: Phase) {
        if phase != self.journal.phase {
            tracing::info!(service = %self.service.name, from = ?self.journal.phase, to = ?phase, "phase");
        }
        self.journal.unexposed |= phase == Phase::Stopped;
        self.journal.shown_unjudged &= phase == Phase::Verifying;
        self.note();
        self.journal.phase = phase;
        self.timers.entered(Instant::now());
    }

    /// What runs without its disable-file may have got requests; what does not run has not.
    fn expose(&mut self, seen: &Seen) {
        let still =
            matches!(self.journal.phase, Phase::Starting { .. }) || seen.nothing_runs(&self.journal.phase);
        if !still && self.journal.unexposed {
            self.journal.unexposed = false;
            self.note();
        }
    }

    /// A service that ended by itself is started again later and later; one that was stopped is not held back.
    fn note_fall(&mut self, to: &Phase, seen: &Seen) {
        match (&self.journal.phase, to) {
            (Phase::Serving | Phase::Verifying, Phase::Stopped) => {
                tracing::error!(service = %self.service.name, "the service ended by itself");
                self.timers.fell(seen.now);
            }
            (Phase::Starting { .. }, Phase::Failed { .. }) => self.timers.fell(seen.now),
            (Phase::Failed { .. }, Phase::Stopped) => {}
            (_, Phase::Stopped) => self.timers.restart_at = None,
            _ => {}
        }
    }

    /// The file is made beside its place while the journal is written, and shows when both are on the disk.
    async fn hide(&mut self) -> Result<bool, Fatal> {
        if !mutant::is("journal-is-written-after-the-act") {
            self.begin_save().await?;
        }
        let (hand, generation) = (self.hand.clone(), self.journal.generation());
        let made = host::briefly(|| hand.make(generation));
        self.save_first().await?;
        let put = made.and_then(|made| host::briefly(|| hand.put(made)));
        Ok(self.touched("put", put))
    }

    /// Whether the disable-file is as it should be.
    fn touched(&mut self, doing: &'static str, done: std::io::Result<()>) -> bool {
        let Err(error) = done else {
            tracing::info!(service = %self.service.name, file = %self.service.disable_file.display(), "disable-file {doing}");
            return true;
        };
        let path = self.service.disable_file.display();
        let reason = format!("could not {doing} the disable-file {path}: {error}");
        tracing::error!(service = %self.service.name, %reason, "the disable-file");
        if self.journal.phase == Phase::Draining {
            self.enter(Phase::failed("draining", reason, false));
        }
        false
    }

    async fn ask_admission(
        &mut self,
        version: ServiceVersion,
        release: Option<ReleaseTag>,
    ) -> Result<Result<(), Unadmitted>, Fatal> {
        let (Some(store), Some(epoch)) = (self.link.store(), self.lease_epoch()) else {
            return Ok(Err(Unadmitted::NotNow));
        };
        let candidate = Candidate {
            instance: &self.id,
            version,
            release: release.clone(),
            labels: &self.node.labels,
            identity: &self.identity,
            known: self.known_admission(),
            obeyed: self.journal.window_revision(),
        };
        let asked = match self.told_of(&candidate) {
            Some(told) => admit::admit_as_told(&store, &candidate, &told).await,
            None => admit::admit(&store, &candidate).await,
        };
        match asked {
            Ok(revision) => {
                tracing::info!(service = %self.service.name, %version, admission = %revision, "admitted");
                self.journal.admitted = Some(Admitted { version, release, revision });
                self.journal.refusal = None;
                self.admitted_under = Some(epoch);
                Ok(Ok(()))
            }
            Err(NotAdmitted::Refused(refused)) => {
                tracing::error!(service = %self.service.name, %version, reason = %refused.reason, "admission refused");
                let Refused { reason, window, bears } = refused;
                let refusal = Refusal { version, window, reason, bears };
                self.journal.refusal = Some(refusal.clone());
                // Whatever is shown again is admitted again first.
                self.admitted_under = None;
                Ok(Err(Unadmitted::ByWindow(refusal)))
            }
            Err(held @ NotAdmitted::Held { .. }) => Err(Fatal::Held(held)),
            Err(error) => {
                self.trouble(&error);
                Ok(Err(Unadmitted::NotNow))
            }
        }
    }

    /// What the watch has told of what an admission depends on. None where that is not all known, or where the former
    /// admission may still stand: then it is read whether anything has to be written at all.
    fn told_of(&self, candidate: &Candidate<'_>) -> Option<Told> {
        let stands = self.journal.admitted.as_ref().is_some_and(|last| last.version == candidate.version);
        let known = self.seen_inputs.window.as_ref().filter(|_| !stands)?;
        let (report_at, holder) = self.seen_inputs.report.as_ref()?;
        // Its own last report may be younger than what the watch has shown; that is its own too, as each was written
        // over the one before it.
        let report_at = self.publisher.at().max(*report_at);
        (holder.as_ref() == Some(&self.identity)).then(|| Told {
            window: known.window.clone(),
            window_at: known.revision,
            report_at,
        })
    }

    async fn admit_running(
        &mut self,
        version: ServiceVersion,
        release: Option<ReleaseTag>,
        now: Instant,
    ) -> Result<bool, Fatal> {
        match self.ask_admission(version, release.clone()).await? {
            Ok(()) => {
                self.journal.release = release;
                self.note();
                Ok(true)
            }
            Err(Unadmitted::NotNow) => Ok(false),
            Err(Unadmitted::ByWindow(refusal)) => {
                let judged = matches!(
                    self.journal.phase,
                    Phase::Fresh
                        | Phase::Verifying
                        | Phase::Serving
                        | Phase::Refused { .. }
                        | Phase::Failed { hidden: false, .. }
                );
                let phase = if judged {
                    let (rise, fall) = (self.service.rise_time(), self.service.fall_time());
                    let still_in = self.timers.is_still_in(now, rise, fall);
                    let stays = refusal::stays(&self.journal, &self.identity.boot, &refusal, still_in);
                    let stays = stays.then(|| self.identity.boot.clone());
                    if stays.is_some() {
                        tracing::error!(service = %self.service.name, %version, reason = %refusal.reason,
                            "the version changed in rotation and is not admitted; it serves until the coordinator drains it");
                    }
                    Phase::Refused { reason: refusal.reason, stays }
                } else {
                    self.journal.phase.clone()
                };
                self.enter_or_note(phase);
                Ok(true)
            }
        }
    }

    /// A phase that stays what it was keeps its time.
    fn enter_or_note(&mut self, phase: Phase) {
        if phase == self.journal.phase { self.note() } else { self.enter(phase) }
    }

    async fn admit_target(&mut self, target: Target) -> Result<bool, Fatal> {
        match self.ask_admission(target.version, Some(target.tag.clone())).await? {
            Ok(()) => self.enter(Phase::Starting { target }),
            Err(Unadmitted::NotNow) => return Ok(false),
            Err(Unadmitted::ByWindow(refusal)) => self.enter(Phase::refused(refusal.reason)),
        }
        Ok(true)
    }

    async fn begin_stop(&mut self, target: Option<Target>, seen: &Seen) -> Result<bool, Fatal> {
        let process = self.driver.as_ref().and_then(|driver| driver.process());
        if seen.alive == Alive::Yes && process.is_some_and(|process| process.alive() == Alive::No) {
            let reason = "what runs was not started by this agent, so that it cannot stop it: end it by its own \
                          means, or use driver.command with a stop hook";
            self.enter(Phase::failed("stopping", reason, true));
            return Ok(true);
        }
        let verified = match (&target, &self.driver) {
            (Some(target), Some(driver)) => driver.ensure(target).await.map(|_| ()),
            _ => Ok(()),
        };
        match verified {
            Ok(()) => self.enter(Phase::Stopping),
            // What runs still runs, and can be put back.
            Err(error) => self.enter(Phase::failed("staging", Chain(&error).to_string(), true)),
        }
        Ok(true)
    }

    async fn stop(&mut self) -> Result<bool, Fatal> {
        let Some(driver) = self.driver.clone() else { return Ok(false) };
        self.save_first().await?;
        let running = self.journal.release.as_ref().map(|tag| Target {
            tag: tag.clone(),
            version: self.journal.admitted.as_ref().map(|a| a.version).unwrap_or_default(),
            sha256: None,
        });
        let stopped = driver.stop(running.as_ref(), self.journal.process.as_ref()).await;
        let ended = match stopped {
            Ok(()) => self.wait_for_end(&driver).await,
            Err(error) => Err(Chain(&error).to_string()),
        };
        match ended {
            Ok(()) => {
                self.journal.process = None;
                self.enter(Phase::Stopped);
                // A hook that has ended is not run again.
                self.begin_save().await?;
            }
            Err(reason) => self.enter(Phase::failed("stopping", reason, true)),
        }
        Ok(true)
    }

    /// What a hook did is told by what answers: the stop is confirmed when nothing does any more, and the status hook, where
    /// there is one, does not say that it runs: what never came to listen may have the database open.
    async fn wait_for_end(&mut self, driver: &Driver) -> Result<(), String> {
        let Some(Configured::Command(hooks)) = self.service.driver.clone() else { return Ok(()) };
        let end = Instant::now() + hooks.timeout;
        loop {
            let look = self.observer.look(&self.journal.phase, Instant::now()).await;
            let answers = look.alive != Alive::Silent;
            if !answers && !driver.still_runs(self.service.timeout).await {
                self.looked = Some(look);
                return Ok(());
            }
            if Instant::now() >= end {
                let still = match answers {
                    true => format!("{} still answers", self.service.ready_url),
                    false => "the status hook still says that the service runs (exit status 0)".to_owned(),
                };
                return Err(format!(
                    "the stop hook ended, and {still} {} s later",
                    hooks.timeout.as_secs_f64()
                ));
            }
            tokio::time::sleep(self.service.fast_interval).await;
        }
    }

    async fn start(&mut self, target: Target) -> Result<bool, Fatal> {
        let Some(driver) = self.driver.clone() else { return Ok(false) };
        self.save_first().await?;
        match driver.start(&target).await {
            Ok((digest, process)) => {
                tracing::info!(service = %self.service.name, release = %target.tag, version = %target.version,
                    pid = process.as_ref().map(|p| p.pid), "service started");
                self.journal.process = process;
                self.journal.staged.insert(target.tag.clone(), digest);
                self.journal.release = Some(target.tag);
                self.enter(Phase::Verifying);
                if self.journal.process.is_some() {
                    // Nothing but the journal knows its number.
                    self.save().await?;
                }
            }
            Err(error) => {
                self.timers.fell(Instant::now());
                self.enter(Phase::failed("starting", Chain(&error).to_string(), true));
            }
        }
        Ok(true)
    }

    async fn end_hook(&mut self) -> Result<bool, Fatal> {
        let Some(driver) = self.driver.clone() else { return Ok(false) };
        let reason = match driver.end_hook().await {
            Ok(()) => "the start hook, which an earlier agent began, did not end in its time and was killed"
                .to_owned(),
            Err(error) => error.to_string(),
        };
        self.timers.fell(Instant::now());
        self.enter(Phase::failed("starting", reason, true));
        Ok(true)
    }
}
