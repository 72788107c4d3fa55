//! Out of rotation and back: the disable-file, the balancers' own word, and what is in flight.

pub mod balancer;
pub mod disable_file;
pub mod in_flight;
