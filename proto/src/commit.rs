//! A conditional write, as data: what must hold, and what is written if it does. One commit is one transaction of the
//! store; its planner has no client, and its executor has no choice.

use crate::{Key, Revision, Value, key::Kind};

/// What must hold for a commit to be carried out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Precondition {
    /// The key's mod_revision is exactly this; [`Revision::ABSENT`] = there is no such key.
    At(Key, Revision),
    /// The key exists with this create_revision (the leader's fence).
    CreatedAt(Key, Revision),
    /// No key of this kind was put after this revision. Sees puts and new keys, neither deletes nor lease expiry.
    NonePutAfter(Kind, Revision),
    /// The same for the keys of one owner (a service, an upgrade).
    NonePutAfterWithin(Kind, String, Revision),
    /// No key of this kind was created after this revision. Sees new keys, neither further puts nor what was removed since.
    NoneCreatedAfter(Kind, Revision),
    /// The same for the keys of one owner.
    NoneCreatedAfterWithin(Kind, String, Revision),
}

/// One key written or removed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::large_enum_variant, reason = "a commit has few writes and lives for one transaction")]
pub enum Write {
    /// Put a record.
    Put(Key, Value),
    /// Remove the key.
    Delete(Key),
}

/// One transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Commit {
    /// Everything that must hold.
    pub when: Vec<Precondition>,
    /// Everything that is written then. No key twice.
    pub writes: Vec<Write>,
}

/// The most writes, and the most preconditions, of one transaction (etcd: 128 a side).
pub const MAX_COMMIT_OPERATIONS: usize = 128;

/// The most preconditions that a plan may use: the two of the leader's fence are added to them.
pub const MAX_PLANNED_PRECONDITIONS: usize = MAX_COMMIT_OPERATIONS - 2;

impl Commit {
    /// A commit of nothing, to be built up.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a precondition.
    #[must_use]
    pub fn when(mut self, precondition: Precondition) -> Self {
        self.when.push(precondition);
        self
    }

    /// Adds a put.
    #[must_use]
    pub fn put(mut self, key: Key, value: impl Into<Value>) -> Self {
        self.writes.push(Write::Put(key, value.into()));
        self
    }

    /// Adds a removal.
    #[must_use]
    pub fn delete(mut self, key: Key) -> Self {
        self.writes.push(Write::Delete(key));
        self
    }

    /// Adds all of another.
    #[must_use]
    pub fn with(mut self, more: Self) -> Self {
        self.when.extend(more.when);
        self.writes.extend(more.writes);
        self
    }
}
