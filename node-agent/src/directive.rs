//! The next act towards what the coordinator's directive asks for. The decision is a pure function of the journal, of what
//! was seen, and of the time.
//!
//! ```text
//!             nothing runs                      admitted, hidden
//!   fresh ──────────────────► stopped ─────────────────────────────► starting
//!     │                          ▲                                      │ runs
//!     │ runs, admitted           │ lock free                            ▼
//!     └──────────────────────────┼────────────────────────────────► verifying ──► serving
//!                                │                                      ▲           │
//!                             stopping ◄── drained ◄── draining ◄───────┼───────────┘
//!                                      replace, stop   │   │            │ serve
//!                                                      └───┴────────────┘
//!   refused: the window does not admit it.   failed: tried under this generation, and not again.
//! ```

pub mod accept;
pub mod act;
pub mod answers;
pub mod decide;
mod draining;
pub mod fault;
pub mod presumption;
pub mod seen;
pub mod standstill;
mod start;
pub mod stays;
pub mod steady;
pub mod timers;
mod verify;

#[cfg(test)]
pub(crate) mod tests;
