//! Tests from outside: real processes, load, the sample service, simulation, faults and the end-to-end tests.
//!
//! No test here relies on what the product reports of itself: the load counts what a client saw, the balancer reports what
//! it checked, and a world ends every process that it started.

pub mod balancer;
pub mod bench;
pub mod crash;
pub mod demo;
pub mod fixture;
pub mod gate;
pub mod guarded;
pub mod hold;
pub mod ideal;
pub mod load;
pub mod nemesis;
pub mod sample;
pub mod simulate;
pub mod trace;
pub mod world;
