//! How code is replaced on this node. Never two versions at once: start only after the stop is confirmed, and what
//! was started holds a lock for as long as it runs.

pub mod artifact;
pub mod command;
pub mod driver;
pub mod hook;
pub mod launch;
pub mod lock;
pub mod proc_stat;
pub mod process;
