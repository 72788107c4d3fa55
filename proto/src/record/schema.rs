//! What is known of a schema: which services share it, and which versions its phases require.

use super::Body;
use crate::{Digest, ServiceName, ServiceVersion, UpgradeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A schema and the services that share it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Schema {
    /// Every service that uses it, with the lowest version that may meet the contracted form.
    pub services: BTreeMap<ServiceName, ServiceVersion>,
    /// What its contracted form requires of them, raised in the transaction that enters contract and never lowered: no
    /// service goes back below it. Empty where nothing was contracted (and before this was written down: schema 1).
    #[serde(default)]
    pub contracted: BTreeMap<ServiceName, ServiceVersion>,
    /// The digest of the migrations that were last run on it.
    pub migrations: Digest,
    /// The upgrade that runs them, or ran them last.
    pub upgrade: UpgradeId,
}

impl Body for Schema {
    const SCHEMA: u32 = 2;
}
