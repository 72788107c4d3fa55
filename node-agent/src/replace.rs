//! Replacing code on this node. Two versions never run at once: a start follows a confirmed stop, and what was started
//! holds a lock for as long as it runs.

pub mod artifact;
pub mod command;
pub mod driver;
pub mod hook;
pub mod launch;
pub mod lock;
pub mod proc_stat;
pub mod process;
