//! Scenarios of metadata groups: who is exposed to what, what is waited for, when all are returned.

mod edge;
mod properties;
mod stories;
