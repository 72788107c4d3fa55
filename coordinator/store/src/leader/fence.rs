//! The fence: every write of a leader compares that the leader's key and the record of its term still have the create
//! revision of its own leadership, so that a deposed leader writes nothing. In a blank or restored store another leader may
//! have the same number; it has another term.

use crate::commit::{CommitError, Committed};
use crate::store::{PATIENCE, Store};
use std::time::Duration;
use tidegate_proto::{Commit, Key, Precondition, Revision, TermId, mutant};
use tokio_util::sync::CancellationToken;

/// The writes of one leadership. A coordinator has no other.
#[derive(Clone)]
pub struct Fenced {
    store: Store,
    fence: Commit,
    lost: CancellationToken,
}

impl Fenced {
    /// The writes of the leadership of this term, whose key and record were created at this revision. `lost` is cancelled
    /// once a commit is refused by the fence.
    pub(super) fn by(store: Store, term: TermId, created: Revision, lost: CancellationToken) -> Self {
        let fence = Commit::new()
            .when(Precondition::CreatedAt(Key::Leader, created))
            .when(Precondition::CreatedAt(Key::Term(term), created));
        Self { store, fence, lost }
    }

    /// Carries out a commit on the condition that this leadership lasts: all of it, or nothing.
    ///
    /// # Errors
    /// [`CommitError`]; only `Unknown` leaves open whether it was carried out.
    pub async fn commit(&self, commit: &Commit) -> Result<Committed, CommitError> {
        self.commit_within(commit, PATIENCE).await
    }

    /// The same, where it is of no use later: see [`Store::commit_within`].
    ///
    /// # Errors
    /// [`CommitError`]; only `Unknown` leaves open whether it was carried out.
    pub async fn commit_within(&self, commit: &Commit, patience: Duration) -> Result<Committed, CommitError> {
        if mutant::is("fence-is-left-out") {
            return self.store.commit_within(commit, patience).await;
        }
        let done = self.store.commit_within(&commit.clone().with(self.fence.clone()), patience).await;
        // No later write would succeed. The watch for the loss sees the leader's key alone, which may still be there.
        if let Err(CommitError::Conflict { broken, .. }) = &done
            && broken.iter().any(|refusing| self.fence.when.contains(refusing))
        {
            self.lost.cancel();
        }
        done
    }
}
