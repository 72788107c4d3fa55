//! What may happen next: pure decisions over an observed fleet.
//!
//! ```text
//! Fleet (records, indexed) ──┐
//!                            ├─► plan ──► actions (commits and jobs, as data) + reasons for waiting
//! Moment (term, elapsed) ────┘
//! ```
//!
//! # Invariants
//! * No clock, no dice, no socket: time and the leader's term are arguments.
//! * Always from the whole state, never from an event. Indexes only make that cheap.
//! * What does not move has a reason. Unknown closes a gate; nothing is ever assumed.
//! * Every planned commit compares the mod_revision of each record that authorises it; the leadership adds the fence.

pub mod action;
pub mod ask;
pub mod certificate;
pub mod contracted;
pub mod document;
pub mod fleet;
pub mod gate;
pub mod metadata;
pub mod moment;
pub mod plan;
pub mod release;
pub mod spread;
pub mod stream;
pub mod task;
pub mod upgrade;
pub mod wave;

pub use action::{Action, Plan, PlannedCommit, SchemaJob};
pub use fleet::{Exposure, Fleet, Instance, Known, Matching, ServiceFleet, Standing, Stored};
pub use gate::{Cause, Causes, Reason, Sample};
pub use moment::{ContractBegun, Elapsed, LaterContract, Leading, LookedFor, Moment, SchemaFacts, ViewAge};
pub use plan::plan;
pub use spread::Spread;
