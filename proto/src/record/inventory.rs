//! Every instance ever admitted, with its last admission. Never deleted: an instance that falls silent is unknown,
//! not gone.

use super::{Body, Timestamp, report::Identity};
use crate::{ReleaseTag, ServiceVersion};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The last admission of an instance. Its mod_revision names the admission.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Inventory {
    /// The version that was admitted.
    pub version: ServiceVersion,
    /// The release that was admitted, where the agent knows it.
    pub release: Option<ReleaseTag>,
    /// Labels of the node, such as `zone`: they name its failure domain.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Who admitted it.
    pub identity: Identity,
    /// When, by the agent's clock.
    pub at: Timestamp,
}

impl Body for Inventory {
    const SCHEMA: u32 = 1;
    const MAX_BYTES: usize = 16 * 1024;
}
