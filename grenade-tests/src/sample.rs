//! `pantry`, the sample service: an image catalogue over its own database, in two versions with a real schema change
//! between them.
//!
//! The change is Glance's in Ocata: version 1 knows `is_public` and members, version 2 a richer attribute that
//! distinguishes public, private and shared. Both versions answer the same stable form of an image (`public`, `shared`,
//! name, size, checksum, members), so that a client can compare what one version wrote with what the other reads.
//!
//! What differs between the two is data in [`v1`] and [`v2`]; everything else in this room is the same code for both
//! and never names a column that only one of them knows.

pub mod cli;
pub mod database;
pub mod edition;
pub mod http;
pub mod image;
pub mod in_flight;
pub mod ops;
pub mod seed;
pub mod serve;
pub mod start;
pub mod store;
pub mod v1;
pub mod v2;
