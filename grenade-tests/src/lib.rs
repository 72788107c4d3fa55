//! Who doubts: real processes, load, the sample service and the end-to-end tests.
//!
//! Nothing here is believed because the product says so: the load counts what a client saw, the balancer tells what it
//! checked, and a world ends every process that it started.

pub mod balancer;
pub mod bench;
pub mod crash;
pub mod demo;
pub mod fixture;
pub mod gate;
pub mod ideal;
pub mod load;
pub mod nemesis;
pub mod sample;
pub mod simulate;
pub mod trace;
pub mod world;
