//! What the coordinator wants of an instance. Level-triggered: an agent that missed nine of them obeys the tenth.
//! Its generation is the mod_revision of its key, never reused. It names releases; it carries nothing to execute.

pub use crate::timing::{Drain, Evidence, HealthTimes, OnDeadline};

use super::Body;
use crate::{Release, TermId, UpgradeId};
use serde::{Deserialize, Serialize};

/// The wanted state of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Directive {
    /// On whose behalf.
    pub upgrade: UpgradeId,
    /// What the instance should be doing.
    pub disposition: Disposition,
    /// The releases that should be present on the node: missing ones are staged, others that the agent staged
    /// are removed, the running one never. The former one is before the one that an upgrade goes to.
    #[serde(default)]
    pub releases: Vec<Release>,
    /// How to drain.
    pub drain: Drain,
    /// When it counts as healthy.
    pub health: HealthTimes,
    /// The term that wrote it.
    pub term: TermId,
    /// An operator has declared that the service has stopped: that replaces the count of requests in flight where there
    /// is none. It confirms no stop.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub declared_stopped: bool,
    /// Nothing was taken out of the capacity budget for it, because the instance was out of rotation already. An agent that
    /// finds it in rotation does not take it out, and reports the directive as declined. Absent = it was budgeted, or an
    /// older coordinator; an older agent obeys in any case.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub presumes_out: bool,
    /// The directive before it was declined: the agent has read that one, so that a lost journal is no reason to decline this
    /// one. Absent = none was, or an older coordinator.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_decline: bool,
}

impl Body for Directive {
    const SCHEMA: u32 = 1;
}

/// What an instance should be doing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
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
        self.into()
    }
}
