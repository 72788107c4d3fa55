//! How instances are drained, and when one counts as healthy: in a spec, and in each directive of its upgrade.

use crate::Span;
use serde::{Deserialize, Serialize};

/// How to drain.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Drain {
    /// What proves that every balancer has stopped sending requests.
    #[serde(default)]
    pub evidence: Evidence,
    /// With evidence `settle`: how long the balancers' checks need to see the 503 (interval × fall).
    #[serde(default = "six_seconds")]
    pub settle: Span,
    /// How long a drain may take, counted by the agent from when the disable-file is there.
    #[serde(default = "one_minute")]
    pub deadline: Span,
    /// What follows when it takes longer.
    #[serde(default)]
    pub on_deadline: OnDeadline,
}

fn six_seconds() -> Span {
    // HAProxy's default checks: every 2 s, down after 3 failures.
    Span::from_secs(6)
}

fn one_minute() -> Span {
    Span::from_secs(60)
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            evidence: Evidence::default(),
            settle: six_seconds(),
            deadline: one_minute(),
            on_deadline: OnDeadline::default(),
        }
    }
}

/// What proves that a balancer sends an instance no more requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Evidence {
    /// The state that its runtime socket reports: DOWN and no sessions; UP when it is enabled again.
    Haproxy,
    /// A time that covers its check interval and fall count.
    #[default]
    Settle,
}

/// What follows when a drain exceeds its deadline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum OnDeadline {
    /// Go on, and say so in the report.
    #[default]
    Proceed,
    /// The instance has failed its drain; it is put back into rotation.
    Fail,
}

/// Nomad's three times.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HealthTimes {
    /// How long without a break an instance must be healthy and in rotation before it counts (Nomad: 10 s).
    #[serde(default = "ten_seconds")]
    pub min_healthy_time: Span,
    /// By when after its start an instance must have been healthy for that long (Nomad: 5 min).
    #[serde(default = "five_minutes")]
    pub healthy_deadline: Span,
    /// How long a wave may go without any instance becoming healthy (Nomad: 10 min).
    #[serde(default = "ten_minutes")]
    pub progress_deadline: Span,
}

fn ten_seconds() -> Span {
    Span::from_secs(10)
}

fn five_minutes() -> Span {
    Span::from_secs(300)
}

fn ten_minutes() -> Span {
    Span::from_secs(600)
}

impl Default for HealthTimes {
    fn default() -> Self {
        Self {
            min_healthy_time: ten_seconds(),
            healthy_deadline: five_minutes(),
            progress_deadline: ten_minutes(),
        }
    }
}
