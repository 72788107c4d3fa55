//! The moves of a compute release. One enum (in the vocabulary), one drawing, one function.
//!
//! ```text
//!      ┌──────────────── is tried again ─────────────┐
//!      ▼       ┌────────────── fails ─────────────┐  │
//!      │       │                                  ▼  │
//!   pending ───┼─ begins canary ─► canary ─ fails ─► error ──────┐
//!      │ │     │                    │   │                        │ collected
//!      │ │     └──── goes out ◄─────┘   │                        ▼
//!      │ │              ▼               │                    deprecated
//!      │ └─ goes out ─► deployed        │                        ▲
//!      │                 │ overtaken    │ overtaken              │ collected
//!      └── overtaken ──► └► superseded ◄┘ ───────────────────────┘
//! ```
//!
//! # Invariants
//! * Nothing becomes deployed again: going back makes a new revision.
//! * What is deployed is never collected.

use tidegate_proto::record::release::ReleaseStatus;

/// What happened to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Move {
    /// A share of starts uses it from now on.
    BeginCanary,
    /// Every new start uses it from now on.
    GoOut,
    /// A later revision went out, or the manual strategy put another one into canary in its place.
    Overtake,
    /// It did not become available, or its canary failed.
    Fail,
    /// A person has it tried again.
    TryAgain,
    /// Nothing holds it any more.
    Collect,
}

impl Move {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::BeginCanary, Self::GoOut, Self::Overtake, Self::Fail, Self::TryAgain, Self::Collect];

    fn word(self) -> &'static str {
        match self {
            Self::BeginCanary => "a canary",
            Self::GoOut => "going out",
            Self::Overtake => "a later revision",
            Self::Fail => "a failure",
            Self::TryAgain => "another attempt",
            Self::Collect => "collection",
        }
    }
}

/// A move that does not exist from the release's status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} does not lead on from {status}", .happened.word())]
pub struct Refused {
    /// Its status.
    pub status: ReleaseStatus,
    /// What was said to have happened.
    pub happened: Move,
}

/// Where a move leads.
pub fn transition(status: ReleaseStatus, happened: Move) -> Result<ReleaseStatus, Refused> {
    use ReleaseStatus::{Canary, Deployed, Deprecated, Error, Pending, Superseded};
    match (status, happened) {
        (Pending, Move::BeginCanary) => Ok(Canary),
        (Pending | Canary, Move::GoOut) => Ok(Deployed),
        (Pending | Canary | Deployed, Move::Overtake) => Ok(Superseded),
        (Pending | Canary, Move::Fail) => Ok(Error),
        (Error, Move::TryAgain) => Ok(Pending),
        (Superseded | Error, Move::Collect) => Ok(Deprecated),
        (status, happened) => Err(Refused { status, happened }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drawing_has_every_edge_and_no_other() {
        let mut edges: Vec<String> = Vec::new();
        for status in ReleaseStatus::ALL {
            for happened in Move::ALL {
                if let Ok(next) = transition(status, happened) {
                    edges.push(format!("{status} --{happened:?}-> {next}"));
                }
            }
        }
        let drawn = [
            "pending --BeginCanary-> canary",
            "pending --GoOut-> deployed",
            "pending --Overtake-> superseded",
            "pending --Fail-> error",
            "canary --GoOut-> deployed",
            "canary --Overtake-> superseded",
            "canary --Fail-> error",
            "deployed --Overtake-> superseded",
            "superseded --Collect-> deprecated",
            "error --TryAgain-> pending",
            "error --Collect-> deprecated",
        ];
        assert_eq!(edges, drawn);
    }
}
