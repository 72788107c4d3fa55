//! The lock of the one active upgrade of a service, or of a schema.

use super::Body;
use crate::UpgradeId;
use serde::{Deserialize, Serialize};

/// Which upgrade holds the lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Active {
    /// The upgrade.
    pub upgrade: UpgradeId,
}

impl Body for Active {
    const SCHEMA: u32 = 1;
}
