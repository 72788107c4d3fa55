//! Leadership: a leased key and the record of its term, made by one transaction, whose revision is the fence that every
//! commit of the leader carries ([`Fenced`]). A loss is signalled at once; a write between the loss and its signal is
//! stopped by the fence.

mod campaign;
mod fence;
mod loss;

pub use campaign::CampaignError;
pub use fence::Fenced;

use crate::entry::Entry;
use crate::error::StoreError;
use crate::lease::{Lease, LeaseState};
use crate::process::spawn;
use crate::store::{Reader, Store};
use crate::watch::WatchStream;
use tidegate_proto::record::leader::Leader;
use tidegate_proto::{Key, Record, Revision, TermId, Value};
use tokio_util::sync::{CancellationToken, DropGuard};

/// A leadership that was won. Dropped, it lapses within its TTL; [`Leadership::resign`] ends it at once.
pub struct Leadership {
    /// The create revision of the leader's key: the number of this term.
    pub create_revision: Revision,
    /// The random id of this term.
    pub term: TermId,
    /// Cancelled as soon as this leadership is known or feared to be over.
    pub lost: CancellationToken,
    lease: Lease,
    writes: Fenced,
    _end: DropGuard,
}

impl Leadership {
    /// The leadership whose key was created at a revision, under this lease; from now on it is watched for its loss.
    fn won(
        store: Store,
        term: TermId,
        create_revision: Revision,
        lease: Lease,
        seen: WatchStream,
        watching: DropGuard,
    ) -> Self {
        let lost = CancellationToken::new();
        let own = loss::Own { term: term.clone(), created: create_revision };
        spawn(loss::watch_for_loss(own, lease.watch(), seen, watching, lost.clone()));
        Self {
            writes: Fenced::by(store, term.clone(), create_revision, lost.clone()),
            create_revision,
            term,
            _end: lost.clone().drop_guard(),
            lost,
            lease,
        }
    }

    /// Whether it is still held, by the clock and not only by what was signalled: to be checked before each act, so
    /// that a leader that was stopped for longer than its TTL does nothing more.
    pub fn is_held(&self) -> bool {
        if self.lease.state() != LeaseState::Held {
            self.lost.cancel();
        }
        !self.lost.is_cancelled()
    }

    /// The lease that the leader's key lives under.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// What it writes with.
    pub fn writes(&self) -> &Fenced {
        &self.writes
    }

    /// Gives the leadership up at once, so that another need not wait for the TTL.
    ///
    /// # Errors
    /// Any of [`StoreError`]; it lapses by itself then.
    pub async fn resign(self) -> Result<(), StoreError> {
        self.lost.cancel();
        self.lease.revoke().await
    }
}

impl Reader {
    /// Who leads now, with the create revision of the leader's key.
    ///
    /// # Errors
    /// Any of [`StoreError`].
    pub async fn current_leader(&self) -> Result<Option<(Record<Leader>, Revision)>, StoreError> {
        let Some(entry) = self.get(&Key::Leader).await? else { return Ok(None) };
        let created = entry.create_revision;
        leader_of(entry).map(|record| Some((record, created)))
    }
}

fn leader_of(entry: Entry) -> Result<Record<Leader>, StoreError> {
    match entry.value {
        Ok(Value::Leader(record)) => Ok(record),
        Ok(other) => Err(StoreError::Malformed {
            attempt: "read who leads".to_owned(),
            found: format!("there is a record of {} under {}", other.kind().word(), entry.key),
        }),
        Err(cause) => Err(StoreError::Record { key: Box::new(entry.key), cause }),
    }
}
