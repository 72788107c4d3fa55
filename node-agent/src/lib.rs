//! Who obeys and reports: the daemon on each node. It learns the version that really runs, has it admitted, reports
//! it, takes the instance out of rotation and back on a directive, and replaces its code.
//!
//! # Invariants
//! * Nothing of the store is ever executed: a directive names a release, a task names a hook; this node's
//!   configuration says what that is.
//! * The journal is on the disk before each act that it speaks of.
//! * The services outlive the agent; the agent outlives the store's absence.

pub mod admit;
pub mod agent;
pub mod cli;
pub mod config;
mod crash;
pub mod directive;
pub mod drain;
mod durable;
pub mod fetch;
pub mod health;
pub mod host;
pub mod identity;
pub mod instance;
pub mod journal;
pub mod link;
pub mod machine;
pub mod metadata;
mod pair;
mod place;
pub mod quote;
pub mod replace;
pub mod report;
mod small;
mod staging;
pub mod task;
