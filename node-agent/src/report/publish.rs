//! Writes a report when it has changed, under the agent's lease; never as a heartbeat. The transaction compares that
//! the key is absent or has this agent's identity, so a second agent of the same name is refused.

use crate::admit::{self, NotAdmitted};
use crate::link::Leased;
use crate::report::delayed::DelayedReport;
use std::sync::Arc;
use std::time::Duration;
use tidegate_proto::record::report::{Identity, Report};
use tidegate_proto::{Commit, InstanceId, Key, Precondition, Revision, Value};
use tidegate_store::{CommitError, LeaseState, Store, StoreError};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// A report in which nothing else changed than the count of requests is written no more often than this.
const IN_FLIGHT_EVERY: Duration = Duration::from_secs(1);

/// After a report that was not written, the next is tried no sooner than this.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Writes reports beside what the agent does meanwhile: one at a time, always the newest. What changed while one was
/// being written is said when that has ended; states in between are not.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    /// None while a report is being written.
    idle: Option<Published>,
    writing: Option<JoinHandle<(Published, Result<(), NotPublished>)>>,
    /// What is being written, until it is.
    delayed: Option<Arc<DelayedReport>>,
    /// The newest revision at which the key was seen not to exist.
    gone_at: Revision,
    /// Whether what is being written is to be said again.
    forget_after: bool,
    /// After one that was not written: when the next may be tried.
    again_at: Option<Instant>,
}

impl Publisher {
    /// Nothing was published yet.
    pub(crate) fn new(instance: InstanceId) -> Self {
        Self { idle: Some(Published::nothing(instance)), ..Self::default() }
    }

    /// The key was seen to be gone at `revision`: what was published before has to be said again.
    pub(crate) fn seen_gone(&mut self, revision: Revision) {
        self.gone_at = revision;
        if let Some(published) = &mut self.idle {
            published.seen_gone(revision);
        }
    }

    /// The store fell back, or shows an older report than the last one: it is said again.
    pub(crate) fn forget(&mut self) {
        match &mut self.idle {
            Some(published) => published.forget(),
            None => self.forget_after = true,
        }
    }

    /// The mod_revision of the last report; 0 = nothing lies there, or one is being written.
    pub(crate) fn at(&self) -> Revision {
        self.idle.as_ref().map_or(Revision::ABSENT, |published| published.at)
    }

    /// Begins to write `report` if that is due and nothing is being written: after `pause`, in which a newer one may
    /// take its place.
    pub(crate) fn begin(
        &mut self,
        store: Store,
        leased: Leased,
        own: &Identity,
        report: Report,
        now: Instant,
        pause: Duration,
    ) {
        let Some(report) = self.replace_delayed(report, pause) else { return };
        if self.again_at.is_some_and(|at| now < at) {
            return;
        }
        let Some(mut published) = self.idle.take() else { return };
        if !published.is_due(&report, leased.epoch, now) || leased.lease.state() == LeaseState::Lost {
            self.idle = Some(published);
            return;
        }
        let own = own.clone();
        let delayed = Arc::new(DelayedReport::new(report));
        self.delayed = Some(Arc::clone(&delayed));
        self.writing = Some(tokio::spawn(async move {
            let done = match delayed.when_due(pause).await {
                Some(report) => published.publish(&store, &leased, &own, report, now).await,
                None => Ok(()),
            };
            (published, done)
        }));
    }

    /// In the place of one that waits still; gives it back where there is none.
    fn replace_delayed(&self, report: Report, pause: Duration) -> Option<Report> {
        let Some(delayed) = &self.delayed else { return Some(report) };
        let late = delayed.replace(report);
        if pause.is_zero() {
            delayed.send_now();
        }
        late
    }

