//! What happens in an upgrade beside it, and when.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_proto::Span;

use crate::gate::written::MOST_INSTANCES;
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

/// What happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The operator pauses the upgrade for so long.
    Pause(Span),
    /// The operator rolls back, and begins another upgrade when that is done.
    RollBack,
    /// The coordinator is killed, and started again.
    KillCoordinator,
    /// The coordinator stands still for so long.
    StallCoordinator(Span),
    /// The agent of the node with this number is killed, and started again.
    KillAgent(
        #[serde(deserialize_with = "whole::<_, _, 1, MOST_INSTANCES>")]
        #[schemars(range(min = 1, max = MOST_INSTANCES))]
        u32,
    ),
    /// The agent of the node with this number stands still for two seconds.
    StallAgent(
        #[serde(deserialize_with = "whole::<_, _, 1, MOST_INSTANCES>")]
        #[schemars(range(min = 1, max = MOST_INSTANCES))]
        u32,
    ),
    /// The resources of the survival check are verified.
    Verify,
}

impl fmt::Display for PlanStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.when {
            When::Upgraded(count) => write!(f, "when {count} are upgraded, ")?,
            When::After(span) => write!(f, "after {span}, ")?,
        }
        match self.event {
            Event::Pause(span) => write!(f, "the operator pauses for {span}"),
            Event::RollBack => f.write_str("the operator rolls back, and upgrades again"),
            Event::KillCoordinator => f.write_str("the coordinator is killed"),
            Event::StallCoordinator(span) => write!(f, "the coordinator stands still for {span}"),
            Event::KillAgent(node) => write!(f, "the agent of node-{node} is killed"),
            Event::StallAgent(node) => write!(f, "the agent of node-{node} stands still"),
            Event::Verify => f.write_str("the resources are verified"),
        }
    }
}
