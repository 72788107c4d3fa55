//! Machine 1: the phases of an upgrade.

pub mod phase;
