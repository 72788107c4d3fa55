//! The instances of an upgrade that failed or were skipped: each has a record of its own. A record of an upgrade that
//! an earlier version wrote holds them itself; records that were written since take precedence.

use super::stored::Stored;
use std::collections::BTreeMap;
use tidegate_proto::commit::{Commit, Precondition};
use tidegate_proto::record::exception::Exception;
use tidegate_proto::record::upgrade::{Failure, Upgrade};
use tidegate_proto::{Key, NodeId, Revision, UpgradeId};

/// The records of every upgrade.
pub(super) type ByUpgrade = BTreeMap<UpgradeId, BTreeMap<NodeId, Stored<Exception>>>;

/// Those of one upgrade.
#[derive(Debug, Clone, Copy)]
pub struct Exceptions<'a> {
    upgrade: &'a Upgrade,
    records: Option<&'a BTreeMap<NodeId, Stored<Exception>>>,
}

impl<'a> Exceptions<'a> {
    pub(super) fn of(id: &UpgradeId, upgrade: &'a Upgrade, all: &'a ByUpgrade) -> Self {
        Self { upgrade, records: all.get(id) }
    }

    fn record(&self, node: &NodeId) -> Option<&'a Stored<Exception>> {
        self.records?.get(node)
    }

    /// The failure of an instance.
    pub fn failure(&self, node: &NodeId) -> Option<&'a Failure> {
        let recorded = self.record(node).and_then(|record| record.record.body.failure.as_ref());
        recorded.or_else(|| self.upgrade.failed.get(node))
    }

    /// Whether it failed.
    pub fn has_failed(&self, node: &NodeId) -> bool {
        self.failure(node).is_some()
    }

    /// Whether a person skipped it.
    pub fn is_skipped(&self, node: &NodeId) -> bool {
        self.record(node).is_some_and(|record| record.skipped.is_some())
            || self.upgrade.skipped.contains_key(node)
    }

    /// Whether it is not expected in its wave.
    pub fn is_exempt(&self, node: &NodeId) -> bool {
        self.has_failed(node) || self.is_skipped(node)
    }

    /// Whether a failure counts against the budget: no person went on in spite of it.
    pub fn counts(&self, failure: &Failure) -> bool {
        !failure.accepted && failure.resumed >= self.upgrade.resumed
    }

    /// Every failure.
    pub fn failures(&self) -> impl Iterator<Item = (&'a NodeId, &'a Failure)> + use<'a> {
        let this = *self;
        let recorded = this.records.into_iter().flatten();
        let recorded = recorded.filter_map(|(node, stored)| Some((node, stored.failure.as_ref()?)));
        let newer = move |node: &NodeId| this.record(node).is_some_and(|record| record.failure.is_some());
        recorded.chain(self.upgrade.failed.iter().filter(move |(node, _)| !newer(node)))
    }

    /// Every instance that was skipped.
    pub fn skipped(&self) -> impl Iterator<Item = &'a NodeId> + use<'a> {
        let this = *self;
        let recorded = this.records.into_iter().flatten().filter(|(_, stored)| stored.skipped.is_some());
        let newer = move |node: &NodeId| this.record(node).is_some_and(|record| record.skipped.is_some());
        let former = self.upgrade.skipped.keys().filter(move |node| !newer(node));
        recorded.map(|(node, _)| node).chain(former)
    }

    /// Every instance that failed or was skipped, some perhaps twice.
    pub fn exempt(&self) -> impl Iterator<Item = &'a NodeId> + use<'a> {
        self.failures().map(|(node, _)| node).chain(self.skipped())
    }

    /// Adds to a commit that what is recorded of an instance changes.
    pub(crate) fn rewrite(
        &self,
        commit: Commit,
        id: &UpgradeId,
        node: &NodeId,
        change: impl FnOnce(&mut Exception),
    ) -> Commit {
        let key = Key::Exception(id.clone(), node.clone());
        let stored = self.record(node);
        let commit =
            commit.when(Precondition::At(key.clone(), stored.map_or(Revision::ABSENT, |stored| stored.at)));
        let mut body = stored.map(|stored| stored.record.body.clone()).unwrap_or_default();
        change(&mut body);
        match stored {
            Some(stored) => commit.put(key, stored.record.with(body)),
            None => commit.put(key, body),
        }
    }

    /// Adds to a commit that nothing is recorded of an instance any more. What the record of the upgrade itself holds is the
    /// caller's to remove.
    pub(crate) fn forget(&self, commit: Commit, id: &UpgradeId, node: &NodeId) -> Commit {
        let Some(stored) = self.record(node) else { return commit };
        let key = Key::Exception(id.clone(), node.clone());
        commit.when(Precondition::At(key.clone(), stored.at)).delete(key)
    }
}
