//! Crashes on purpose. Every write that a process sends to etcd, puts into its journal or commits to the database is a
//! *point*; at a point the process is ended as by kill -9, before the act, or after it and before the process knows.
//!
//! `proxy` is between one process and etcd and sees its writes; `asked` is asked by the process itself before and after
//! each other act (debug builds only); both report to the one `Reaper`, which numbers the points and kills.

pub mod asked;
pub mod point;
pub mod proxy;
pub mod reaper;
pub mod step;

pub use point::{Point, When};
pub use reaper::{Plan, Reaper};
