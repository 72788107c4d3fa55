//! The phases of a schema change, and what migrate asks of the fleet.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A phase of a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Adds what the new version needs; the old one goes on beside it.
    Expand,
    /// Fills the rows that were there before.
    Migrate,
    /// Removes what only the old version needed. Final.
    Contract,
    /// Takes expand back.
    Undo,
}

impl Phase {
    /// All of them.
    pub const ALL: [Phase; 4] = [Phase::Expand, Phase::Migrate, Phase::Contract, Phase::Undo];

    /// As written in files, history and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Expand => "expand",
            Phase::Migrate => "migrate",
            Phase::Contract => "contract",
            Phase::Undo => "undo",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// When migrate may run. Whether it is so is the caller's question to the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Requires {
    /// As soon as expand is done, before the roll: Glance's order.
    Expanded,
    /// When the committed floor of the service that is upgraded is at least this, and that of every service which
    /// shares the schema is at least its number in the spec's `shared_with`. Nova's order where that is after the roll.
    Floor(u32),
    /// When the committed floor of each service that is named here is at least its number, and no other is asked.
    #[serde(untagged)]
    Services(BTreeMap<String, u32>),
}
