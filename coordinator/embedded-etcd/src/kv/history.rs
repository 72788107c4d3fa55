//! The versions of one key since the last compaction, oldest first.

use std::sync::Arc;

use etcd_client::proto::PbKeyValue;

/// What a key was from one revision on: a value, or `None` once it was deleted.
#[derive(Debug, Clone)]
struct Version {
    from: i64,
    state: Option<Arc<PbKeyValue>>,
}

/// All versions of one key that can still be read.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    versions: Vec<Version>,
}

impl History {
    /// The key as it was at `revision`; where one revision holds several changes, the last of them.
    pub(crate) fn at(&self, revision: i64) -> Option<&Arc<PbKeyValue>> {
        let after = self.versions.partition_point(|version| version.from <= revision);
        self.versions[..after].last()?.state.as_ref()
    }

    /// The key as it is now.
    pub(crate) fn latest(&self) -> Option<&Arc<PbKeyValue>> {
        self.versions.last()?.state.as_ref()
    }

    /// Adds a change; `from` is never below that of the change before it.
    pub(crate) fn push(&mut self, from: i64, state: Option<Arc<PbKeyValue>>) {
        self.versions.push(Version { from, state });
    }

    /// Forgets what only revisions below `revision` could read. Answers the state at `revision`.
    pub(crate) fn compact(&mut self, revision: i64) -> Option<Arc<PbKeyValue>> {
        let after = self.versions.partition_point(|version| version.from <= revision);
        let kept = self.versions[..after].last().and_then(|version| version.state.clone());
        let first = if kept.is_some() { after.saturating_sub(1) } else { after };
        self.versions.drain(..first);
        kept
    }

    /// Whether nothing is left, so that the key itself can be forgotten.
    pub(crate) fn is_empty(&self) -> bool {
        self.versions.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(revision: i64) -> Option<Arc<PbKeyValue>> {
        Some(Arc::new(PbKeyValue { mod_revision: revision, ..PbKeyValue::default() }))
    }

    fn history() -> History {
        let mut history = History::default();
        history.push(2, put(2));
        history.push(5, None);
        history.push(7, put(7));
        history
    }

    fn seen(history: &History, revision: i64) -> Option<i64> {
        history.at(revision).map(|kv| kv.mod_revision)
    }

    #[test]
    fn each_revision_sees_the_last_change_at_or_before_it() {
        let history = history();
        let at: Vec<_> = (1..=8).map(|revision| seen(&history, revision)).collect();
        assert_eq!(at, [None, Some(2), Some(2), Some(2), None, None, Some(7), Some(7)]);
    }

    #[test]
    fn compaction_keeps_what_the_revision_itself_still_sees() {
        let mut history = history();
        assert_eq!(history.compact(4).map(|kv| kv.mod_revision), Some(2));
        assert_eq!(seen(&history, 4), Some(2));
        assert_eq!(seen(&history, 5), None);
        assert_eq!(seen(&history, 7), Some(7));
    }

    #[test]
    fn compaction_forgets_a_deleted_key() {
        let mut history = History::default();
        history.push(2, put(2));
        history.push(5, None);
        assert!(history.compact(5).is_none());
        assert!(history.is_empty());
    }
}
