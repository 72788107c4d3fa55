//! Watches: which client waits for what, and how each stream is notified.

mod deliver;
pub(crate) mod stream;
