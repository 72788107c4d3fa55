//! The agent's one lease: its heartbeat. A lost lease is replaced; keep-alives pause while a probe hangs.

use super::{Leased, log_once};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_proto::ServiceName;
use tidegate_store::Store;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const RETRY_AFTER: Duration = Duration::from_millis(500);

/// The services whose probe hangs.
#[derive(Debug, Default)]
pub struct HangingProbes(Mutex<BTreeSet<ServiceName>>);

impl HangingProbes {
    /// Notes whether a service's probe hangs, and pauses or resumes the keep-alives.
    pub fn note(&self, service: &ServiceName, hangs: bool, lease: Option<&Leased>) {
        let mut hanging = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = if hangs { hanging.insert(service.clone()) } else { hanging.remove(service) };
        if changed && hangs {
            tracing::warn!(%service, "its probe hangs; keep-alives are paused until it answers");
        }
        // Each time, not only on a change: a lease that was granted meanwhile does not know of it.
        if let Some(leased) = lease {
            leased.lease.pause_keep_alive(!hanging.is_empty());
        }
    }

    fn is_paused(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// Holds a lease until `cancel`.
pub async fn keep(
    store: &Store,
    ttl: Duration,
    hanging: &HangingProbes,
    out: &watch::Sender<Option<Leased>>,
    cancel: &CancellationToken,
) {
    let mut epoch = 0;
    let mut logged = None;
    while !cancel.is_cancelled() {
        let granted = tokio::select! {
            () = cancel.cancelled() => return,
            granted = async {
                // A lease that would expire at once is not worth granting.
                while hanging.is_paused() {
                    tokio::time::sleep(RETRY_AFTER).await;
                }
                store.lease(ttl).await
            } => granted,
        };
        match granted {
            Ok(lease) => {
                epoch += 1;
                logged = None;
                let lease = Arc::new(lease);
                tracing::info!(lease = lease.id(), ttl = ?lease.ttl(), "lease granted");
                let _ = out.send(Some(Leased { epoch, lease: lease.clone() }));
                tokio::select! {
                    () = cancel.cancelled() => return,
                    () = lease.lost() => tracing::warn!(lease = lease.id(), "the lease was lost; asking for a new one"),
                }
            }
            Err(error) => {
                log_once(&mut logged, &error);
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use tidegate_embedded_etcd::Embedded;
    use tidegate_proto::Prefix;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn lease_granted_during_hanging_probe_is_not_kept_alive() {
        let embedded = Embedded::in_memory();
        let store = Store::over(embedded.client().await.unwrap(), Prefix::default());
        let service: ServiceName = "pantry".parse().unwrap();
        let hanging = HangingProbes::default();
        // It hung before there was a lease.
        hanging.note(&service, true, None);
        let leased = Leased { epoch: 1, lease: Arc::new(store.lease(Duration::from_secs(2)).await.unwrap()) };
        hanging.note(&service, true, Some(&leased));
        let mut asked = embedded.client().await.unwrap().lease_client();
        let end = Instant::now() + Duration::from_secs(20);
        // -1: the store has no such lease any more.
        while asked.time_to_live(leased.lease.id(), None).await.unwrap().ttl() >= 0 {
            assert!(Instant::now() < end, "it is kept alive though a probe hangs");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
