//! The fields of an upgrade spec as they are written in a gate file: all but those that the runner fills in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tidegate_proto::Amount;
use tidegate_proto::spec::{ApprovalPoint, Failures, Strategy};
use tidegate_proto::timing::{Drain, HealthTimes};

/// Fields of an upgrade spec. What is absent has the default of a spec, unless another one is named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpgradeFields {
    /// How instances are grouped into waves. Default: rolling by 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<Strategy>,
    /// How many healthy instances must stay in rotation at any instant, less than all. Default: all but
    /// `max_unavailable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_in_service: Option<Amount>,
    /// How many may be out of rotation at any instant, less than all. Default: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<Amount>,
    /// A label; at most one of its values is out of rotation at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// When an instance counts as healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<HealthTimes>,
    /// How instances are drained. Default: evidence haproxy, a deadline of 30s, at which the drain fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    /// How many failures are tolerated, and what follows beyond them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<Failures>,
    /// Phases that wait for an approval, which the runner gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals: Option<Vec<ApprovalPoint>>,
}

impl UpgradeFields {
    /// Whether none is there.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Those that are there, as in a spec.
    pub fn fields(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields,
            // A struct with string keys only is always an object.
            _ => Map::new(),
        }
    }
}