    /// Whether one was being written and that has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.writing.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Whether one is being written.
    pub(crate) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// Waits until the report that is being written is; for ever where none is. Giving up on it loses nothing.
    pub(crate) async fn ended(&mut self) -> Result<(), NotPublished> {
        let Some(writing) = &mut self.writing else { return std::future::pending().await };
        let (mut published, done) = match writing.await {
            Ok(ended) => ended,
            // Never cancelled; where it broke, so does the agent.
            Err(broken) => std::panic::resume_unwind(broken.into_panic()),
        };
        published.seen_gone(self.gone_at);
        if std::mem::take(&mut self.forget_after) {
            published.forget();
        }
        self.idle = Some(published);
        (self.writing, self.delayed) = (None, None);
        self.again_at = done.is_err().then(|| Instant::now() + RETRY_AFTER);
        done
    }
}

/// The last report, and its mod_revision.
#[derive(Debug)]
struct Published {
    instance: InstanceId,
    last: Option<Last>,
    at: Revision,
}

#[derive(Debug)]
struct Last {
    report: Report,
    epoch: u64,
    when: Instant,
}

/// Why a report was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotPublished {
    /// Another agent holds the key, or the same one before a reboot.
    #[error(transparent)]
    Holder(NotAdmitted),
    #[error("the report could not be compared with what the store has")]
    Store(#[source] StoreError),
    /// The transaction.
    #[error("the report was not written")]
    Commit(#[source] CommitError),
    /// The record under the key cannot be read.
    #[error("the record {0} is not a report of this agent and cannot be read: remove it")]
    Unreadable(Key),
}

impl Published {
    fn nothing(instance: InstanceId) -> Self {
        Self { instance, last: None, at: Revision::ABSENT }
    }

    /// The key was seen to be gone at `revision`: what was published before has to be said again.
    fn seen_gone(&mut self, revision: Revision) {
        if self.last.is_some() && revision > self.at {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.last = None;
        self.at = Revision::ABSENT;
    }

    /// Whether `report` says something else than what lies in the store.
    fn is_due(&self, report: &Report, epoch: u64, now: Instant) -> bool {
        let Some(last) = &self.last else { return true };
        if last.epoch != epoch {
            return true;
        }
        if *report == last.report {
            return false;
        }
        // Counts that move on are said seldom.
        let counts_alone = Report {
            in_flight: last.report.in_flight,
            balancers: last.report.balancers.clone(),
            ..report.clone()
        } == last.report;
        let ended = report.in_flight.is_none() && report.balancers.is_empty();
        !counts_alone || ended || now.duration_since(last.when) >= IN_FLIGHT_EVERY
    }

    async fn publish(
        &mut self,
        store: &Store,
        leased: &Leased,
        own: &Identity,
        report: Report,
        now: Instant,
    ) -> Result<(), NotPublished> {
        match self.write(store, leased, &report).await {
            Err(
                CommitError::Conflict { .. } | CommitError::NotApplied { .. } | CommitError::Unknown { .. },
            ) => {
                self.find(store, own).await?;
                self.write(store, leased, &report).await.map_err(NotPublished::Commit)?;
            }
            Err(error) => return Err(NotPublished::Commit(error)),
            Ok(()) => {}
        }
        tracing::debug!(instance = %self.instance, step = report.step.word(), revision = %self.at, "reported");
        self.last = Some(Last { report, epoch: leased.epoch, when: now });
        Ok(())
    }

    async fn write(&mut self, store: &Store, leased: &Leased, report: &Report) -> Result<(), CommitError> {
        let key = self.key();
        let commit = Commit::new().when(Precondition::At(key.clone(), self.at)).put(key, report.clone());
        self.at = store.commit_leased(&commit, &leased.lease).await?.revision;
        Ok(())
    }

    async fn find(&mut self, store: &Store, own: &Identity) -> Result<(), NotPublished> {
        let key = self.key();
        let Some(entry) = store.get(&key).await.map_err(NotPublished::Store)? else {
            self.at = Revision::ABSENT;
            return Ok(());
        };
        let Ok(Value::Report(record)) = &entry.value else { return Err(NotPublished::Unreadable(key)) };
        admit::check_holder(&self.instance, &record.body.identity, own).map_err(NotPublished::Holder)?;
        self.at = entry.mod_revision;
        Ok(())
    }

    fn key(&self) -> Key {
        Key::Report(self.instance.service.clone(), self.instance.node.clone())
    }
}
