//! Gate jobs: old and new run side by side under load, every request is counted, and a verdict is given for each upgrade
//! tag. What runs is described by a gate file; nothing here knows any service.
//!
//! ```text
//!   file ──► ground ──► mixed ──► upgrade ──► verdict ──► report
//!            processes  frozen    base load,  pure, from   text, JSON,
//!            and ports  mixes     upgrade,    ledgers      JUnit
//!                                 sweep
//! ```
//!
//! The judge reads ledgers and what commands and health URLs answered; it does not ask the upgrade how it went.

pub mod beside;
pub mod by_command;
pub mod by_hand;
pub mod cli;
pub mod compat;
pub mod course;
pub mod databases;
pub mod deaths;
pub mod drive;
pub mod exit;
pub mod explore;
pub mod file;
pub mod fleet;
pub mod ground;
pub mod host;
pub mod impact;
pub mod init;
pub mod installed;
pub mod late;
pub mod launcher;
pub mod limits;
pub mod load;
pub mod machine;
pub mod matrix;
pub mod mixed;
pub mod offline;
pub mod orders;
pub mod picture;
pub mod plan;
pub mod procedure;
pub mod processes;
pub mod quantile;
pub mod reach;
pub mod record;
pub mod report;
pub mod run;
pub mod source;
pub mod spectator;
pub mod steps;
pub mod survival;
pub mod upgrade;
pub mod verdict;
pub mod watch;
pub mod written;
