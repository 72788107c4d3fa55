//! What the coordinator wants of an instance. Level-triggered: an agent that missed nine of them obeys the tenth.
//! Its generation is the mod_revision of its key, never reused. It names releases; it carries nothing to execute.

use super::Body;
use crate::{Release, Span, TermId, UpgradeId};
use serde::{Deserialize, Serialize};

/// The wanted state of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Directive {
    /// On whose behalf.
    pub upgrade: UpgradeId,
    /// What the instance should be doing.
    pub disposition: Disposition,
    /// The releases that should be present on the node: missing ones are staged, others that the agent staged
    /// are removed, the running one never.
    #[serde(default)]
    pub releases: Vec<Release>,
    /// How to drain.
    pub drain: Drain,
    /// When it counts as healthy.
    pub health: HealthTimes,
    /// The term that wrote it.
    pub term: TermId,
    /// A person has declared that the service has stopped: that stands for the count of requests in flight where there
    /// is none. It confirms no stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declared_stopped: bool,
    /// Nothing was taken out of the capacity budget for it, because the instance was out of rotation already. An agent that
    /// finds it in rotation does not take it out, and reports the directive as declined. Absent = it was budgeted, or an
    /// older coordinator; an older agent obeys in any case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub presumes_out: bool,
}

impl Body for Directive {
    const SCHEMA: u32 = 1;
}

/// What an instance should be doing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Disposition {
    /// Serve with whatever release runs now.
    Serve {
        /// An earlier directive took it out, and no report has shown it back yet: until one of this generation
        /// does, it counts as out.
        #[serde(default)]
        returning: bool,
    },
    /// Leave rotation and wait. Reversible.
    Drain,
    /// Be drained, then stop what runs and serve with this release.
    Replace {
        /// The release to serve with.
        release: Release,
    },
    /// Be drained and stopped.
    Stop,
}

impl Disposition {
    /// Whether it takes the instance out of rotation.
    pub fn takes_out(&self) -> bool {
        !matches!(self, Self::Serve { .. })
    }

    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Serve { .. } => "serve",
            Self::Drain => "drain",
            Self::Replace { .. } => "replace",
            Self::Stop => "stop",
        }
    }
}

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
    /// How long a drain may take.
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

/// What proves that a balancer has let go of an instance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Evidence {
    /// Its own word on its runtime socket: DOWN and no sessions; UP on the way back.
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
