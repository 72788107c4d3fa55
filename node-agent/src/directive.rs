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
//!   refused: the window does not admit it.   failed: tried under this generation, and not again; what is hidden and not
//!   ordered out is verified again once it is healthy.
//! ```

pub(crate) mod accept;
pub(crate) mod act;
pub(crate) mod answers;
pub(crate) mod decide;
mod draining;
pub(crate) mod fault;
pub(crate) mod former;
mod gap;
pub(crate) mod identity;
pub(crate) mod presumption;
pub(crate) mod seen;
pub(crate) mod standstill;
pub(crate) mod start;
pub(crate) mod stays;
pub(crate) mod steady;
pub(crate) mod timers;
mod unseen;
mod verify;

#[cfg(test)]
pub(crate) mod tests;
