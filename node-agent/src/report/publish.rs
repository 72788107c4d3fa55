//! Writes a report when it has changed, under the agent's lease; never on a heartbeat. It compares that the key is
//! absent or bears this agent's own identity: a second holder is refused.

use crate::admit::{self, NotAdmitted};
use crate::link::{Leased, Link};
use std::time::{Duration, Instant};
use tidegate_proto::record::report::{Identity, Report};
use tidegate_proto::{Commit, InstanceId, Key, Precondition, Revision, Value};
use tidegate_store::{CommitError, LeaseState, Store, StoreError};

/// A report in which nothing else changed than the count of requests is written no more often than this.
const IN_FLIGHT_EVERY: Duration = Duration::from_secs(1);

/// What was published last, and where it lies.
#[derive(Debug)]
pub struct Published {
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
pub enum NotPublished {
    /// Another agent holds the key, or the same one before a reboot.
    #[error(transparent)]
    Holder(NotAdmitted),
    /// The store.
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
    /// Nothing yet.
    pub fn nothing(instance: InstanceId) -> Self {
        Self { instance, last: None, at: Revision::ABSENT }
    }

    /// The key was seen to be gone at `revision`: what was published before has to be said again.
    pub fn seen_gone(&mut self, revision: Revision) -> bool {
        let gone = self.last.is_some() && revision > self.at;
        if gone {
            self.forget();
        }
        gone
    }

    /// The store fell back, or shows an older report than the last one: it is said again.
    pub fn forget(&mut self) {
        self.last = None;
        self.at = Revision::ABSENT;
    }

    /// The mod_revision of the last report; 0 = nothing lies there.
    pub fn at(&self) -> Revision {
        self.at
    }

    /// The lease under which the last report lies.
    pub fn epoch(&self) -> Option<u64> {
        self.last.as_ref().map(|last| last.epoch)
    }

    /// Whether `report` says something else than what lies in the store.
    fn is_due(&self, report: &Report, epoch: u64, now: Instant) -> bool {
        let Some(last) = &self.last else { return true };
        if last.epoch != epoch {
            return true;
        }
        let quiet = Report { in_flight: last.report.in_flight, ..report.clone() } == last.report;
        match (quiet, report.in_flight == last.report.in_flight) {
            (true, true) => false,
            (true, false) => report.in_flight.is_none() || now.duration_since(last.when) >= IN_FLIGHT_EVERY,
            (false, _) => true,
        }
    }

    /// Writes `report` if that is due.
    pub async fn publish(
        &mut self,
        link: &Link,
        own: &Identity,
        report: Report,
        now: Instant,
    ) -> Result<(), NotPublished> {
        let (Some(store), Some(leased)) = (link.store(), link.lease()) else { return Ok(()) };
        if !self.is_due(&report, leased.epoch, now) || leased.lease.state() == LeaseState::Lost {
            return Ok(());
        }
        match self.write(&store, &leased, &report).await {
            Err(
                CommitError::Conflict { .. } | CommitError::NotApplied { .. } | CommitError::Unknown { .. },
            ) => {
                self.find(&store, own).await?;
                self.write(&store, &leased, &report).await.map_err(NotPublished::Commit)?;
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
