//! What holds on every store.

pub(crate) mod committing;
pub(crate) mod leading;
pub(crate) mod reading;
pub(crate) mod watching;
