//! One service of the node, looked after: look, decide, report, act; again and again, until the agent is asked to
//! end. The service itself goes on.

mod act;
mod look;

use crate::admit::NotAdmitted;
use crate::config::settings::Driver as Configured;
use crate::config::{Node, Service};
use crate::directive::act::Act;
use crate::directive::decide::decide;
use crate::directive::rotation;
use crate::directive::seen::Seen;
use crate::directive::standstill::standstill;
use crate::directive::steady::DIP;
use crate::directive::timers::Timers;
use crate::drain::disable_file::DisableFileHandle;
use crate::host::{Alive, Host};
use crate::journal::{Journal, JournalError, JournalFile, JournalWriter, Phase};
use crate::link::inputs::Inputs;
use crate::link::{Leased, Link};
use crate::replace::driver::Driver;
use crate::report::compose::compose;
use crate::report::observe::{self, Look, Observer};
use crate::report::publish::{NotPublished, Publisher};
use crate::staging::Stager;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate_proto::record::report::{Identity, Rotation};
use tidegate_proto::{Chain, Generation, InstanceId, Revision, mutant};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What waits for longer than this is looked at as seldom as what rests.
const LULL: Duration = Duration::from_secs(10);

/// How soon the next look follows an act; each further one twice as late, up to the interval of what moves.
const AT_ONCE: Duration = Duration::from_millis(5);

/// For how long news of the store may be answered by what was seen before them.
const JUST_NOW: Duration = Duration::from_millis(20);

/// How many acts may follow from one look, however little each of them changes.
const ACTS_ON_A_LOOK: u32 = 4;

/// For how long a hook that was just begun has the machine for itself: that it runs is told afterwards. Of many nodes on
/// one machine, or with one store, each would have its hook begin later by what the others have to tell.
const BESIDE_A_HOOK: Duration = Duration::from_millis(50);

