//! Who leads, and who led: the leased key whose create revision is the fence of every commit, and the terms that
//! a store must know, or it was restored from a backup.

use super::{Body, Timestamp};
use crate::TermId;
use serde::{Deserialize, Serialize};

/// The leading coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Leader {
    /// The random id of this leadership.
    pub term: TermId,
    /// Where operators' calls are forwarded to: host and port of its gRPC.
    pub address: String,
}

impl Body for Leader {
    const SCHEMA: u32 = 1;
}

/// A leadership, kept for good: a witness that obeyed one which the store does not know shows that it was restored.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Term {
    /// The coordinator that led.
    pub address: String,
    /// Since when, by its clock.
    pub at: Timestamp,
}

impl Body for Term {
    const SCHEMA: u32 = 1;
}
