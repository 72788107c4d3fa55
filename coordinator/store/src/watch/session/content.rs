//! Whether the store has the events that a watch has seen.

use super::{End, Watcher, broken};
use crate::StoreError;
use crate::watch::state::Mark;
use tidegate_proto::Revision;

impl Watcher {
    /// Whether the store still has the last events that it sent: a restored one may have come as far again, and no later
    /// event then repeats what it had sent since its copy was made. The last event alone does not tell: what was said before
    /// may be said again, at the same revision. None where that cannot be known.
    pub(super) async fn has_same_content(&self) -> Result<Option<bool>, End> {
        let mut known = None;
        for mark in self.position.marks() {
            match self.is_there(mark).await? {
                Some(true) => known = Some(true),
                Some(false) => return Ok(Some(false)),
                // Of an older one the key may still lie as it was before.
                None => {}
            }
        }
        Ok(known)
    }

    /// Whether the store has the event of a mark. None where that cannot be known.
    async fn is_there(&self, mark: &Mark) -> Result<Option<bool>, End> {
        let Some(after) = self.value_at(mark, Some(mark.at)).await? else {
            return self.lies_before(mark).await;
        };
        Ok(match (&mark.value, after) {
            (Some(value), Some((revision, found))) => Some(revision == mark.at && found == *value),
            // It was removed then, and not before.
            (None, None) => {
                self.value_at(mark, Some(Revision(mark.at.0 - 1))).await?.map(|before| before.is_some())
            }
            _ => Some(false),
        })
    }

    /// Where the revision of a mark is compacted. No key goes back to an earlier revision: where it has one, the store lacks
    /// the event, also where its revisions were raised when it was restored. None where that cannot be known.
    async fn lies_before(&self, mark: &Mark) -> Result<Option<bool>, End> {
        let now = self.value_at(mark, None).await?.flatten();
        Ok(now.filter(|(revision, _)| *revision < mark.at).map(|_| false))
    }

    /// What a mark's key held at a revision (none given: holds now), and since when; outer: none where that is compacted.
    async fn value_at(
        &self,
        mark: &Mark,
        at: Option<Revision>,
    ) -> Result<Option<Option<(Revision, Vec<u8>)>>, End> {
        match self.store.get_raw(&mark.key, at).await {
            Ok((kv, _)) => Ok(Some(kv.map(|kv| (Revision(kv.mod_revision()), kv.value().to_vec())))),
            Err(StoreError::Compacted { .. }) => Ok(None),
            Err(error) => Err(broken("see whether the store is the same", &error)),
        }
    }
}
