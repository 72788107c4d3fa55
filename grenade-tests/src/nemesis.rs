//! The nemesis: real processes, each on a host of its own, upgraded again and again under load, while faults that one seed
//! draws happen to all of them; judged from outside.
//!
//! `plan` says what a seed means, `mishap` how each fault begins and ends, `judge` what is looked at after each upgrade.

pub mod arguments;
mod auditor;
mod clock;
mod database;
pub mod draw;
mod faults;
mod ground;
mod isolate;
mod judge;
mod ledger;
mod mishap;
mod network;
mod operator;
pub mod plan;
pub mod program;
mod reach;
mod releases;
mod rows;
mod run;
mod tale;
mod watchman;
