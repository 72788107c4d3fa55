//! Release streams: which stream a release belongs to, what goes out by itself, what is kept, and the one way in which
//! a stream is changed.

pub(crate) mod change;
pub mod grouping;
pub mod image;
pub mod retention;
pub mod returning;
