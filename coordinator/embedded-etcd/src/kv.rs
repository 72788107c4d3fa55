//! The keys and their history in memory: everything that is read is read here, never from the disk.
//!
//! # Invariants
//! * A revision is added whole by [`Kv::commit`], or not at all: a [`Draft`] that is dropped has changed nothing
//!   only if it made no change, so callers check everything before they make the first one.
//! * Revisions are consecutive; the empty store is at revision 1, as etcd's is.

mod history;
mod interval;
mod log;
mod range;

use std::{collections::BTreeMap, sync::Arc};

use etcd_client::proto::PbKeyValue;

use self::history::History;
pub(crate) use self::{
    interval::KeyRange,
    log::{Change, EVENT_DELETE, Log, Revision},
};
use crate::refusal::Refusal;

/// The revision of an empty store.
pub(crate) const FIRST_REVISION: i64 = 1;

/// What etcd calls the compacted revision before the first compaction.
pub(crate) const NEVER_COMPACTED: i64 = -1;

/// All keys, at all revisions that have not been compacted.
#[derive(Debug, Clone)]
pub(crate) struct Kv {
    revision: i64,
    compacted: i64,
    keys: BTreeMap<Vec<u8>, History>,
    log: Log,
    /// Bytes of the live keys and values, for the size that `status` returns.
    live_bytes: i64,
}

/// Changes of a revision that is being made; reads through `Kv::latest` see them already.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    changes: Vec<Change>,
}

impl Draft {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// A key with its state at a compaction: `None` if it did not exist then.
pub(crate) type Settled = (Vec<u8>, Option<Arc<PbKeyValue>>);

impl Default for Kv {
    fn default() -> Self {
        Self {
            revision: FIRST_REVISION,
            compacted: NEVER_COMPACTED,
            keys: BTreeMap::new(),
            log: Log::default(),
            live_bytes: 0,
        }
    }
}

impl Kv {
    /// Rebuilds a store from its state at a compaction and the revisions from that one on, oldest first.
    pub(crate) fn restore(compacted: i64, settled: Vec<PbKeyValue>, revisions: Vec<Revision>) -> Self {
        let mut kv = Self { compacted, revision: compacted.max(FIRST_REVISION), ..Self::default() };
        for state in settled {
            let (key, from) = (state.key.clone(), state.mod_revision);
            kv.record(key, from, Some(Arc::new(state)));
        }
        for revision in revisions {
            if revision.number > compacted {
                kv.replay(&revision);
            }
            kv.log.push(Arc::new(revision));
        }
        kv
    }

    fn replay(&mut self, revision: &Revision) {
        for change in &revision.changes {
            let state = match change {
                Change::Put(kv) => Some(kv.clone()),
                Change::Delete { .. } => None,
            };
            self.record(change.key().to_vec(), revision.number, state);
        }
        self.revision = revision.number;
    }

    pub(crate) fn revision(&self) -> i64 {
        self.revision
    }

    pub(crate) fn compacted(&self) -> i64 {
        self.compacted
    }

    pub(crate) fn live_bytes(&self) -> i64 {
        self.live_bytes
    }

    /// A key as it is now, with the changes of an open draft.
    pub(crate) fn latest(&self, key: &[u8]) -> Option<&Arc<PbKeyValue>> {
        self.keys.get(key)?.latest()
    }

    /// A key as it was at `revision`, or `None` where that is no longer known.
    pub(crate) fn at(&self, key: &[u8], revision: i64) -> Option<&Arc<PbKeyValue>> {
        if revision < self.compacted {
            return None;
        }
        self.keys.get(key)?.at(revision)
    }

    /// All live keys of a range, in order, with the changes of an open draft.
    pub(crate) fn live<'a>(&'a self, range: &'a KeyRange) -> impl Iterator<Item = &'a Arc<PbKeyValue>> {
        self.histories(range).filter_map(History::latest)
    }

    fn histories<'a>(&'a self, range: &'a KeyRange) -> impl Iterator<Item = &'a History> {
        range.bounds().into_iter().flat_map(|bounds| self.keys.range::<[u8], _>(bounds)).map(|(_, h)| h)
    }

    /// The kept revisions from `first` to `last`, both included.
    pub(crate) fn revisions(&self, first: i64, last: i64) -> impl Iterator<Item = &Arc<Revision>> {
        self.log.between(first, last)
    }

    /// Whether all changes from `revision` on are still known.
    pub(crate) fn remembers(&self, revision: i64) -> bool {
        revision >= self.compacted || self.log.first().is_some_and(|first| revision >= first)
    }

    /// Puts a key within a draft.
    pub(crate) fn put(&mut self, draft: &mut Draft, key: Vec<u8>, value: Vec<u8>, lease: i64) {
        let next = self.revision + 1;
        let (create_revision, version) = match self.latest(&key) {
            Some(before) => (before.create_revision, before.version + 1),
            None => (next, 1),
        };
        let kv = Arc::new(PbKeyValue { key, create_revision, mod_revision: next, version, value, lease });
        self.record(kv.key.clone(), next, Some(kv.clone()));
        draft.changes.push(Change::Put(kv));
    }

    /// Deletes the live keys of a range within a draft; answers what they were.
    pub(crate) fn delete(&mut self, draft: &mut Draft, range: &KeyRange) -> Vec<Arc<PbKeyValue>> {
        let next = self.revision + 1;
        let gone: Vec<_> = self.live(range).cloned().collect();
        for kv in &gone {
            self.record(kv.key.clone(), next, None);
            draft.changes.push(Change::Delete { key: kv.key.clone() });
        }
        gone
    }

    /// Ends a draft: its changes become the next revision, or nothing at all if it made none.
    pub(crate) fn commit(&mut self, draft: Draft) -> Option<Arc<Revision>> {
        if draft.is_empty() {
            return None;
        }
        self.revision += 1;
        let revision = Arc::new(Revision { number: self.revision, changes: draft.changes });
        self.log.push(revision.clone());
        Some(revision)
    }

    fn record(&mut self, key: Vec<u8>, from: i64, state: Option<Arc<PbKeyValue>>) {
        let history = self.keys.entry(key).or_default();
        let size = |kv: &Arc<PbKeyValue>| (kv.key.len() + kv.value.len()) as i64;
        self.live_bytes += state.as_ref().map_or(0, size) - history.latest().map_or(0, size);
        history.push(from, state);
    }

    /// Forgets the history below `revision`. Answers each key that changed since the compaction before, as it was
    /// at `revision`: what a file needs to be brought to that revision.
    pub(crate) fn compact(&mut self, revision: i64) -> Result<Vec<Settled>, Refusal> {
        if revision <= self.compacted {
            return Err(Refusal::Compacted);
        }
        if revision > self.revision {
            return Err(Refusal::FutureRevision);
        }
        let mut settled = BTreeMap::new();
        for change in self.log.between(self.compacted + 1, revision).flat_map(|entry| &entry.changes) {
            settled.entry(change.key().to_vec()).or_insert(None);
        }
        for (key, state) in &mut settled {
            let Some(history) = self.keys.get_mut(key) else { continue };
            *state = history.compact(revision);
            if history.is_empty() {
                self.keys.remove(key);
            }
        }
        self.log.compact(revision);
        self.compacted = revision;
        Ok(settled.into_iter().collect())
    }
}
