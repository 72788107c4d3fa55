//! The coordinator, driven as its users drive it: in process over the embedded store, and as a real process.

#![expect(clippy::unwrap_used, reason = "tests say what they expect in one word")]

mod bad_input;
mod cli;
mod connections;
mod crash_sweep;
mod doors;
mod followers;
mod full_disk;
mod fuzz;
mod garbage;
mod gates;
mod guard;
mod herd;
mod layout;
mod metadata;
mod old_looks;
mod openapi;
mod process;
mod prose;
mod real_etcd;
mod real_postgres;
mod references;
mod regions;
mod releases;
mod rules;
mod rust_source;
mod schema;
mod schema_owner;
mod schemas;
mod stale_view;
mod stored;
mod traffic;
mod upgrades;
mod verbs;
mod watch;
mod world;
mod written;
