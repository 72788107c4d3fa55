//! Who made what expand made: only the owner of a step may take it back.

use crate::history::Entry;
use std::fmt;

/// An upgrade, by its id, or a person who works by hand. Kept with each row of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    name: String,
    unrecorded: bool,
}

/// No upgrade's id contains a space.
const BY_HAND: &str = "by hand";

/// The owner of rows that were adopted: no undo takes them.
pub(crate) const ADOPTED: &str = "adopted by hand";

/// The term under which a person works on a database that no coordinator has led yet.
const TERM_BY_HAND: &str = "by-hand";

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

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether a row is this owner's.
    pub(crate) fn owns(&self, entry: &Entry) -> bool {
        match &entry.owner {
            Some(name) => *name == self.name,
            None if entry.term_id == TERM_BY_HAND => self.name == BY_HAND,
            None => self.unrecorded,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// What `tidegate schema undo --made-by` calls an owner that was not recorded.
pub const UNRECORDED: &str = "unrecorded";

/// The owner of a row, as `tidegate schema undo --made-by` names it; none = by hand.
pub(crate) fn argument(entry: &Entry) -> Option<&str> {
    match &entry.owner {
        Some(name) => Some(name.as_str()).filter(|name| *name != BY_HAND),
        None if entry.term_id == TERM_BY_HAND => None,
        None => Some(UNRECORDED),
    }
}

/// The owner of a row, in words.
pub(crate) fn of(entry: &Entry) -> String {
    match &entry.owner {
        Some(name) if [BY_HAND, ADOPTED].contains(&name.as_str()) => name.clone(),
        Some(name) => format!("upgrade {name}"),
        None if entry.term_id == TERM_BY_HAND => BY_HAND.to_owned(),
        None => "an owner that was not recorded".to_owned(),
    }
}
