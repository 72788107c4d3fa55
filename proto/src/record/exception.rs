//! An instance of an upgrade that failed, or that was skipped: a record for each, so that no record grows with the fleet.

use super::Body;
use super::upgrade::{Decision, Failure};
use serde::{Deserialize, Serialize};

/// Why an instance is not expected in its wave.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Exception {
    /// It failed, and was not retried since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// An operator skipped it: its wave passes without it, but never remove or contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Decision>,
}

impl Body for Exception {
    const SCHEMA: u32 = 1;
}
