//! How a schema changes under live traffic: expand, migrate, contract and undo.
//!
//! ```text
//!   not started ──expand──► expanded ──migrate──► migrated ──contract──► done
//!        ▲                     │                     │
//!        └────────undo─────────┴─────────────────────┘        after contract began: no rollback
//! ```
//!
//! A [`MigrationSet`] says what to do, an [`Engine`] does it on one database. Which steps ran is
//! known to the database alone, in its own history; each step and its history are one transaction
//! where the database can. This crate never asks the fleet: whether a phase *may* run is decided by
//! the caller, who hands a proof to [`Engine::contract`].
//!
//! # Invariants
//! * No statement that changes something runs without the lock and the term, checked in its own
//!   transaction, on the session that runs it.
//! * A table is never asked for a lock that stops readers or writers for longer than [`LOCK_LIMIT`]
//!   at a time; a concurrent index build asks for none of that kind.
//! * A step that ran is not run again; a phase that ran with other words is drift and stops.

mod backfill;
mod blocker;
mod crash;
mod database;
mod engine;
mod error;
mod finding;
pub mod held;
mod history;
mod identity;
mod ladder;
mod leader;
mod lint;
mod load;
mod mutant;
mod object;
mod owner;
mod presence;
mod progress;
mod sessions;
mod step;
mod sync;
mod term;
mod unit;

pub use database::{DatabaseUrl, Dialect, InvalidUrl};
pub use engine::{
    Adopted, Adoption, ContractProof, Engine, LaterContract, MigrationStatus, Outcome, PhaseState, Recheck,
    RowCount, Status,
};
pub use error::{Error, Holder};
pub use finding::{Finding, Place, Rule};
pub use identity::{SchemaId, SchemaIdentity};
pub use ladder::LOCK_LIMIT;
pub use load::{LoadError, json_schema};
pub use owner::{Owner, UNRECORDED};
pub use progress::PhaseProgress;
pub use sessions::{SessionFact, SessionKind, SessionTag, Sessions};
pub use term::Term;
pub use unit::{
    AddColumn, Backfill, Digest, DropColumn, DropSync, Index, InvalidName, Migration, MigrationSet, Name,
    NotNull, Phase, Refresh, Requires, Statement, Step, Sync,
};
