//! A node that a person keeps out of rotation and out of upgrades.

use super::{Body, Timestamp};
use serde::{Deserialize, Serialize};

/// Cordoned by whom, and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Maintenance {
    /// Who asked for it.
    pub who: String,
    /// Why.
    pub why: String,
    /// When.
    pub at: Timestamp,
}

impl Body for Maintenance {
    const SCHEMA: u32 = 1;
}
