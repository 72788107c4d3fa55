//! A tombstone that a person writes for an instance. It covers one admission; a later admission voids it.

use super::{Body, Timestamp};
use crate::Revision;
use serde::{Deserialize, Serialize};

/// A declaration by a person that an instance is gone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Decommission {
    /// The mod_revision of the inventory record that it covers; 0 where there was none.
    pub admission: Revision,
    /// Who says so.
    pub who: String,
    /// Why.
    pub why: String,
    /// How the instance was stopped or fenced; demanded for one that may be below what an active upgrade requires.
    pub stopped_how: Option<String>,
    /// How the etcd user of its agent was revoked, where it was decommissioned while it reported: the reports up to
    /// this record are ignored, and a later one voids the word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_how: Option<String>,
    /// When.
    pub at: Timestamp,
}

impl Body for Decommission {
    const SCHEMA: u32 = 1;
}
