//! The store's counters: what makes an order of directives and what a precondition compares.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A revision of the store: the state after its n-th write. 0 stands for "no such key" in a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub i64);

impl Revision {
    /// No such key.
    pub const ABSENT: Self = Self(0);

    /// Whether it stands for a key that exists.
    pub fn exists(self) -> bool {
        self.0 > 0
    }

    /// Whether it stands for none.
    pub fn is_absent(&self) -> bool {
        !self.exists()
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The generation of a directive: the mod_revision of its key, never reused. 0 = none was ever accepted.
pub type Generation = Revision;
