//! Machine 1: the phases of an upgrade, and whether it may turn back.

pub mod phase;
pub mod schema_lock;
mod view;
mod way_back;

pub(crate) use view::View;
pub use way_back::way_back;
