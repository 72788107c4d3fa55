//! The nemesis: real processes, each on a host of its own, upgraded again and again under load, while faults that one seed
//! draws happen to all of them; judged from outside.
//!
//! `plan` says what a seed means, `fault` how each fault begins and ends, `judge` what is looked at after each upgrade.

pub mod arguments;
mod auditor;
mod clock;
mod database;
pub mod draw;
mod event_log;
mod fault;
mod fault_scope;
mod health_monitor;
mod isolate;
mod judge;
mod ledger;
mod network;
mod operator;
pub mod plan;
pub mod program;
mod releases;
mod rows;
mod run;
mod schedule;
mod testbed;
