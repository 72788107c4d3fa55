//! Campaigns until this candidate leads.

use super::Leadership;
use crate::commit::{CommitError, Committed};
use crate::entry::Entry;
use crate::error::StoreError;
use crate::lease::{Lease, LeaseState};
use crate::retry::Retry;
use crate::scope::Scope;
use crate::store::{Reader, Store};
use crate::watch::{Change, Seen, WatchStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::leader::{Leader, Term};
use tidegate_proto::{Commit, Key, Precondition, Revision, TermId, Value};
use tokio_util::sync::CancellationToken;

/// The longest wait between two tries while the store is away.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// A campaign that ended without a leadership.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CampaignError {
    /// It was cancelled.
    #[error("the campaign was cancelled before it was won")]
    Cancelled,
    /// A term's id is used once.
    #[error("the store knows the term {0} already; a leadership needs a new random id")]
    TermUsed(TermId),
    /// The store refuses it for good.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The store refuses it for good.
    #[error(transparent)]
    Store(#[from] StoreError),
}

struct Bid {
    store: Store,
    term: TermId,
    address: String,
    ttl: Duration,
}

impl Reader {
    /// Campaigns until elected. Writes the leader's key, under a lease of `ttl`, and the record of the term in one
    /// transaction; waits while another leads, and through the store's absence.
    ///
    /// # Errors
    /// [`CampaignError`]: cancelled, a term id used before, or refused for good.
    pub async fn campaign(
        &self,
        term: TermId,
        address: String,
        ttl: Duration,
        cancel: CancellationToken,
    ) -> Result<Leadership, CampaignError> {
        let bid = Bid { store: Store::of_leader(self), term, address, ttl };
        tokio::select! {
            () = cancel.cancelled() => Err(CampaignError::Cancelled),
            won = bid.run() => won,
        }
    }
}

impl Bid {
    async fn run(self) -> Result<Leadership, CampaignError> {
        let end_watch = CancellationToken::new();
        let guard = end_watch.clone().drop_guard();
        let mut seen = self.store.watch(vec![Scope::Key(Key::Leader)], end_watch);
        let mut retry = Retry::forever(LONGEST_WAIT);
        let mut lease = None;
        loop {
            let standing = match self.lease(&mut lease).await {
                Ok(lease) => lease,
                Err(error) if error.retryable() => {
                    retry.wait().await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            match self.try_once(standing).await {
                Ok(Committed { revision }) => {
                    let lease = lease.take().expect("the bid was made under it");
                    return Ok(Leadership::won(self.store, self.term, revision, lease, seen, guard));
                }
                Err(CommitError::Conflict { broken, .. }) => {
                    if let Some(revision) = self.was_won(standing).await? {
                        let lease = lease.take().expect("the bid was made under it");
                        return Ok(Leadership::won(self.store, self.term, revision, lease, seen, guard));
                    }
                    self.check_term(&broken)?;
                    wait_for_chance(&mut seen, &self.term).await?;
                    retry.reset();
                }
                Err(error) if error.retryable() || lost(standing) => {
                    tracing::debug!(%error, "a bid for leadership failed");
                    retry.wait().await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The lease to campaign under; a new one where the former is gone.
    async fn lease<'l>(&self, lease: &'l mut Option<Lease>) -> Result<&'l Lease, StoreError> {
        if lease.as_ref().is_none_or(|lease| lease.state() != LeaseState::Held) {
            *lease = Some(self.store.lease(self.ttl).await?);
        }
        Ok(lease.as_ref().expect("it was just granted"))
    }

    async fn try_once(&self, lease: &Lease) -> Result<Committed, CommitError> {
        let leader = Leader { term: self.term.clone(), address: self.address.clone() };
        let term = Term { address: self.address.clone(), at: now() };
        let commit = Commit::new()
            .when(Precondition::At(Key::Leader, Revision::ABSENT))
            .when(Precondition::At(Key::Term(self.term.clone()), Revision::ABSENT))
            .put(Key::Leader, leader)
            .put(Key::Term(self.term.clone()), term);
        self.store.commit_leased(&commit, lease).await
    }

    /// Whether an earlier bid of this very campaign was carried out after all, though no answer said so: its term leads,
    /// under the lease that it was made with.
    async fn was_won(&self, lease: &Lease) -> Result<Option<Revision>, CampaignError> {
        let entry = match self.store.get(&Key::Leader).await {
            Ok(entry) => entry,
            // It is not known yet; the next bid is refused in the same way, and asks again.
            Err(error) if error.retryable() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let ours = |entry: &Entry| is_of(entry, &self.term) && entry.lease == lease.id();
        Ok(entry.filter(ours).map(|entry| entry.create_revision))
    }

    fn check_term(&self, broken: &[Precondition]) -> Result<(), CampaignError> {
        let used = broken.iter().any(|p| matches!(p, Precondition::At(Key::Term(_), _)));
        if used { Err(CampaignError::TermUsed(self.term.clone())) } else { Ok(()) }
    }
}

fn lost(lease: &Lease) -> bool {
    lease.state() == LeaseState::Lost
}

/// For people to read, in the record of the term.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Waits until there is no leader, or we are seen to lead.
async fn wait_for_chance(seen: &mut WatchStream, own: &TermId) -> Result<(), CampaignError> {
    loop {
        let chance = match seen.recv().await {
            Some(Seen::Listed(snapshot)) => snapshot.entries.iter().all(|entry| is_of(entry, own)),
            Some(Seen::Changed { changes, .. }) => match changes.last() {
                Some(Change::Put(entry)) => is_of(entry, own),
                Some(Change::Gone { .. }) => true,
                _ => false,
            },
            Some(_) => false,
            None => return Err(CampaignError::Cancelled),
        };
        if chance {
            return Ok(());
        }
    }
}

/// Whether this term leads.
fn is_of(leader: &Entry, term: &TermId) -> bool {
    matches!(&leader.value, Ok(Value::Leader(record)) if record.body.term == *term)
}
