//! Deterministic simulation: the product's own coordinator, agents, store and migration engine, in one process, in
//! simulated time, in a world that one seed draws; judged from outside.
//!
//! Simulated are the processes of services, the balancers, the network, the disks of nodes and the clock. The runtime has
//! one thread and a paused clock, which jumps to the next thing that is due; randomness below the standard library comes
//! from the seed (in the binary).

mod accepting;
mod advice;
mod agent;
mod auditor;
mod before;
mod by_hand;
mod child;
mod coordinator;
mod coverage;
mod current;
mod database;
mod databases;
mod deposed;
pub mod dice;
mod document;
pub mod draw;
mod ends;
mod event_log;
mod falsify;
mod fault;
mod form_look;
mod gate;
mod host;
mod images;
mod interrupt;
mod judge;
mod kept;
mod late_failures;
mod lies;
mod line;
mod looks;
mod lost;
pub mod many;
mod metadata;
pub mod metadata_plan;
mod misled;
mod moves;
mod named;
mod names;
mod narrow_store;
mod old_sessions;
mod operator;
mod operators;
mod output;
mod paused_job;
pub mod planned;
mod product_log;
mod programs;
mod promise;
mod record_size;
mod reinstall;
mod request;
mod run;
pub mod scenario;
mod scenario_file;
mod seeded;
mod server;
mod sharing;
mod shrink;
mod silence;
mod slot;
mod source;
mod spec;
mod stream;
mod stream_audit;
mod stream_commands;
mod stream_facts;
pub mod stream_plan;
mod stream_refusals;
mod tally;
mod tamper;
mod testbed;
mod typed;
mod upgrade_id;
mod upgrades;
mod verbs;
mod way_back;
mod world;
mod write_rate;

pub use judge::Breach;
pub use run::{Outcome, run};