/// What ends the agent, not the service.
#[derive(Debug, thiserror::Error)]
pub enum Fatal {
    /// Another agent has this node's name.
    #[error(transparent)]
    Held(NotAdmitted),
    /// The journal cannot be read or written: without it nothing may be done.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A directory of the service could not be made.
    #[error("could not make the directory {}", path.display())]
    Home {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

/// One service of the node.
pub struct Instance {
    id: InstanceId,
    service: Service,
    node: Node,
    identity: Identity,
    link: Link,
    inputs: watch::Receiver<Inputs>,
    /// What the store had in the last look.
    seen_inputs: Inputs,
    pen: JournalWriter,
    journal: Journal,
    timers: Timers,
    observer: Observer,
    hand: DisableFileHandle,
    driver: Option<Driver>,
    stager: Stager,
    publisher: Publisher,
    /// Whether the journal holds what is not on the disk yet.
    unsaved: bool,
    /// The look that saw what a stop hook did: nothing has changed since.
    looked: Option<Look>,
    /// Until the next look while something moves.
    haste: Duration,
    /// The lease under which the running version was admitted or found admitted; none: not yet.
    admitted_under: Option<u64>,
    /// Whether the report may be written: the store is there, and its key is ours.
    speaks: bool,
    alarmed: Option<Generation>,
    troubled: Option<String>,
    /// How many falls of the store were answered by a report.
    falls: u64,
}

impl Instance {
    /// Picks up where the journal ends.
    pub fn open(
        host: &Arc<dyn Host>,
        node: &Node,
        service: &Service,
        identity: &Identity,
        link: &Link,
    ) -> Result<Self, Fatal> {
        let home = node.state_dir.join(service.name.as_str());
        host.make_directory(&home).map_err(|source| Fatal::Home { path: home.clone(), source })?;
        host.sweep(&home);
        host.sweep(service.disable_file.parent().unwrap_or(Path::new("/")));
        let mut file = JournalFile::within(host, &home);
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
        let hand =
            DisableFileHandle::new(host, &service.disable_file, node.name.clone(), identity.nonce.clone());
        let id = InstanceId::new(service.name.clone(), node.name.clone());
        let inputs = link.inputs(&service.name).unwrap_or_else(|| watch::channel(Inputs::default()).1);
        Ok(Self {
            observer: Observer::new(host, service.clone(), hand.clone(), driver.clone()),
            stager: Stager::new(driver.clone()),
            publisher: Publisher::new(id.clone()),
            unsaved: false,
            looked: None,
            haste: AT_ONCE,
            timers: Timers::new(Instant::now(), !service.balancers.is_empty()),
            id,
            service: service.clone(),
            node: node.clone(),
            identity: identity.clone(),
            link: link.clone(),
            inputs,
            seen_inputs: Inputs::default(),
            pen: JournalWriter::new(host, file),
            journal,
            hand,
            driver,
            admitted_under: None,
            speaks: false,
            alarmed: None,
            troubled: None,
            falls: 0,
        })
    }

    /// Looks after it until `cancel`; an act that has begun is carried out.
    pub async fn run(mut self, cancel: CancellationToken) -> Result<(), Fatal> {
        tracing::info!(service = %self.service.name, phase = ?self.journal.phase, "looking after the service");
        let mut leases = self.link.leases();
        let mut seen = self.look().await?;
        let (mut acts, mut news) = (0, false);
        while !cancel.is_cancelled() {
            let act = decide(&self.service, &self.journal, &self.timers, &seen);
            let enough = seen.alive == Alive::Yes && act.follows_an_order() || seen.now.elapsed() < JUST_NOW;
            if news && !enough {
                (seen, acts, news) = (self.look().await?, 0, false);
                continue;
            }
            let (waits, brief, quick) = (act == Act::Wait, act.is_brief(), act.leaves_the_world());
            let admits = matches!(act, Act::AdmitRunning(..));
            if self.must_unsay(&act) {
                self.be_silent().await?;
                self.report(&seen).await?;
                self.be_silent().await?;
            } else if !(brief || admits) {
                // Else what follows at once is reported instead.
                let pause = if self.begins_a_hook(&act) { BESIDE_A_HOOK } else { Duration::ZERO };
                self.report_after(pause, &seen).await?;
            }
            if let Some(why) = standstill(&self.service, &self.journal, &seen).filter(|_| waits) {
                self.trouble(&why);
            }
            let before = self.journal.phase.clone();
            let calm = self.carry_out(act, &seen).await?;
            if !waits && calm {
                self.troubled = None;
                self.haste = AT_ONCE;
                acts += 1;
                let stands = quick && acts < ACTS_ON_A_LOOK;
                if stands && observe::stands(&self.service, &before, &self.journal.phase, &seen) {
                    self.look_again_at(&mut seen).await?;
                } else {
                    (seen, acts, news) = (self.look().await?, 0, false);
                }
                continue;
            }
            if brief || admits {
                // It could not be done, or nobody could be asked: what was said before does not hold any more.
                self.report(&seen).await?;
            }
            self.save().await?;
            news = self.rest(&seen, &mut leases, &cancel).await?;
            acts = 0;
            if news {
                self.take_in_news(&mut seen).await?;
            } else {
                seen = self.look().await?;
            }
        }
        self.save().await?;
        self.be_silent().await?;
        tracing::info!(service = %self.service.name, phase = ?self.journal.phase, "the agent ends, the service goes on");
        Ok(())
    }

    /// Until something is to be looked at: news of the store, another lease, the end of what is brought, or time. Says
    /// whether it is the first.
    async fn rest(
        &mut self,
        seen: &Seen,
        leases: &mut watch::Receiver<Option<Leased>>,
        cancel: &CancellationToken,
    ) -> Result<bool, Fatal> {
        let pause = self.pause(seen);
        let end = tokio::time::Instant::now() + pause;
        loop {
            tokio::select! {
                () = cancel.cancelled() => {}
                () = news(&mut self.inputs, &self.seen_inputs, &self.journal, &self.identity) => return Ok(true),
                changed = leases.changed() => if changed.is_err() { tokio::time::sleep(pause).await },
                () = self.stager.ended() => {}
                done = self.publisher.ended() => {
                    self.published(done)?;
                    // What came about while that was being written.
                    self.report(seen).await?;
                    continue;
                }
                () = tokio::time::sleep_until(end) => self.haste = (self.haste * 2).min(self.service.fast_interval),
            }
            return Ok(false);
        }
    }

    /// A version is said only after the inventory has it. Where another one was said before, that is taken back first.
    fn must_unsay(&self, act: &Act) -> bool {
        let Act::AdmitRunning(version, _) = act else { return false };
        self.journal.admitted.as_ref().is_some_and(|admitted| admitted.version != *version)
    }

    /// Whether `act` begins a hook, and waits for its end.
    fn begins_a_hook(&self, act: &Act) -> bool {
        matches!(act, Act::Stop | Act::Start(_))
            && matches!(self.service.driver, Some(Configured::Command(_)))
    }

    /// Says what changed, in the background: it is on the disk before it is told.
    async fn report(&mut self, seen: &Seen) -> Result<(), Fatal> {
        self.report_after(Duration::ZERO, seen).await
    }

    /// The same, a little later, if nothing newer is told by then.
    async fn report_after(&mut self, pause: Duration, seen: &Seen) -> Result<(), Fatal> {
        if !self.speaks {
            return Ok(());
        }
        self.save_first().await?;
        let (Some(store), Some(leased)) = (self.link.store(), self.link.lease()) else { return Ok(()) };
        // Since that look the lease may have become another one: under that nothing was admitted yet.
        let seen =
            &Seen { readmit: self.must_readmit(&self.seen_inputs, Some(leased.epoch)), ..seen.clone() };
        let failures = self.stager.failures();
        let report = compose(&self.service, &self.identity, &self.journal, &self.timers, seen, failures);
        self.publisher.begin(store, leased, &self.identity, report, seen.now, pause);
        Ok(())
    }

    /// Waits until no report is being written.
    async fn be_silent(&mut self) -> Result<(), Fatal> {
        if !self.publisher.is_writing() {
            return Ok(());
        }
        let done = self.publisher.ended().await;
        self.published(done)
    }

    /// Takes in what became of a report.
    fn published(&mut self, done: Result<(), NotPublished>) -> Result<(), Fatal> {
        match done {
            Ok(()) => Ok(()),
            Err(NotPublished::Holder(held @ NotAdmitted::Held { .. })) => Err(Fatal::Held(held)),
            Err(error) => {
                self.trouble(&error);
                Ok(())
            }
        }
    }

    /// How long until the next look.
    fn pause(&self, seen: &Seen) -> Duration {
        let (rest, fast) = (self.service.interval, self.service.fast_interval.min(self.haste));
        match &self.journal.phase {
            Phase::Verifying => {
                // Healthy and back: what is missing is time, and looks often enough to see a break.
                let rise = self.service.rise_time();
                let back = rotation::of(seen, &self.timers, &self.service) == Rotation::In;
                let enough = self.journal.order.as_ref().map(|o| o.directive.health.min_healthy_time.into());
                match self.timers.steady_for(seen.now, rise).filter(|_| back).zip(enough) {
                    Some((time, enough)) => {
                        let rest = rest.min(DIP / 2);
                        rest.min(Duration::saturating_sub(enough, time)).max(fast.min(rest))
                    }
                    None => fast,
                }
            }
            // Nothing runs, and nothing has come of it for a while.
            Phase::Fresh | Phase::Stopped
                if seen.now.saturating_duration_since(self.timers.phase_since) > LULL =>
            {
                out_of_step(rest)
            }
            Phase::Fresh | Phase::Draining | Phase::Stopping | Phase::Stopped | Phase::Starting { .. } => {
                fast
            }
            Phase::Serving | Phase::Drained { .. } | Phase::Refused { .. } | Phase::Failed { .. } => {
                out_of_step(rest)
            }
        }
    }

    /// Notes that the journal changed: it is written before the next act with an effect, the next report, the next wait.
    fn note(&mut self) {
        self.unsaved = true;
    }

    /// Begins to write the journal where it changed: the disk takes milliseconds, and what does not depend on it goes on.
    async fn begin_save(&mut self) -> Result<(), Fatal> {
        if std::mem::take(&mut self.unsaved) {
            self.pen.begin(&self.journal).await?;
        }
        Ok(())
    }

    /// Waits until the journal is on the disk as it stands.
    async fn save(&mut self) -> Result<(), Fatal> {
        self.begin_save().await?;
        Ok(self.pen.ended().await?)
    }

    /// The same, before what the journal must outlast: an act, or a word on which others build.
    async fn save_first(&mut self) -> Result<(), Fatal> {
        if mutant::is("journal-is-written-after-the-act") {
            return Ok(());
        }
        self.save().await
    }

    /// Says what stands in the way: once, until it is another thing or something was done.
    fn trouble(&mut self, error: &dyn std::error::Error) {
        let text = Chain(error).to_string();
        if self.troubled.as_ref() != Some(&text) {
            tracing::warn!(service = %self.service.name, error = %text, "not now");
            self.troubled = Some(text);
        }
    }

    fn lease_epoch(&self) -> Option<u64> {
        self.link.lease().map(|leased| leased.epoch)
    }

    fn known_admission(&self) -> Revision {
        self.journal.admission()
    }
}

/// Agents that one event has woken do not go on in step: what can wait for a look would come to the store from all of
/// them at once.
fn out_of_step(rest: Duration) -> Duration {
    rest.mul_f64(rand::random_range(0.75..=1.25))
}

/// Waits until the store has something that was not there in the last look and must not wait for the next.
async fn news(inputs: &mut watch::Receiver<Inputs>, seen: &Inputs, journal: &Journal, own: &Identity) {
    while inputs.changed().await.is_ok() {
        if seen.is_outdated_by(&inputs.borrow_and_update(), journal, own) {
            return;
        }
    }
    // The link has ended: nothing comes any more.
    std::future::pending().await
}
