//! What the embedded store promises, on its own and beside a real etcd.

#![expect(clippy::unwrap_used, reason = "a test may say in one word what it expects")]

mod durability;
mod facts;
mod files;
mod forms;
mod fuzz;
mod real_etcd;
mod stalls;
mod watchers;
