//! The agent as a program, against a store over TCP, a service that is a real process (this test binary, called
//! again), and a balancer's stats socket.

#![expect(clippy::unwrap_used, reason = "a test may say what it expects in one word")]

mod world;

mod adopt;
mod check;
mod command;
mod drain;
mod fuzz;
mod healthcheck;
mod kill;
mod metadata;
mod readiness;
mod real_etcd;
mod real_haproxy;
mod refuse;
mod replace;
mod rest;
mod schema;
mod stage_hook;
mod store_away;
mod tasks;
mod verify;

/// What this binary becomes when the agent starts it as a service; see `world::service`.
#[test]
fn become_a_service_where_that_is_asked_for() {
    if let Ok(config) = std::env::var(world::service::CONFIG) {
        world::service::serve(&config);
    }
}
