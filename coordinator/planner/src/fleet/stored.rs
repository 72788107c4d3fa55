//! What is read from the store.

use tidegate_proto::Revision;
use tidegate_proto::record::Record;

/// A record with the mod_revision that it was read at.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored<T> {
    /// The record.
    pub record: Record<T>,
    /// Its mod_revision.
    pub at: Revision,
}

impl<T> std::ops::Deref for Stored<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.record.body
    }
}
