//! A companion as it is written: a service that is upgraded beside the gate's own.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::gate::limits::{FEWEST_INSTANCES, MOST_INSTANCES};
use crate::gate::written::upgrade::UpgradeFields;
use crate::gate::written::{SchemaSteps, Service};
use crate::load::whole::whole_if_any;

/// A service that works together with the service of the gate, and is upgraded too: before it and after it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Companion {
    /// The service and its two versions. Its name is what `to` of a step says.
    pub service: Service,
    /// How many instances it has, 2 to 24. Default: as the gate's own service.
    #[serde(default, deserialize_with = "whole_if_any::<_, _, FEWEST_INSTANCES, MOST_INSTANCES>")]
    #[schemars(range(min = FEWEST_INSTANCES, max = MOST_INSTANCES))]
    pub instances: Option<u32>,
    /// A database of its own, of the same engine as the gate's `database`. Absent: it uses that one.
    #[serde(default)]
    pub database: Option<OwnDatabase>,
    /// Its schema change, by commands of its own; absent: none.
    #[serde(default)]
    pub schema: Option<SchemaSteps>,
    /// Fields of its upgrade spec, as `upgrade` of the gate.
    #[serde(default)]
    pub upgrade: UpgradeFields,
}

/// A database of the same engine.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnDatabase {
    /// Commands that make the schema of the base version and what is in it, in order.
    #[serde(default)]
    pub init: Vec<Vec<String>>,
}
