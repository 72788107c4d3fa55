//! One service of the node. Its agent looks, decides, acts and reports until it is asked to end; the service keeps
//! running.

mod act;
mod admission;
mod look;
mod next;
mod pace;
mod replace;
mod reporter;
mod store_view;

use crate::admit::NotAdmitted;
use crate::config::{Node, Service};
use crate::directive::act::Act;
use crate::directive::decide::decide;
use crate::directive::seen::Seen;
use crate::directive::timers::Timers;
use crate::drain::disable_file::DisableFileHandle;
use crate::file_error::FileError;
use crate::host::Host;
use crate::journal::{Journal, JournalWriter, Phase};
use crate::link::Link;
use crate::pair::state::{StateError, StateFile};
use crate::replace::driver::Driver;
use crate::report::compose::compose;
use crate::report::observe::{self, Observer};
use crate::staging::Stager;
use next::{Cycle, Step};
use pace::Pace;
use reporter::Reporter;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use store_view::{StoreView, news};
use tidegate_proto::InstanceId;
use tidegate_proto::record::report::Identity;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What ends the agent, not the service.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    /// Another agent has this node's name.
    #[error(transparent)]
    Held(NotAdmitted),
    /// The journal cannot be read or written: without it nothing may be done.
    #[error(transparent)]
    Journal(#[from] StateError),
    /// A directory of the service could not be made.
    #[error(transparent)]
    File(#[from] FileError),
}

/// One service of the node.
pub struct Instance {
    service: Service,
    own: Own,
    store: StoreView,
    journal: Journal,
    writer: JournalWriter,
    observer: Observer,
    timers: Timers,
    disable_file: DisableFileHandle,
    driver: Option<Driver>,
    stager: Stager,
    reporter: Reporter,
    pace: Pace,
}

/// The instance and its agent, as the store knows them.
struct Own {
    id: InstanceId,
    labels: BTreeMap<String, String>,
    identity: Identity,
}

impl Instance {
    /// Resumes where the journal ends.
    pub fn open(
        host: &Arc<dyn Host>,
        node: &Node,
        service: &Service,
        identity: &Identity,
        link: &Link,
    ) -> Result<Self, Fatal> {
        let home = node.state_dir.join(service.name.as_str());
        host.make_directory(&home).map_err(FileError::at("make the directory", &home))?;
        host.sweep(&home);
        host.sweep(service.disable_file.parent().unwrap_or(Path::new("/")));
        let mut file = StateFile::<Journal>::within(host, &home);
        let mut journal = file.read()?;
        let driver = Driver::of(host, node, service, &home);
        if let (None, Some(process)) = (&journal.release, driver.as_ref().and_then(Driver::process)) {
            // The journal was lost: the lock that the service holds knows what was started.
            journal.release = process.tag();
        }
        if let Phase::Refused { stays, .. } = &mut journal.phase {
            // After a restart of the machine the service comes into rotation, and is refused like any other.
            *stays = stays.take().filter(|boot| *boot == identity.boot);
        }
        let disable_file =
            DisableFileHandle::new(host, &service.disable_file, node.name.clone(), identity.nonce.clone());
        let id = InstanceId::new(service.name.clone(), node.name.clone());
        let mut timers = Timers::new(Instant::now(), !service.balancers.is_empty());
        if journal.phase.is_failed_stop_or_start() {
            // When it was to be tried again is lost with the former agent.
            timers.crashed(Instant::now());
        }
        Ok(Self {
            observer: Observer::new(host, service.clone(), disable_file.clone(), driver.clone()),
            stager: Stager::new(driver.clone()),
            reporter: Reporter::new(id.clone()),
            timers,
            service: service.clone(),
            own: Own { id, labels: node.labels.clone(), identity: identity.clone() },
            store: StoreView::new(link, &service.name),
            writer: JournalWriter::new(host, file),
            journal,
            disable_file,
            driver,
            pace: Pace::at_once(),
        })
    }

    /// Looks after it until `cancel`; an act that has begun is carried out.
    pub async fn run(mut self, cancel: CancellationToken) -> Result<(), Fatal> {
        tracing::info!(service = %self.service.name, phase = ?self.journal.phase, "looking after the service");
        let mut cycle = Cycle::default();
        let mut seen = self.look().await?;
        let (mut act, mut step) = (Act::Wait, Step::Decide);
        loop {
            step = match step {
                Step::Look => {
                    seen = self.look().await?;
                    cycle.looked()
                }
                Step::LookAgain => {
                    self.look_again_at(&mut seen).await?;
                    Step::Decide
                }
                Step::ReadStore => {
                    self.take_in_news(&mut seen).await?;
                    Step::Decide
                }
                Step::Decide if cancel.is_cancelled() => break,
                Step::Decide => {
                    act = decide(&self.service, &self.journal, &self.timers, &seen);
                    cycle.decided(&act, &self.service, &self.journal, &seen, seen.now.elapsed())
                }
                Step::Retract => {
                    self.reporter.finish().await?;
                    self.report(Duration::ZERO, &seen).await?;
                    self.reporter.finish().await?;
                    Step::CarryOut
                }
                Step::Report(delay) => {
                    self.report(delay, &seen).await?;
                    Step::CarryOut
                }
                Step::CarryOut => {
                    let before = self.journal.phase.clone();
                    let done = self.carry_out(act.clone(), &seen).await?;
                    if done {
                        self.reporter.forget_warning();
                        self.pace = Pace::at_once();
                    }
                    let still_valid =
                        observe::is_look_still_valid(&self.service, &before, &self.journal.phase, &seen);
                    cycle.carried_out(&act, done, still_valid)
                }
                Step::Rest { report } => {
                    if report {
                        self.report(Duration::ZERO, &seen).await?;
                    }
                    self.writer.flush(&self.journal).await?;
                    cycle.rested(self.rest(&seen, &cancel).await?)
                }
            };
        }
        self.writer.flush(&self.journal).await?;
        self.reporter.finish().await?;
        tracing::info!(service = %self.service.name, phase = ?self.journal.phase, "the agent ends, the service goes on");
        Ok(())
    }

    /// Waits for news of the store, another lease, the end of a staging task, or time. Returns whether it was news.
    async fn rest(&mut self, seen: &Seen, cancel: &CancellationToken) -> Result<bool, Fatal> {
        let pause = self.pace.pause(&self.service, &self.journal, &self.timers, seen);
        let end = Instant::now() + pause;
        loop {
            let StoreView { inputs, last, leases, .. } = &mut self.store;
            tokio::select! {
                () = cancel.cancelled() => {}
                () = news(inputs, last, &self.journal, &self.own.identity) => return Ok(true),
                changed = leases.changed() => if changed.is_err() { tokio::time::sleep(pause).await },
                () = self.stager.ended() => {}
                done = self.reporter.publisher.ended() => {
                    self.reporter.written(done)?;
                    if self.take_in_lapse() {
                        return Ok(false);
                    }
                    // What has changed while that was being written.
                    self.report(Duration::ZERO, seen).await?;
                    continue;
                }
                () = tokio::time::sleep_until(end) => self.pace.slow_down(&self.service),
            }
            return Ok(false);
        }
    }

    /// Reports what has changed, in the background and after `delay`, unless a newer report comes before. The journal is on
    /// the disk first.
    async fn report(&mut self, delay: Duration, seen: &Seen) -> Result<(), Fatal> {
        if !self.reporter.may_write {
            return Ok(());
        }
        self.writer.flush_first(&self.journal).await?;
        self.take_in_lapse();
        let link = &self.store.link;
        let (Some(store), Some(leased)) = (link.store(), link.lease()) else { return Ok(()) };
        // Since that look the lease may have become another one: under that nothing was admitted yet.
        let readmit = self.store.must_readmit(&self.journal, Some(leased.epoch));
        let seen = &Seen { readmit, ..seen.clone() };
        let (own, failures) = (&self.own.identity, self.stager.failures());
        let report = compose(&self.service, own, &self.journal, &self.timers, seen, failures);
        self.reporter.publisher.begin(store, leased, own, report, seen.now, delay);
        Ok(())
    }
}
