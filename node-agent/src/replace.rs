//! Replacing code on this node. Two versions never run at once: a start follows a confirmed stop, and what was started
//! holds a lock for as long as it runs.

pub(crate) mod artifact;
pub(crate) mod command;
pub(crate) mod driver;
pub(crate) mod hook;
pub(crate) mod launch;
pub(crate) mod lock;
pub(crate) mod proc_stat;
pub(crate) mod process;
