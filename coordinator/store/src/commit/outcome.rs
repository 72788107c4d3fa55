//! The outcome of a commit that brought no answer. One of its keys is followed back through its history: our bytes at a
//! revision later than we had seen mean that it was carried out (all of it, it is one transaction); an untouched key
//! means that it was not.
//!
//! # Invariants
//! Each key has one writer, so no other process writes our bytes there.

use super::transaction::{Put, Removal, Sent};
use crate::error::StoreError;
use crate::store::Store;
use tidegate_proto::{Revision, key::Kind};

/// How many later writes of the key are looked behind. A key that is written more often than this within the time
/// of one call would be a heartbeat, and there is none.
const HISTORY: usize = 32;

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was carried out at this revision.
    Applied(Revision),
    /// It was not, by now.
    NotApplied,
    /// The history does not show it.
    Unclear(String),
}

impl Store {
    /// The revision that the store surely had reached before the commit was sent. Learnt where nothing was read yet.
    pub(super) async fn floor_for(&self, sent: &Sent) -> Result<Revision, StoreError> {
        let seen = self.highest_seen();
        match sent.witness().filter(|put| put.demanded.is_none()) {
            Some(put) if !seen.exists() => Ok(self.get_raw(&put.full, None).await?.1),
            _ => Ok(seen),
        }
    }

    pub(super) async fn read_back(&self, sent: &Sent, floor: Revision) -> Result<Outcome, StoreError> {
        match (sent.witness(), sent.removals.first()) {
            (Some(put), _) => self.follow_back(put, put.demanded.unwrap_or(floor)).await,
            (None, Some(removal)) => self.look_for_removal(removal, floor).await,
            // Conditions alone write nothing, so there is nothing that could have been carried out.
            (None, None) => Ok(Outcome::NotApplied),
        }
    }

    async fn follow_back(&self, put: &Put, floor: Revision) -> Result<Outcome, StoreError> {
        let mut at = None;
        for _ in 0..HISTORY {
            let (found, _) = match self.get_raw(&put.full, at).await {
                Err(StoreError::Compacted { .. }) => break,
                read => read?,
            };
            let Some(kv) = found.filter(|kv| kv.mod_revision() > floor.0) else {
                return Ok(Outcome::NotApplied);
            };
            if kv.value() == put.bytes && kv.lease() == put.lease {
                return Ok(Outcome::Applied(Revision(kv.mod_revision())));
            }
            at = Some(Revision(kv.mod_revision() - 1));
        }
        Ok(Outcome::Unclear(format!("{} was overwritten since, and its history is gone", put.key)))
    }

    async fn look_for_removal(&self, removal: &Removal, floor: Revision) -> Result<Outcome, StoreError> {
        let (found, now) = self.get_raw(&removal.full, None).await?;
        Ok(match found {
            // Whichever commit removed it: it is as we wanted it.
            None => Outcome::Applied(now),
            Some(kv) if kv.mod_revision() <= removal.demanded.unwrap_or(floor).0 => Outcome::NotApplied,
            Some(_) => Outcome::Unclear(format!("{} was written since", removal.full)),
        })
    }
}

impl Sent {
    /// The put that proves most: one that is never written again and names its term, else one whose former revision is
    /// known.
    fn witness(&self) -> Option<&Put> {
        self.puts.iter().min_by_key(|put| match put.key.kind() {
            Kind::Term => 0,
            Kind::Event => 1,
            _ if put.demanded.is_some() => 2,
            _ => 3,
        })
    }
}
