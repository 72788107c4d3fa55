//! The store itself: one lock over keys and leases, numbered changes, and the rule that no change is visible to a
//! client before it is durable.
//!
//! # Invariants
//! * Every answer, also of a read, waits until the last change that it could have seen is on the disk. So no
//!   client ever saw what a crash takes back.
//! * Changes reach the disk in the order in which they were made; watches see revisions in that order, after it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use etcd_client::proto::PbResponseHeader;
use tokio::{sync::Notify, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    disk::{Disk, LeaseChange, Record},
    durable::Durable,
    identity::Identity,
    kv::{Kv, Revision},
    lease::{Leases, TICK},
    mutant,
    refusal::Refusal,
    txn::Writer,
};

/// Keys and leases, and the number of the last change to either.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) kv: Kv,
    pub(crate) leases: Leases,
    /// Counts every change that has to reach the disk; 0 is what was opened.
    pub(crate) sequence: u64,
    stopped: bool,
}

/// One open store.
#[derive(Debug)]
pub(crate) struct Engine {
    state: Mutex<State>,
    durable: Arc<Durable>,
    disk: Option<Disk>,
    identity: Identity,
    closed: CancellationToken,
    lease_granted: Arc<Notify>,
    expiry: Mutex<Option<JoinHandle<()>>>,
    /// Where this store is served, for the member list.
    served_at: Mutex<Vec<String>>,
}

