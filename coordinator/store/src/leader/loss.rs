//! Notices the end of a leadership: the lease lost or overdue, the key gone or another's, the store restored. It stops no
//! write: the fence does.

use crate::entry::Entry;
use crate::lease::LeaseState;
use crate::watch::{Change, Seen, WatchStream};
use tidegate_proto::{Revision, TermId, Value};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The leadership that is watched.
pub(super) struct Own {
    pub(super) term: TermId,
    /// The create revision of its key.
    pub(super) created: Revision,
}

impl Own {
    /// Whether the leader's key is that of this leadership. In a store that took the place of another, the key of another
    /// term may have the same create revision.
    fn is(&self, leader: &Entry) -> bool {
        let of_another = matches!(&leader.value, Ok(Value::Leader(record)) if record.body.term != self.term);
        leader.create_revision == self.created && !of_another
    }
}

/// Watches a leadership, and cancels `lost` when it is over. `_watching` ends the watch of the key.
pub(super) async fn watch_for_loss(
    own: Own,
    mut lease: watch::Receiver<LeaseState>,
    mut seen: WatchStream,
    _watching: DropGuard,
    lost: CancellationToken,
) {
    let why = tokio::select! {
        () = lost.cancelled() => return,
        // An error means that the lease itself was dropped.
        _ = lease.wait_for(|state| *state != LeaseState::Held) => "its lease is no longer held",
        why = key_lost(&own, &mut seen) => why,
    };
    tracing::warn!(term = %own.created, why, "this leadership is over");
    lost.cancel();
}

/// Returns the reason when the leader's key is no longer that of this leadership. What was before its own commit is
/// skipped.
async fn key_lost(own: &Own, seen: &mut WatchStream) -> &'static str {
    loop {
        let ours = match seen.recv().await {
            None => return "its watch ended",
            Some(Seen::Restored { found, .. }) if found < own.created => false,
            Some(Seen::Listed(snapshot)) if snapshot.revision >= own.created => {
                snapshot.entries.iter().any(|entry| own.is(entry))
            }
            Some(Seen::Changed { revision, changes }) if revision >= own.created => {
                matches!(changes.last(), Some(Change::Put(entry)) if own.is(entry))
            }
            Some(_) => true,
        };
        if !ours {
            return "the leader's key is no longer its own";
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_proto::Key;
    use tidegate_proto::record::leader::Leader;

    #[test]
    fn key_of_another_term_with_the_same_number_is_not_own() {
        let own = Own { term: "one".parse().unwrap(), created: Revision(2) };
        let entry = |term: &str, create_revision| Entry {
            key: Key::Leader,
            value: Ok(Leader { term: term.parse().unwrap(), address: "a:1".into() }.into()),
            bytes_len: 0,
            mod_revision: create_revision,
            create_revision,
            lease: 1,
        };
        assert!(own.is(&entry("one", Revision(2))));
        assert!(!own.is(&entry("two", Revision(2))));
        assert!(!own.is(&entry("one", Revision(3))));
    }
}
