//! Who made what expand made: only the owner of a step may take it back.

use std::fmt;

/// An upgrade, by its id, or a person who works by hand. Kept with each row of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    name: String,
    pub(crate) unrecorded: bool,
}

/// No upgrade's id contains a space.
pub(crate) const BY_HAND: &str = "by hand";

/// The owner of rows that were adopted: no undo takes them.
pub(crate) const ADOPTED: &str = "adopted by hand";

/// The term under which a person works on a database that no coordinator has led yet.
pub(crate) const TERM_BY_HAND: &str = "by-hand";

impl Owner {
    /// The upgrade of this id.
    pub fn upgrade(id: impl Into<String>) -> Self {
        Owner { name: id.into(), unrecorded: false }
    }

    /// A person who runs `tidegate schema`.
    pub fn by_hand() -> Self {
        Owner { name: BY_HAND.to_owned(), unrecorded: false }
    }

    /// Also the owner of rows that a leader wrote before owners were recorded.
    #[must_use]
    pub fn with_unrecorded(self) -> Self {
        Owner { unrecorded: true, ..self }
    }

    /// Whether it is an upgrade, and not a person: by hand, a phase may also be run long after the upgrade has ended.
    pub(crate) fn is_upgrade(&self) -> bool {
        self.name != BY_HAND
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// What `tidegate schema undo --made-by` calls an owner that was not recorded.
pub const UNRECORDED: &str = "unrecorded";
