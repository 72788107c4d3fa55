//! Writes a report when it has changed, under the agent's lease; never as a heartbeat. The transaction compares that the
//! key is what this agent last saw there: its own last report, or what its admission saw. A second agent of the same name
//! is refused, and after a report that was removed or has lapsed nothing is reported under the former admission.

use crate::admit::{self, NotAdmitted};
use crate::link::Leased;
use crate::report::delayed::DelayedReport;
use std::sync::Arc;
use std::time::Duration;
use tidegate_proto::record::report::{Identity, Report};
use tidegate_proto::{Commit, InstanceId, Key, Precondition, Revision, Value};
use tidegate_store::process::spawn;
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
    /// Where a version was admitted while a report was being written: the report that the admission saw; 0 = none.
    admitted_over: Option<Revision>,
    /// Whether the report under which the last admission stands is gone.
    lapsed: bool,
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
            self.lapsed |= published.seen_gone(revision);
        }
    }

    /// A version was admitted while this report was there; 0 = none. The next report is written over just that, so that
    /// none is written under the admission once that report is gone.
    pub(crate) fn admitted_over(&mut self, report: Revision) {
        match &mut self.idle {
            Some(published) => {
                published.base_on(report);
                self.lapsed = false;
            }
            None => self.admitted_over = Some(report),
        }
    }

    /// Whether the report under which the version was admitted is gone: it is admitted again before the next one. Once.
    pub(crate) fn takes_lapse(&mut self) -> bool {
        std::mem::take(&mut self.lapsed)
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
        self.writing = Some(spawn(async move {
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
        let forgets = std::mem::take(&mut self.forget_after);
        if forgets {
            published.forget();
        }
        match self.admitted_over.take() {
            Some(seen) if forgets || done.is_err() => published.base_on(seen),
            Some(seen) => self.lapsed |= published.was_made_after(seen),
            None => {}
        }
        self.lapsed |= published.seen_gone(self.gone_at) || matches!(done, Err(NotPublished::Gone(_)));
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
    /// What the next report is written over; 0 = the key is absent.
    at: Revision,
    /// The revision that made the key, where that is known: it was absent before.
    made: Revision,
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
    /// Its own last report, or the one that the admission saw, is not there any more.
    #[error("the report {0} was removed, or has lapsed with its lease: the version is admitted again first")]
    Gone(Key),
    /// The record under the key cannot be read.
    #[error("the record {0} is not a report of this agent and cannot be read: remove it")]
    Unreadable(Key),
}

impl Published {
    fn nothing(instance: InstanceId) -> Self {
        Self { instance, last: None, at: Revision::ABSENT, made: Revision::ABSENT }
    }

    /// The key was seen to be gone at `revision`: what was published before has to be said again. Whether there was any.
    fn seen_gone(&mut self, revision: Revision) -> bool {
        let gone = self.at.exists() && revision > self.at;
        if gone {
            self.forget();
        }
        gone
    }

    /// The next report is written over this one; 0 = none.
    fn base_on(&mut self, report: Revision) {
        if self.at != report {
            self.forget();
            self.at = report;
        }
    }

    /// Whether the key was made after the report that an admission beside the last write saw: that one is gone.
    fn was_made_after(&self, seen: Revision) -> bool {
        seen.exists() && self.made > seen
    }

    fn forget(&mut self) {
        self.last = None;
        (self.at, self.made) = (Revision::ABSENT, Revision::ABSENT);
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
        tracing::debug!(
            instance = %self.instance, step = report.step.word(), health = ?report.health, rotation = ?report.rotation,
            revision = %self.at, "reported"
        );
        self.last = Some(Last { report, epoch: leased.epoch, when: now });
        Ok(())
    }

    async fn write(&mut self, store: &Store, leased: &Leased, report: &Report) -> Result<(), CommitError> {
        let key = self.key();
        let commit = Commit::new().when(Precondition::At(key.clone(), self.at)).put(key, report.clone());
        let at = store.commit_leased(&commit, &leased.lease).await?.revision;
        if !self.at.exists() {
            self.made = at;
        }
        self.at = at;
        Ok(())
    }

    /// After a write that was refused or brought no answer. What is there is written over next where it is this agent's, so
    /// that a lost answer does not lock it out. Where the key is absent, or was made again since, the report before it is
    /// gone. That counts also after a write of the first report: that one may have been there and gone meanwhile.
    async fn find(&mut self, store: &Store, own: &Identity) -> Result<(), NotPublished> {
        let key = self.key();
        let Some(entry) = store.get(&key).await.map_err(NotPublished::Store)? else {
            self.forget();
            return Err(NotPublished::Gone(key));
        };
        let Ok(Value::Report(record)) = &entry.value else { return Err(NotPublished::Unreadable(key)) };
        admit::check_holder(&self.instance, &record.body.identity, own).map_err(NotPublished::Holder)?;
        let made_since = self.at.exists() && entry.create_revision > self.at;
        self.base_on(entry.mod_revision);
        self.made = entry.create_revision;
        if made_since { Err(NotPublished::Gone(key)) } else { Ok(()) }
    }

    fn key(&self) -> Key {
        Key::Report(self.instance.service.clone(), self.instance.node.clone())
    }
}

#[cfg(test)]
mod tests;
