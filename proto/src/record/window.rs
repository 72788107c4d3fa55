//! Per service: the lowest and highest version that may be admitted.

use super::Body;
use crate::{ServiceVersion, UpgradeId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Floor and ceiling of a service. Where there is none, every version may be admitted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Window {
    /// The lowest version that may be admitted.
    pub floor: ServiceVersion,
    /// The highest.
    pub ceiling: ServiceVersion,
    /// The upgrade that set it.
    pub set_by: UpgradeId,
}

impl Body for Window {
    const SCHEMA: u32 = 1;
}

impl Window {
    /// The window that admits every version: what a rollback leaves where there was none. A window is never removed
    /// again, because one that vanished is how agents notice a store that was restored from a backup.
    pub fn open(set_by: UpgradeId) -> Self {
        Self { floor: ServiceVersion::ABSENT, ceiling: ServiceVersion::MAX, set_by }
    }

    /// Whether it admits every version.
    pub fn is_open(&self) -> bool {
        self.floor == ServiceVersion::ABSENT && self.ceiling == ServiceVersion::MAX
    }

    /// Whether `version` may be admitted.
    pub fn admits(&self, version: ServiceVersion) -> bool {
        self.floor <= version && version <= self.ceiling
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}]", self.floor, self.ceiling)
    }
}
