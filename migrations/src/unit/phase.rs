//! The phases of a schema change, and what migrate asks of the fleet.

use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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

impl<'de> Deserialize<'de> for Requires {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyForm)
    }
}

/// A word, or floors by name.
struct AnyForm;

impl<'de> Visitor<'de> for AnyForm {
    type Value = Requires;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"expanded\", { floor = 2 }, or the floor of each service by name")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Requires, E> {
        match word {
            "expanded" => Ok(Requires::Expanded),
            other => Err(E::invalid_value(Unexpected::Str(other), &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Requires, A::Error> {
        let mut named = BTreeMap::new();
        while let Some((service, floor)) = map.next_entry::<String, u32>()? {
            named.insert(service, floor);
        }
        Ok(match named.get("floor") {
            Some(floor) if named.len() == 1 => Requires::Floor(*floor),
            _ => Requires::Services(named),
        })
    }
}
