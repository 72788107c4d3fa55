//! Real processes, each test in a world of its own.

#![expect(clippy::unwrap_used, reason = "a test says what it expects in one word")]

mod balancer;
mod browser;
mod demo;
mod end_to_end;
mod fuzz;
mod gate_files;
mod gate_report;
mod load;
mod nemesis;
mod pantry;
mod real_etcd;
mod real_haproxy;
mod real_mariadb;
mod real_postgres;
mod region;
mod rig;
mod simulate;
mod versions;
mod watched_storage;
mod world;
