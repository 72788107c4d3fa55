//! What happens in an upgrade beside it, and when.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_proto::Span;

use crate::gate::limits::MOST_INSTANCES;
use crate::gate::plan::event::Event;
use crate::load::whole::whole;

/// Something that happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanStep {
    /// When; never before the step above it.
    pub when: When,
    /// What.
    #[serde(rename = "do")]
    pub event: Event,
}

/// When something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// So many instances are at the target.
    Upgraded(
        #[serde(deserialize_with = "whole::<_, _, 1, MOST_INSTANCES>")]
        #[schemars(range(min = 1, max = MOST_INSTANCES))]
        u32,
    ),
    /// So long after the upgrade began.
    After(Span),
}

impl fmt::Display for PlanStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.when {
            When::Upgraded(count) => write!(f, "when {count} are upgraded, {}", self.event),
            When::After(span) => write!(f, "after {span}, {}", self.event),
        }
    }
}
