//! A lease of the store and the task that keeps it alive: on a stream that it opens again whenever it breaks. It
//! never grants a new lease by itself: what lived under the old one is gone, and only the owner can say it again.

mod keeper;

use crate::error::StoreError;
use crate::process::spawn;
use crate::store::Store;
use keeper::{Keeper, LeaseShared};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The state of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseState {
    /// Confirmed within its TTL.
    Held,
    /// Not confirmed for a whole TTL, by our own monotonic clock: the store is away, or keep-alives are paused. It
    /// may be gone, and it may come back: a store that was away gives each lease a whole TTL.
    Overdue,
    /// The store says that it is gone. Final.
    Lost,
}

/// A lease. Dropped, it is no longer kept alive and lapses; [`Lease::revoke`] ends it at once.
pub struct Lease {
    id: i64,
    ttl: Duration,
    store: Store,
    shared: Arc<LeaseShared>,
    state: watch::Receiver<LeaseState>,
    _keeper: DropGuard,
}

impl Store {
    /// Grants a lease and keeps it alive in the background, every third of its TTL.
    ///
    /// The store may grant a longer TTL than was asked for (etcd: at least 2 s); see [`Lease::ttl`].
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub async fn lease(&self, ttl: Duration) -> Result<Lease, StoreError> {
        let seconds =
            i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX).saturating_add((ttl.subsec_nanos() > 0) as i64);
        let asked = Instant::now();
        let granted = self
            .call("grant a lease", || {
                let mut client = self.lease_client();
                async move { client.grant(seconds.max(1), None).await }
            })
            .await?;
        self.revision_of("grant a lease", granted.header())?;
        let ttl = u64::try_from(granted.ttl()).ok().filter(|ttl| *ttl > 0);
        let ttl = ttl
            .map(Duration::from_secs)
            .ok_or_else(|| self.malformed("grant a lease", "its TTL is not positive"))?;
        Ok(self.keep(granted.id(), ttl, asked))
    }

    fn keep(&self, id: i64, ttl: Duration, confirmed: Instant) -> Lease {
        let (published, state) = watch::channel(LeaseState::Held);
        let shared = Arc::new(LeaseShared::new(confirmed));
        let stop = CancellationToken::new();
        let keeper = Keeper { store: self.clone(), id, ttl, shared: shared.clone(), published };
        spawn(keeper.run(stop.clone()));
        Lease { id, ttl, store: self.clone(), shared, state, _keeper: stop.drop_guard() }
    }
}

impl Lease {
    /// The store's name for it.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// How long it lives without being kept alive, as granted.
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Its state, to be looked at and waited on.
    pub fn watch(&self) -> watch::Receiver<LeaseState> {
        self.state.clone()
    }

    /// Its state now, by the clock and not only by what the background task has got round to: a process that was
    /// stopped for longer than the TTL learns it here first.
    pub fn state(&self) -> LeaseState {
        match *self.state.borrow() {
            LeaseState::Held if self.shared.confirmed().elapsed() >= self.ttl => LeaseState::Overdue,
            state => state,
        }
    }

    /// Stops the keep-alives, or lets them go on: a probe that hangs must not look alive. A lease that is paused for
    /// its whole TTL is lost.
    pub fn pause_keep_alive(&self, pause: bool) {
        self.shared.pause(pause);
    }

    /// Waits until the store says that the lease is gone.
    pub async fn lost(&self) {
        let mut state = self.state.clone();
        // The task ends only after it has signalled the loss, or with this lease.
        let _ = state.wait_for(|state| *state == LeaseState::Lost).await;
    }

    /// Ends the lease at once; the keys that live under it go with it. One that is gone already is no error.
    ///
    /// # Errors
    /// Any of [`StoreError`]; it lapses by itself then.
    pub async fn revoke(self) -> Result<(), StoreError> {
        self.shared.pause(true);
        self.store
            .call("revoke a lease", || {
                let (mut client, id) = (self.store.lease_client(), self.id);
                async move {
                    match client.revoke(id).await {
                        Err(error) if keeper::is_gone(&error) => Ok(()),
                        answer => answer.map(|_| ()),
                    }
                }
            })
            .await
    }
}
