//! One commit, one transaction. Checked before it is sent; never sent again once the store may have taken it: where its
//! outcome is unknown, the store is asked what it holds.

mod check;
mod outcome;
mod transaction;

pub use check::{InvalidCommit, MAX_COMMIT_BYTES};

use crate::dial;
use crate::error::{self, Meaning, StoreError};
use crate::lease::Lease;
use crate::retry::Retry;
use crate::store::{Fall, PATIENCE, Store};
use etcd_client::{Error as ClientError, TxnResponse};
use outcome::Outcome;
use std::time::Duration;
use tidegate_proto::{Commit, Precondition, Revision, mutant};
use transaction::Sent;

/// A commit that was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The revision that it made; for a commit without writes the one at which its preconditions held.
    pub revision: Revision,
}

/// A commit that was not carried out, or whose outcome is not known.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CommitError {
    /// A precondition did not hold, so nothing was written. What was read before is out of date.
    #[error("transaction conflict at revision {at}: a compared key has changed")]
    Conflict {
        /// The revision at which it was refused.
        at: Revision,
        /// The preconditions on single keys that did not hold. None named = one on a whole kind.
        broken: Vec<Precondition>,
    },
    /// It breaks a limit or a rule; nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidCommit),
    /// No answer came; what the store holds shows that it was not carried out by then. It is not sent again here: plan
    /// again from what the store holds. A transaction still under way somewhere would find its preconditions broken by
    /// whatever is written next in its place.
    #[error("no answer to the commit; the store shows that it was not applied")]
    NotApplied {
        /// Why there was no answer.
        #[source]
        cause: StoreError,
    },
    /// No answer came, and reading back did not show it either. Read everything again before the next step.
    #[error("no answer to the commit; its outcome is unknown: {found}")]
    Unknown {
        /// What reading back found.
        found: String,
        /// Why there was no answer.
        #[source]
        cause: StoreError,
    },
    /// The store refused it, or could not be reached at all; nothing was written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl CommitError {
    /// Whether a commit planned again from fresh state may succeed without any other change.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Conflict { .. } | Self::NotApplied { .. } | Self::Unknown { .. } => true,
            Self::Invalid(_) => false,
            Self::Store(error) => error.retryable(),
        }
    }
}

impl Store {
    /// Carries out a commit: all of it, or nothing.
    ///
    /// # Errors
    /// [`CommitError`]; only `Unknown` leaves open whether it was carried out.
    pub async fn commit(&self, commit: &Commit) -> Result<Committed, CommitError> {
        self.carry_out(commit, None, PATIENCE).await
    }

    /// The same, where it is of no use later: so long after it was sent first, it is not sent once more; and no try is waited
    /// for longer than that.
    ///
    /// # Errors
    /// As [`Store::commit`].
    pub async fn commit_within(&self, commit: &Commit, patience: Duration) -> Result<Committed, CommitError> {
        self.carry_out(commit, None, patience).await
    }

    /// The same as [`Store::commit`], and the reports and the leader's key that it puts live under `lease`: they go when it goes.
    ///
    /// # Errors
    /// As [`Store::commit`]; `Store(Refused)` where the lease is gone.
    pub async fn commit_leased(&self, commit: &Commit, lease: &Lease) -> Result<Committed, CommitError> {
        self.carry_out(commit, Some(lease.id()), PATIENCE).await
    }

    async fn carry_out(
        &self,
        commit: &Commit,
        lease: Option<i64>,
        patience: Duration,
    ) -> Result<Committed, CommitError> {
        let sent = Sent::new(commit, self.prefix(), lease);
        check::check(commit, &sent)?;
        let floor = self.floor_for(&sent).await?;
        match self.send(&sent, patience).await {
            Ok(answer) if answer.succeeded() => {
                let found = || "the store says yes, but not at which revision".to_owned();
                let revision = self.answered_at(&answer, floor);
                revision
                    .map(|revision| Committed { revision })
                    .map_err(|cause| CommitError::Unknown { found: found(), cause })
            }
            Ok(answer) => {
                let at = self.answered_at(&answer, floor)?;
                match sent.arrived_before(&answer, floor) {
                    Some(revision) => {
                        tracing::info!(%revision, "a commit arrived twice; the first time it was carried out");
                        Ok(Committed { revision })
                    }
                    None => Err(CommitError::Conflict { at, broken: sent.broken(commit, &answer) }),
                }
            }
            Err(error) => self.resolve(&sent, floor, &error).await,
        }
    }

    /// The revision at which a commit was answered. A member that answers it has all that was committed before, so an answer
    /// from below `floor`, which the store had reached when the commit was sent, is that of a store in its place.
    fn answered_at(&self, answer: &TxnResponse, floor: Revision) -> Result<Revision, StoreError> {
        let found = self.revision_of("commit", answer.header())?;
        // Unless a watch has found that already.
        if found < floor.min(self.highest_seen()) {
            tracing::warn!(seen = %floor, %found, "a commit was answered from behind what was seen");
            self.fell_back(Fall { seen: floor, found });
        }
        Ok(found)
    }

    /// Sends it once. Only where the store did not take it, because no connection was made or it was too busy, it is tried
    /// again.
    async fn send(&self, sent: &Sent, patience: Duration) -> Result<TxnResponse, ClientError> {
        let (limit, mut retry) = (patience.min(dial::CALL_TIMEOUT), Retry::within(patience));
        loop {
            let mut kv = self.kv();
            match dial::limited_to(limit, kv.txn(sent.txn())).await {
                Err(error) if error::meaning(&error) == Meaning::NotTaken && retry.wait().await => {}
                answer => return answer,
            }
        }
    }

    async fn resolve(
        &self,
        sent: &Sent,
        floor: Revision,
        error: &ClientError,
    ) -> Result<Committed, CommitError> {
        let cause = self.explain("commit", error);
        if error::meaning(error) != Meaning::Unknown {
            return Err(cause.into());
        }
        tracing::info!(error = %cause, "no answer to a commit; reading back what the store holds");
        match self.read_back(sent, floor).await {
            Ok(Outcome::Applied(revision)) => Ok(Committed { revision }),
            Ok(Outcome::NotApplied) if mutant::is("unanswered-commit-counts-as-done") => {
                Ok(Committed { revision: self.highest_seen() })
            }
            Ok(Outcome::NotApplied) => Err(CommitError::NotApplied { cause }),
            Ok(Outcome::Unclear(found)) => Err(CommitError::Unknown { found, cause }),
            Err(error) => Err(CommitError::Unknown { found: error.to_string(), cause }),
        }
    }
}
