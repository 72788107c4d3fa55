//! Success or failure of a compute with a canary, or of an instance with a metadata document. One signal each, the last
//! one counts; absent = unmeasured, which is no success.

use super::{Body, Timestamp};
use crate::{FailureName, MetadataGeneration};
use serde::{Deserialize, Serialize};

/// The signal of one compute, or of one instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Signal {
    /// The metadata document that it is about; none = it is about a canary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<MetadataGeneration>,
    /// Whether it went well.
    pub success: bool,
    /// The kind of failure, where the reporter has a name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureName>,
    /// What happened, where it did not.
    #[serde(default)]
    pub why: String,
    /// Who sent it.
    pub who: String,
    /// When it was sent.
    pub at: Timestamp,
}

impl Body for Signal {
    const SCHEMA: u32 = 2;
    const MAX_BYTES: usize = 16 * 1024;
}
