//! Record: what a turn shows to people. Events are part of the commits that they describe; this module has only their
//! retention and the reasons for waiting.

pub mod retention;
pub mod strays;
pub mod waiting;