impl Engine {
    pub(crate) fn new(
        kv: Kv,
        leases: Leases,
        identity: Identity,
        durable: Arc<Durable>,
        disk: Option<Disk>,
    ) -> Self {
        Self {
            state: Mutex::new(State { kv, leases, sequence: 0, stopped: false }),
            durable,
            disk,
            identity,
            closed: CancellationToken::new(),
            lease_granted: Arc::default(),
            expiry: Mutex::default(),
            served_at: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic in a writer would leave a revision half made in memory. Writers check everything before their
        // first change and no change can fail, so the state behind a poisoned lock is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    pub(crate) fn durable(&self) -> &Durable {
        &self.durable
    }

    pub(crate) fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    pub(crate) fn lease_granted(&self) -> Arc<Notify> {
        self.lease_granted.clone()
    }

    pub(crate) fn with_expiry_task(&self, change: impl FnOnce(&mut Option<JoinHandle<()>>)) {
        change(&mut self.expiry.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The URLs at which this store is served now.
    pub(crate) fn served_at(&self) -> Vec<String> {
        self.served_at.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn note_served_at(&self, change: impl FnOnce(&mut Vec<String>)) {
        change(&mut self.served_at.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// A header with this store's identity at a revision.
    pub(crate) fn header(&self, revision: i64) -> PbResponseHeader {
        PbResponseHeader {
            cluster_id: self.identity.cluster,
            member_id: self.identity.member,
            revision,
            raft_term: self.identity.term,
        }
    }

    /// Looks at the state as it is in memory, durable or not: only for what is not sent to a client, or is asked for at
    /// revisions that are known to be durable.
    pub(crate) fn peek<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.lock())
    }

    /// Reads, and waits until all that was read is durable.
    pub(crate) async fn read<T>(
        &self,
        look: impl FnOnce(&mut State) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let (answer, sequence) = {
            let mut state = self.lock();
            if state.stopped {
                return Err(Refusal::Stopped);
            }
            // Before anything is changed, so that what waits for space does not grow.
            if let Some(fault) = self.durable.fault() {
                return Err(fault.refusal());
            }
            (look(&mut state), state.sequence)
        };
        self.durable.wait_for(sequence).await?;
        answer
    }

    /// Changes keys, and waits until that is durable. A refusal has changed nothing; it waits as a read does.
    pub(crate) async fn write<T>(
        &self,
        change: impl FnOnce(&mut Writer<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        self.read(|state| {
            let State { kv, leases, .. } = state;
            let mut writer = Writer::new(kv, leases);
            let answer = change(&mut writer)?;
            let draft = writer.draft;
            if let Some(revision) = state.kv.commit(draft) {
                self.record(state, Record::of_revision(revision));
            }
            Ok(answer)
        })
        .await
    }

    /// Compacts; answers the current revision.
    pub(crate) async fn compact(&self, revision: i64) -> Result<i64, Refusal> {
        self.read(|state| {
            let settled = state.kv.compact(revision)?;
            self.record(state, Record::of_compaction(revision, settled));
            Ok(state.kv.revision())
        })
        .await
    }

    /// Grants a lease; answers its TTL and the current revision.
    pub(crate) async fn grant(&self, id: i64, ttl: i64) -> Result<(i64, i64), Refusal> {
        let granted = self
            .read(|state| {
                let now = Instant::now();
                state.leases.look(now);
                let ttl = state.leases.grant(id, ttl, now)?;
                self.record(state, Record::of_lease(LeaseChange::Grant { id, ttl }, None));
                Ok((ttl, state.kv.revision()))
            })
            .await?;
        self.lease_granted.notify_one();
        Ok(granted)
    }

    /// Revokes a lease with its keys; answers the revision after it.
    pub(crate) async fn revoke(&self, id: i64) -> Result<i64, Refusal> {
        self.read(|state| {
            self.revoke_in(state, id)?;
            Ok(state.kv.revision())
        })
        .await
    }

    /// Deletes all keys of a lease in one revision, and the lease with them.
    fn revoke_in(&self, state: &mut State, id: i64) -> Result<(), Refusal> {
        let keys = state.leases.remove(id).ok_or(Refusal::LeaseNotFound)?;
        let mut draft = crate::kv::Draft::default();
        for key in keys.into_iter().filter(|_| !mutant::is("lapsed-lease-leaves-its-keys")) {
            state.kv.delete(&mut draft, &crate::kv::KeyRange::new(&key, b""));
        }
        let revision = state.kv.commit(draft);
        self.record(state, Record::of_lease(LeaseChange::Revoke { id }, revision));
        Ok(())
    }

    /// Restarts a lease's TTL; answers it, 0 if there is no such lease, and the current revision.
    pub(crate) async fn keep_alive(&self, id: i64) -> Result<(i64, i64), Refusal> {
        self.read(|state| {
            let now = Instant::now();
            state.leases.look(now);
            let ttl = state.leases.keep_alive(id, now).unwrap_or(0);
            Ok((ttl, state.kv.revision()))
        })
        .await
    }

    /// Revokes every lease that has lapsed; answers when to look again, if there are leases.
    pub(crate) fn expire(&self, now: Instant) -> Option<Instant> {
        let mut state = self.lock();
        if state.stopped {
            return None;
        }
        if self.durable.fault().is_some() {
            // No holder can renew its lease now.
            state.leases.stand_still();
            return Some(now + TICK);
        }
        if state.leases.look(now) {
            tracing::warn!("the store did not run for a while; every lease gets its whole TTL again");
        }
        while let Some(id) = state.leases.lapsed(now) {
            tracing::debug!(lease = id, "lease lapsed");
            if self.revoke_in(&mut state, id).is_err() {
                break;
            }
        }
        state.leases.next_deadline()
    }

    /// Numbers a change and sends it to the disk, or makes it visible at once where there is none.
    fn record(&self, state: &mut State, record: Record) {
        state.sequence += 1;
        match &self.disk {
            Some(disk) => disk.send(state.sequence, record),
            None => {
                let revisions: Vec<Arc<Revision>> = record.revision.into_iter().collect();
                self.durable.reached(state.sequence, &revisions);
            }
        }
    }

    /// Stops: later requests are refused, streams end, and the file is closed once all changes are in it.
    pub(crate) async fn close(&self) {
        self.lock().stopped = true;
        self.closed.cancel();
        if let Some(disk) = &self.disk {
            disk.close().await;
        }
    }
}

impl Drop for Engine {
    /// Ends the expiry task, which holds no store while it sleeps.
    fn drop(&mut self) {
        self.closed.cancel();
    }
}
