//! One line of history, written in the transaction of the change that it describes.

use super::{Body, Timestamp};
use serde::{Deserialize, Serialize};

/// What happened, why, and on whose word.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    /// The state before, in the words of the design.
    pub from: String,
    /// The state after.
    pub to: String,
    /// What allowed or caused it.
    pub because: String,
    /// Who: an operator's name, or `coordinator`.
    pub who: String,
    /// When, by the leader's clock.
    pub at: Timestamp,
}

impl Body for Event {
    const SCHEMA: u32 = 1;
}
