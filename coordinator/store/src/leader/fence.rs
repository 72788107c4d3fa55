//! The fence: every write of a leader compares that the leader's key still has the create revision of its own leadership,
//! so that a deposed leader writes nothing.

use crate::commit::{CommitError, Committed};
use crate::store::Store;
use tidegate_proto::{Commit, Key, Precondition, Revision, mutant};

/// The writes of one leadership. A coordinator has no other.
#[derive(Clone)]
pub struct Fenced {
    store: Store,
    fence: Precondition,
}

impl Fenced {
    /// The writes of the leadership whose key was created at this revision.
    pub(super) fn by(store: Store, created: Revision) -> Self {
        Self { store, fence: Precondition::CreatedAt(Key::Leader, created) }
    }

    /// Carries out a commit on the condition that this leadership lasts: all of it, or nothing.
    ///
    /// # Errors
    /// [`CommitError`]; only `Unknown` leaves open whether it was carried out.
    pub async fn commit(&self, commit: &Commit) -> Result<Committed, CommitError> {
        if mutant::is("fence-is-left-out") {
            return self.store.commit(commit).await;
        }
        self.store.commit(&commit.clone().when(self.fence.clone())).await
    }
}
