//! What each revision changed, from the last compaction on: what watches are replayed from.

use std::{collections::VecDeque, sync::Arc};

use etcd_client::proto::{PbEvent, PbKeyValue};

/// One change to one key.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// The key was made or changed; this is what it became.
    Put(Arc<PbKeyValue>),
    /// The key was deleted.
    Delete { key: Vec<u8> },
}

/// Number of a deletion in etcd's event message; a put is 0.
pub(crate) const EVENT_DELETE: i32 = 1;

impl Change {
    pub(crate) fn key(&self) -> &[u8] {
        match self {
            Self::Put(kv) => &kv.key,
            Self::Delete { key } => key,
        }
    }

    /// The event of this change, without the previous state.
    pub(crate) fn event(&self, revision: i64) -> PbEvent {
        match self {
            Self::Put(kv) => PbEvent { r#type: 0, kv: Some(kv.as_ref().clone()), prev_kv: None },
            Self::Delete { key } => PbEvent {
                r#type: EVENT_DELETE,
                kv: Some(PbKeyValue { key: key.clone(), mod_revision: revision, ..PbKeyValue::default() }),
                prev_kv: None,
            },
        }
    }
}

/// All changes of one revision, in their order.
#[derive(Debug)]
pub(crate) struct Revision {
    pub(crate) number: i64,
    pub(crate) changes: Vec<Change>,
}

/// Most revisions, and most bytes of keys and values, that outlive their compaction for watches that lag.
const REST_REVISIONS: usize = 1000;
const REST_BYTES: usize = 8 << 20;

/// Consecutive revisions, the oldest that is kept first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    revisions: VecDeque<Arc<Revision>>,
}

impl Log {
    /// Adds the next revision.
    pub(crate) fn push(&mut self, revision: Arc<Revision>) {
        self.revisions.push_back(revision);
    }

    /// The kept revisions from `first` to `last`, both included.
    pub(crate) fn between(&self, first: i64, last: i64) -> impl Iterator<Item = &Arc<Revision>> {
        let skipped = self.revisions.partition_point(|revision| revision.number < first);
        self.revisions.range(skipped..).take_while(move |revision| revision.number <= last)
    }

    /// The oldest revision that is kept.
    pub(crate) fn first(&self) -> Option<i64> {
        self.revisions.front().map(|revision| revision.number)
    }

    /// Forgets the revisions below `revision`; its own changes stay, since a watch may start at it. A bounded rest
    /// below it stays too, so that a compaction does not end a watch that is only a few messages behind.
    pub(crate) fn compact(&mut self, revision: i64) {
        let mut gone = self.revisions.partition_point(|kept| kept.number < revision);
        let least = gone.saturating_sub(REST_REVISIONS);
        let mut bytes = 0;
        while gone > least {
            bytes += self.revisions.get(gone - 1).map_or(0, |revision| revision.size());
            if bytes > REST_BYTES {
                break;
            }
            gone -= 1;
        }
        self.revisions.drain(..gone);
    }
}

impl Revision {
    fn size(&self) -> usize {
        let size = |change: &Change| match change {
            Change::Put(kv) => kv.key.len() + kv.value.len(),
            Change::Delete { key } => key.len(),
        };
        self.changes.iter().map(size).sum()
    }
}
