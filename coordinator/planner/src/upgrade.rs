//! Machine 1: the phases of an upgrade, and whether it may turn back.

pub mod migrate_floors;
pub mod phase;
pub mod schema_lock;
mod way_back;

pub use way_back::way_back;
