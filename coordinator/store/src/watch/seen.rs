//! What a watch reports.

use crate::entry::{Entry, Snapshot};
use tidegate_proto::key::NotAKey;
use tidegate_proto::{Key, Revision};
use tokio::time::Instant;

/// What a watch reports.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// The whole state of all scopes at one revision: at the start, after a compaction or a restored store, and
    /// when more was missed than one message can hold.
    Listed(Snapshot),
    /// What one revision changed, in the store's order.
    Changed {
        /// The revision.
        revision: Revision,
        /// What changed; never empty.
        changes: Vec<Change>,
    },
    /// Nothing else happened up to this revision.
    Progress {
        /// The revision.
        revision: Revision,
    },
    /// The store is away. The watch comes back by itself; until then the state is as old as `since`.
    Lost {
        /// When that was noticed.
        since: Instant,
        /// Why, for people.
        why: String,
    },
    /// The store is back, it is the same one as far as that can be known, and what was missed was sent before this: as
    /// `Changed`, or as `Listed`.
    Regained,
    /// The store is not the one that was seen, or is behind that: it was restored from a backup, or replaced. `Listed`
    /// follows, without `Regained`.
    Restored {
        /// The highest revision that was seen.
        seen: Revision,
        /// The revision that it has now.
        found: Revision,
    },
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly all of them are puts")]
pub enum Change {
    /// A key was put.
    Put(Entry),
    /// A key was removed, or its lease ended.
    Gone {
        /// The key.
        key: Key,
        /// When.
        revision: Revision,
    },
    /// A key below the prefix that is none of ours was put or removed.
    Foreign {
        /// The key, as far as it is text.
        key: String,
        /// Why it is none of ours.
        why: NotAKey,
        /// When.
        revision: Revision,
    },
}
