//! The evidence of a drain: disable-file, balancers, requests in flight. When a drain is done, `directive/draining.rs`
//! decides.

pub mod balancer;
pub mod disable_file;
pub mod in_flight;
