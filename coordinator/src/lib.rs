//! What acts: the tidegate daemon and the operator's commands.
//!
//! ```text
//!            ┌────────┬────────┬──────┬───────┬──────┬────────┐
//!   watch ──►│ report │ spread │ gate │ plan  │ act  │ record │──► store        (turn, driven by `leader_loop`)
//!            └────────┴────────┴──────┴───────┴──────┴────────┘
//!   cli ──► grpc ──► operation ──► the planner's `ask` ──► store
//! ```
//!
//! # Invariants
//! * Nothing is decided here: the planner decides what may happen.
//! * Only the leader writes, and every write of it carries its fence.
//! * Doors (`cli`, `grpc`, `api`) translate; operations act. Before `grpc` and `api` stands the `guard`.

mod act;
pub mod api;
pub mod cli;
mod config;
pub mod context;
mod daemon;
pub mod door;
mod eligibility;
pub mod grpc;
pub mod guard;
pub mod leader_loop;
pub mod leadership;
pub mod metrics;
pub mod operation;
mod problem;
pub mod record;
pub mod report;
mod shown;
mod stopwatch;
mod telemetry;
pub mod terminal;
mod turn;
