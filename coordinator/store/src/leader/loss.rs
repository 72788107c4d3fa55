//! Notices the end of a leadership: the lease lost or overdue, the key gone or another's, the store restored. It stops no
//! write: the fence does.

use super::{Fenced, Leadership};
use crate::lease::{Lease, LeaseState};
use crate::store::Store;
use crate::watch::{Change, Seen, WatchStream};
use tidegate_proto::{Revision, TermId};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(super) fn notice(
    store: Store,
    term: TermId,
    create_revision: Revision,
    lease: Lease,
    seen: WatchStream,
    watching: DropGuard,
) -> Leadership {
    let lost = CancellationToken::new();
    tokio::spawn(watch_for_loss(create_revision, lease.watch(), seen, watching, lost.clone()));
    Leadership {
        writes: Fenced::by(store, create_revision),
        create_revision,
        term,
        _end: lost.clone().drop_guard(),
        lost,
        lease,
    }
}

async fn watch_for_loss(
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

/// Ends with the reason when the leader's key is not ours any more. What was before our own commit is no news.
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
