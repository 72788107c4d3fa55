//! The agent's one lease: its heartbeat. Granted anew when it was lost; paused while a probe hangs.

use super::{Leased, tell};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_proto::ServiceName;
use tidegate_store::Store;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Between two attempts to have a lease granted.
const PATIENCE: Duration = Duration::from_millis(500);

/// The services whose probe hangs.
#[derive(Debug, Default)]
pub struct Pulse(Mutex<BTreeSet<ServiceName>>);

impl Pulse {
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
    pulse: &Pulse,
    out: &watch::Sender<Option<Leased>>,
    cancel: &CancellationToken,
) {
    let mut epoch = 0;
    let mut told = None;
    while !cancel.is_cancelled() {
        let granted = tokio::select! {
            () = cancel.cancelled() => return,
            granted = async {
                // A lease that is granted only to lapse again helps nobody.
                while pulse.is_paused() {
                    tokio::time::sleep(PATIENCE).await;
                }
                store.lease(ttl).await
            } => granted,
        };
        match granted {
            Ok(lease) => {
                epoch += 1;
                told = None;
                let lease = Arc::new(lease);
                tracing::info!(lease = lease.id(), ttl = ?lease.ttl(), "lease granted");
                let _ = out.send(Some(Leased { epoch, lease: lease.clone() }));
                tokio::select! {
                    () = cancel.cancelled() => return,
                    () = lease.lost() => tracing::warn!(lease = lease.id(), "the lease was lost; asking for a new one"),
                }
            }
            Err(error) => {
                tell(&mut told, &error);
                tokio::time::sleep(PATIENCE).await;
            }
        }
    }
}
