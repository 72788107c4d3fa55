//! Notices the end of a leadership: the lease lost or overdue, the key gone or another's, the store restored. It stops no
//! write: the fence does.

use crate::lease::LeaseState;
use crate::watch::{Change, Seen, WatchStream};
use tidegate_proto::Revision;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Watches the leadership whose key was created at a revision, and cancels `lost` when it is over. `_watching` ends the
/// watch of the key.
pub(super) async fn watch_for_loss(
    created: Revision,
    mut lease: watch::Receiver<LeaseState>,
    mut seen: WatchStream,
    _watching: DropGuard,
    lost: CancellationToken,
) {
    let why = tokio::select! {
        () = lost.cancelled() => return,
        // An error means that the lease itself was dropped.
        _ = lease.wait_for(|state| *state != LeaseState::Held) => "its lease is no longer held",
        why = key_lost(created, &mut seen) => why,
    };
    tracing::warn!(term = %created, why, "this leadership is over");
    lost.cancel();
}

/// Returns the reason when the leader's key is no longer that of this leadership. What was before its own commit is
/// skipped.
async fn key_lost(created: Revision, seen: &mut WatchStream) -> &'static str {
    loop {
        let ours = match seen.recv().await {
            None => return "its watch ended",
            Some(Seen::Restored { found, .. }) if found < created => false,
            Some(Seen::Listed(snapshot)) if snapshot.revision >= created => {
                snapshot.entries.iter().any(|entry| entry.create_revision == created)
            }
            Some(Seen::Changed { revision, changes }) if revision >= created => {
                matches!(changes.last(), Some(Change::Put(entry)) if entry.create_revision == created)
            }
            Some(_) => true,
        };
        if !ours {
            return "the leader's key is no longer its own";
        }
    }
}
