//! The engine against real databases: each story on SQLite and, in a module `real_postgres`, on a
//! private PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test says what it expects in one word")]

#[macro_use]
mod support;

mod adopt;
mod child;
mod crash;
mod drift;
mod fence;
mod fuzz;
mod later;
mod lint;
mod locks;
mod owner;
mod pages;
mod phases;
mod reach;
mod sessions;
mod sqlite;
mod sync;
