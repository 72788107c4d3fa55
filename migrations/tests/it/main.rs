//! The engine against real databases: each story on SQLite and, in a module `real_postgres`, on a
//! private PostgreSQL.

#[macro_use]
mod support;

mod child;
mod crash;
mod drift;
mod fence;
mod lint;
mod locks;
mod phases;
mod reach;
mod sessions;
mod sync;
