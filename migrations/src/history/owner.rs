//! Who owns a row of the history.

use super::Entry;
use crate::owner::{ADOPTED, BY_HAND, Owner, TERM_BY_HAND, UNRECORDED};

impl Owner {
    /// Whether a row is this owner's.
    pub(crate) fn owns(&self, entry: &Entry) -> bool {
        match &entry.owner {
            Some(name) => name == self.name(),
            None if entry.term_id == TERM_BY_HAND => self.name() == BY_HAND,
            None => self.unrecorded,
        }
    }
}

/// The owner of a row, as `tidegate schema undo --made-by` names it; none = by hand.
pub(crate) fn owner_argument(entry: &Entry) -> Option<&str> {
    match &entry.owner {
        Some(name) => Some(name.as_str()).filter(|name| *name != BY_HAND),
        None if entry.term_id == TERM_BY_HAND => None,
        None => Some(UNRECORDED),
    }
}

/// The owner of a row, in words.
pub(crate) fn owner_of(entry: &Entry) -> String {
    match &entry.owner {
        Some(name) if [BY_HAND, ADOPTED].contains(&name.as_str()) => name.clone(),
        Some(name) => format!("upgrade {name}"),
        None if entry.term_id == TERM_BY_HAND => BY_HAND.to_owned(),
        None => "an owner that was not recorded".to_owned(),
    }
}
