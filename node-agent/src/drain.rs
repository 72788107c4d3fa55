//! Taking an instance out of rotation and back: disable-file, balancers, requests in flight.

pub mod balancer;
pub mod disable_file;
pub mod in_flight;
