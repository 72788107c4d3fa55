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
    /// The lowest version that can serve with what contracted schemas left, 1 where none was contracted. Absent in
    /// older records: not known, so the window itself is the bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contracted: Option<ServiceVersion>,
}

/// The value of `set_by` in a window that compute releases set.
pub const BY_RELEASES: &str = "compute-releases";

/// The same in one that a person set.
pub const BY_OPERATOR: &str = "operator";

/// The same in one that a reconciliation set.
pub const BY_RECONCILIATION: &str = "reconciliation";

impl Body for Window {
    const SCHEMA: u32 = 1;
}

impl Window {
    /// The window that admits every version: what a rollback leaves where there was none. A window is never removed
    /// again, because one that vanished is how agents notice a store that was restored from a backup.
    pub fn open(set_by: UpgradeId) -> Self {
        Self { floor: ServiceVersion::ABSENT, ceiling: ServiceVersion::MAX, set_by, contracted: None }
    }

    /// Whether it admits every version.
    pub fn is_open(&self) -> bool {
        self.floor == ServiceVersion::ABSENT && self.ceiling == ServiceVersion::MAX
    }

    /// Whether its floor follows what compute releases need of storage that another tool upgrades, whatever runs.
    pub fn follows_needs(&self) -> bool {
        self.ceiling == ServiceVersion::MAX && self.set_by.as_str() == BY_RELEASES
    }

    /// Whether an instance that is in rotation already and came to run `version` may stay there until it is drained,
    /// although it is not admitted: no contracted schema is in its way.
    pub fn bears(&self, version: ServiceVersion) -> bool {
        self.admits(version) || self.contracted.is_some_and(|contracted| contracted <= version)
    }

    /// Whether `version` may be admitted.
    pub fn admits(&self, version: ServiceVersion) -> bool {
        self.floor <= version && version <= self.ceiling
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown(self.floor.get(), self.ceiling.get()))
    }
}

/// A window in words: `[1, 2]`, `2 and above` where no version is too high, `any` where none is too low either.
pub fn shown(floor: u32, ceiling: u32) -> String {
    match (floor == ServiceVersion::ABSENT.get(), ceiling == ServiceVersion::MAX.get()) {
        (true, true) => "any".to_owned(),
        (false, true) => format!("{floor} and above"),
        _ => format!("[{floor}, {ceiling}]"),
    }
}
