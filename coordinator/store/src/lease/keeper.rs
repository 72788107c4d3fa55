//! The task that keeps one lease alive and publishes its state.

use super::LeaseState;
use crate::dial::CALL_TIMEOUT;
use crate::error::{self, Meaning};
use crate::retry::Retry;
use crate::store::Store;
use etcd_client::{Error as ClientError, LeaseKeepAliveStream, LeaseKeeper};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tidegate_proto::mutant;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// What owner and task share.
pub(super) struct LeaseShared {
    inner: Mutex<Inner>,
    resumed: Notify,
}

struct Inner {
    confirmed: Instant,
    paused: bool,
}

impl LeaseShared {
    pub(super) fn new(confirmed: Instant) -> Self {
        Self { inner: Mutex::new(Inner { confirmed, paused: false }), resumed: Notify::new() }
    }

    /// When the request was sent whose answer last confirmed the lease: it lives for a TTL from then at least.
    pub(super) fn confirmed(&self) -> Instant {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).confirmed
    }

    pub(super) fn pause(&self, pause: bool) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).paused = pause;
        if !pause {
            self.resumed.notify_one();
        }
    }

    fn paused(&self) -> bool {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).paused
    }

    fn confirm(&self, sent: Instant) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).confirmed = sent;
    }
}

/// Whether the store says that there is no such lease.
pub(super) fn is_gone(error: &ClientError) -> bool {
    error::meaning(error) == Meaning::NoLease
}

/// How one keep-alive went.
enum KeepAliveResult {
    Confirmed,
    Gone,
    Broken(ClientError),
}

type Stream = (LeaseKeeper, LeaseKeepAliveStream);

pub(super) struct Keeper {
    pub(super) store: Store,
    pub(super) id: i64,
    pub(super) ttl: Duration,
    pub(super) shared: std::sync::Arc<LeaseShared>,
    pub(super) published: watch::Sender<LeaseState>,
}

impl Keeper {
    pub(super) async fn run(self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.publish_when_overdue() => {}
            () = self.keep_alive() => {
                self.publish(LeaseState::Lost);
            }
        }
    }

    fn publish(&self, state: LeaseState) {
        self.published.send_if_modified(|published| std::mem::replace(published, state) != state);
    }

    /// Runs for ever beside the keep-alives: also one that hangs must not keep the owner in the dark.
    async fn publish_when_overdue(&self) {
        loop {
            let due = self.shared.confirmed() + self.ttl;
            if Instant::now() < due {
                tokio::time::sleep_until(due).await;
                continue;
            }
            self.publish(LeaseState::Overdue);
            // Nothing can be done but look again: a confirmation sets `Held` itself.
            tokio::time::sleep(self.ttl / 3).await;
        }
    }

    /// Ends when the lease is gone.
    async fn keep_alive(&self) {
        let mut stream = None;
        let mut retry = Retry::forever(self.ttl / 3);
        // Granted just now: the first is due after a third of the TTL.
        let mut wait = self.ttl / 3;
        loop {
            self.rest(wait).await;
            match self.send_keep_alive(&mut stream).await {
                KeepAliveResult::Gone if mutant::is("lease-that-is-gone-counts-as-held") => {}
                KeepAliveResult::Confirmed => {
                    retry.reset();
                    wait = self.ttl / 3;
                }
                KeepAliveResult::Gone => {
                    tracing::warn!(lease = self.id, "the store says that the lease is gone");
                    return;
                }
                KeepAliveResult::Broken(error) => {
                    tracing::debug!(lease = self.id, %error, "a keep-alive brought no answer");
                    if !mutant::is("broken-keep-alive-stream-is-kept") {
                        stream = None;
                    }
                    if error::meaning(&error) == Meaning::Authentication {
                        self.store.renew_token().await;
                    }
                    wait = retry.next().unwrap_or(self.ttl / 3);
                }
            }
        }
    }

    /// Waits for the next keep-alive; while paused, until that ends.
    async fn rest(&self, wait: Duration) {
        tokio::time::sleep(wait).await;
        while self.shared.paused() {
            self.shared.resumed.notified().await;
        }
    }

    async fn send_keep_alive(&self, stream: &mut Option<Stream>) -> KeepAliveResult {
        let sent = Instant::now();
        // A hung member must leave time for another try within the TTL.
        let limit = CALL_TIMEOUT.min(self.ttl / 2);
        let answered = timeout(limit, self.ask(stream)).await;
        let late = || ClientError::LeaseKeepAliveError(format!("no answer within {limit:?}"));
        match answered.unwrap_or_else(|_| Err(late())) {
            Ok(true) => {
                self.shared.confirm(sent);
                self.publish(LeaseState::Held);
                KeepAliveResult::Confirmed
            }
            Ok(false) => KeepAliveResult::Gone,
            Err(error) if is_gone(&error) => KeepAliveResult::Gone,
            Err(error) => KeepAliveResult::Broken(error),
        }
    }

    /// Whether the store still has the lease.
    async fn ask(&self, stream: &mut Option<Stream>) -> Result<bool, ClientError> {
        let Some((keeper, answers)) = stream else {
            // Opening a stream sends the first keep-alive and waits for its answer.
            *stream = Some(self.store.lease_client().keep_alive(self.id).await?);
            return Ok(true);
        };
        keeper.keep_alive().await?;
        match answers.message().await? {
            Some(answer) => Ok(answer.ttl() > 0),
            None => Err(ClientError::LeaseKeepAliveError("the stream has ended".to_owned())),
        }
    }
}
