//! Stops what runs, confirms the stop, starts a release.

use super::{Fatal, Instance};
use crate::config::settings::Driver as Configured;
use crate::directive::act::Act;
use crate::directive::decide::decide;
use crate::directive::identity::to_be_stopped;
use crate::directive::seen::Seen;
use crate::host::{Alive, Target};
use crate::journal::Phase;
use crate::replace::driver::Driver;
use tidegate_proto::Chain;
use tokio::time::Instant;

impl Instance {
    pub(super) async fn begin_stop(&mut self, target: Option<Target>, seen: &Seen) -> Result<bool, Fatal> {
        let process = self.driver.as_ref().and_then(|driver| driver.process());
        if seen.alive == Alive::Yes && process.is_some_and(|process| process.alive() == Alive::No) {
            let reason = "what runs was not started by this agent, so that it cannot stop it: end it by its own \
                          means, or use driver.command with a stop hook";
            self.enter(Phase::failed(Phase::STOPPING, reason, true));
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

    pub(super) async fn stop(&mut self, seen: &Seen) -> Result<bool, Fatal> {
        let Some(driver) = self.driver.clone() else { return Ok(false) };
        self.writer.flush_first(&self.journal).await?;
        let running = to_be_stopped(&self.service, &self.journal, seen);
        let stopped = driver.stop(running.as_ref(), self.journal.process.as_ref()).await;
        let ended = match stopped {
            Ok(()) => self.wait_for_end(&driver).await,
            Err(error) => Err(Chain(&error).to_string()),
        };
        match ended {
            Ok(()) => {
                self.journal.note_process(None, &self.own.identity.boot);
                self.enter(Phase::Stopped);
                // A hook that has ended is not run again.
                self.writer.begin(&self.journal).await?;
            }
            Err(reason) => self.fail(Phase::STOPPING, reason),
        }
        Ok(true)
    }

    /// What a hook did shows in what answers: the stop is confirmed when nothing does any more, and the status hook, where
    /// there is one, does not say that it runs: what never came to listen may have the database open.
    async fn wait_for_end(&mut self, driver: &Driver) -> Result<(), String> {
        let Some(Configured::Command(hooks)) = self.service.driver.clone() else { return Ok(()) };
        let end = Instant::now() + hooks.timeout;
        loop {
            let look = self.observer.look(&self.journal.phase, Instant::now()).await;
            let answers = look.alive != Alive::Silent;
            if !answers && !driver.still_runs(self.service.timeout).await {
                self.observer.keep(look);
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

    pub(super) async fn start(&mut self, target: Target) -> Result<bool, Fatal> {
        let Some(driver) = self.driver.clone() else { return Ok(false) };
        self.writer.flush_first(&self.journal).await?;
        let digest = match driver.ensure(&target).await {
            Ok(digest) => digest,
            Err(error) => {
                self.fail(Phase::STARTING, Chain(&error).to_string());
                return Ok(true);
            }
        };
        // That takes time, in which its own supervisor may start it, or a person may enable it.
        let seen = self.look().await?;
        if decide(&self.service, &self.journal, &self.timers, &seen) != Act::Start(target.clone()) {
            return Ok(true);
        }
        match driver.start(&target).await {
            Ok(process) => {
                tracing::info!(service = %self.service.name, release = %target.tag, version = %target.version,
                    pid = process.as_ref().map(|p| p.pid), "service started");
                self.journal.note_process(process, &self.own.identity.boot);
                self.journal.staged.insert(target.tag, digest);
                self.journal.note_started();
                self.enter(Phase::Verifying);
                if self.journal.process.is_some() {
                    // Nothing but the journal knows its number.
                    self.writer.flush(&self.journal).await?;
                }
            }
            Err(error) => {
                if error.hook_has_begun() {
                    self.journal.note_started();
                }
                self.fail(Phase::STARTING, Chain(&error).to_string());
            }
        }
        Ok(true)
    }

    pub(super) async fn end_hook(&mut self) -> Result<bool, Fatal> {
        let Some(driver) = self.driver.clone() else { return Ok(false) };
        let ended = driver.end_hook().await;
        if self.journal.phase == Phase::Stopping {
            // Whether it is stopped or drained next is decided by another look.
            match ended {
                Ok(()) => tracing::warn!(service = %self.service.name,
                    "a hook that an earlier agent began did not end in its time and was killed"),
                Err(error) => self.fail(Phase::STOPPING, error.to_string()),
            }
            return Ok(true);
        }
        let reason = match ended {
            Ok(()) => "the start hook, which an earlier agent began, did not end in its time and was killed"
                .to_owned(),
            Err(error) => error.to_string(),
        };
        self.journal.note_started();
        self.fail(Phase::STARTING, reason);
        Ok(true)
    }

    /// Its stop or its start has failed. Where no order is to replace it, that is tried again, after a while.
    fn fail(&mut self, at: &str, reason: String) {
        self.timers.crashed(Instant::now());
        self.enter(Phase::failed(at, reason, true));
    }
}
