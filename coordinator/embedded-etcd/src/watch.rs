//! Watches: who waits for what, and how each stream is told.

mod deliver;
pub(crate) mod stream;
