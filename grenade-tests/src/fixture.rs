//! What is around the sample service in a fleet: its instances as processes, the requests of its clients, its schema change,
//! the configuration of its agents. The service itself knows none of it, and nothing of a gate job knows the service.

pub mod load;
pub mod migrations;
pub mod node;
pub mod pantry;
