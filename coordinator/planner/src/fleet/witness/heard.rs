//! What the claim of an instance makes of its report.

use crate::fleet::instance::Instance;

/// What the claim of an instance makes of its report; kept with the instance, so that its indexes follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fleet) struct Heard {
    /// It contradicts the store.
    pub(super) contradicts: bool,
    /// It contradicts the store, and a person has disregarded that.
    pub(super) disregarded: bool,
}

impl Heard {
    /// Whether the instance is marked so.
    pub(in crate::fleet) fn is_marked_on(self, instance: &Instance) -> bool {
        (instance.contradicts, instance.disregarded) == (self.contradicts, self.disregarded)
    }

    /// Marks the instance so.
    pub(in crate::fleet) fn mark_on(self, instance: &mut Instance) {
        (instance.contradicts, instance.disregarded) = (self.contradicts, self.disregarded);
    }
}
