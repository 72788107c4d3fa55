//! How one compute fared with a canary. One word each, the last one stands; absent = unmeasured, which is no success.

use super::{Body, Timestamp};
use serde::{Deserialize, Serialize};

/// The word of one compute.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Signal {
    /// Whether it went well.
    pub success: bool,
    /// What happened, where it did not.
    #[serde(default)]
    pub why: String,
    /// Who told.
    pub who: String,
    /// When it was told.
    pub at: Timestamp,
}

impl Body for Signal {
    const SCHEMA: u32 = 1;
}
