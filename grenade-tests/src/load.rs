//! The load: a client that sends on schedule whatever happens, and believes nothing.
//!
//! Open loop: request `k` is due at `start + k / rate`, whether or not earlier ones were answered, and its latency is
//! counted from that instant. Each request is sent once; nothing is retried. What is sent is drawn from a script: steps
//! that make, read, change and end objects. A request
//! failed if it was reset, got no answer in time, got a status that it did not ask for, or an answer that contradicts what
//! was written before, through whichever version. One that the load itself did not send within a second of its instant is
//! counted apart.

pub mod departure;
pub mod entry;
pub mod exchange;
pub mod findings;
pub mod foreign;
pub mod judge;
pub mod ledger;
pub mod object;
pub mod outcome;
pub mod plan;
pub mod report;
pub mod requests;
pub mod run;
pub mod script;
pub mod sweep;
pub mod tally;
pub mod template;
pub mod whole;
pub mod wire;
pub mod written;

pub use plan::Pace;
pub use report::{LoadProgress, LoadReport};
pub use run::{Load, LoadHandle, Watched};
