//! The default store: etcd's v3 API in process, over redb.
//!
//! One client, one code path and one semantics serve the demo, tests, simulation and production: callers use
//! `etcd-client` against this store exactly as against a real cluster. What it must answer is held equal to real
//! etcd by one suite of facts and by a differential test over random operations and watches.
//!
//! It offers keys, transactions, watches, leases, status, and defragmentation; no users, no lock or election
//! service, no snapshots, no cluster. It is a single node and keeps everything in memory besides the file; who needs
//! more runs a real etcd, and nothing else changes. It forgets revisions that are older than
//! an hour.
//!
//! # Modules
//! `kv` the keys and their history · `txn`, `compare` what a transaction does · `lease` which clients are alive ·
//! `hub`, `watch` notifications · `disk` the file · `durable` the last durable change · `retention` how long history is
//! kept · `engine` all of these under one lock · `server` the gRPC services.

mod compare;
mod disk;
mod durable;
mod embedded;
mod engine;
mod error;
mod expiry;
mod hub;
mod identity;
mod kv;
mod lease;
mod lock;
mod mutant;
mod refusal;
mod retention;
mod server;
mod txn;
mod watch;

pub use crate::{
    embedded::{Embedded, ServeError},
    error::OpenError,
    lock::LockError,
};

/// The version that `status` returns. Clients compare it with etcd releases, and this store has no bugs of one: it
/// claims the series whose semantics it keeps, with a patch number that no release of etcd has.
pub const VERSION: &str = "3.5.99-embedded";
