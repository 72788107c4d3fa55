//! The store's counters: what makes an order of directives and what a precondition compares.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A revision of the store: the state after its n-th write. 0 means "no such key" in a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub i64);

impl Revision {
    /// No such key.
    pub const ABSENT: Self = Self(0);

    /// Whether it is the revision of an existing key.
    pub fn exists(self) -> bool {
        self.0 > 0
    }

    /// Whether it means "no such key".
    pub fn is_absent(&self) -> bool {
        !self.exists()
    }

    /// How far a former store can have been ahead of the one that replaced it. At 10,000 writes a second that is more
    /// than three years of writes.
    pub const LEAP: i64 = 1 << 40;

    /// Whether a former store of this one, which is at `self`, can have given `claimed`. What an agent names beyond
    /// that is never taken into a record, so that sums of revisions do not overflow.
    pub fn may_follow(self, claimed: Self) -> bool {
        claimed.0 >= 0 && claimed.0 <= self.0.saturating_add(Self::LEAP)
    }

    /// The sum, where there is one.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The generation of a directive: the mod_revision of its key, never reused. 0 = none was ever accepted.
pub type Generation = Revision;
