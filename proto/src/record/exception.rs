//! An instance of an upgrade that failed, or that was skipped: a record for each, so that no record grows with the fleet.

use super::Body;
use super::upgrade::{Failure, Word};
use serde::{Deserialize, Serialize};

/// Why an instance is not expected in its wave.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Exception {
    /// It failed, and nobody has retried it since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// A person skipped it: that excuses it from its wave, never from remove or contract.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Word>,
}

impl Body for Exception {
    const SCHEMA: u32 = 1;
}
