//! The load: a client that sends on schedule whatever happens, and believes nothing.
//!
//! Open loop: request `k` is due at `start + k / rate`, whether or not earlier ones were answered, and its latency is
//! counted from that instant. Each request is sent once; nothing is retried. What is sent is drawn by a [`mix::Mix`]: the
//! sample service has one (`catalogue`), a gate file describes another. A request
//! failed if it was not sent within a second of its instant, was reset, got no answer in time, got a status that it did
//! not ask for, or an answer that contradicts what was written before, through whichever version.

pub mod answer;
pub mod catalogue;
pub mod departure;
pub mod entry;
pub mod facts;
pub mod ledger;
pub mod mix;
pub mod outcome;
pub mod plan;
pub mod report;
pub mod run;
pub mod step;
pub mod wire;

pub use plan::LoadPlan;
pub use report::{LoadProgress, LoadReport};
pub use run::{Load, LoadHandle};
