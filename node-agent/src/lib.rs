//! The agent, a daemon on each node. It probes the version that runs, has it admitted, reports it, takes the instance out of
//! rotation and back on a directive, and replaces its code.
//!
//! # Invariants
//! * Nothing in the store is ever executed: a directive names a release, a task names a hook; this node's configuration
//!   defines both.
//! * The journal is on the disk before each act that it names.
//! * Services keep running when the agent ends; the agent keeps running while the store is away.

pub mod admit;
mod agent;
pub mod cli;
pub mod config;
mod crash;
mod directive;
pub mod drain;
mod durable;
pub mod exclusive;
mod fetch;
mod file_error;
mod health;
pub mod host;
mod identity;
pub mod instance;
mod journal;
pub mod link;
pub mod machine;
pub mod metadata;
mod pair;
mod place;
mod quote;
mod replace;
mod report;
mod small;
mod staging;
pub mod task;
