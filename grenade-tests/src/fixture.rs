//! What is around the sample service in a fleet: the requests of its clients, its schema change, the configuration of its
//! agents. The service itself knows none of it.

pub mod load;
pub mod migrations;
pub mod node;
