//! Watches: who waits for what, and how each stream is told.

mod deliver;
mod hub;
pub(crate) mod stream;

pub(crate) use hub::Hub;
