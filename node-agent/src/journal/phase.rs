//! The phase of an instance, as it is journalled.

use crate::host::Target;
use serde::{Deserialize, Serialize};
use tidegate_proto::record::report::Step;

/// An instance's phase; see the drawing in `directive`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Phase {
    /// The agent knows nothing yet.
    #[default]
    Fresh,
    /// It runs; not yet seen healthy and in rotation for long enough.
    Verifying,
    /// In rotation, healthy.
    Serving,
    /// On its way out of rotation.
    Draining,
    /// Out, with the evidence for it.
    Drained {
        /// The deadline passed with requests in flight.
        forced: bool,
    },
    /// Being stopped: it cannot be recalled from here on.
    Stopping,
    /// Nothing runs, and that was confirmed.
    Stopped,
    /// Admitted and hidden; being started.
    Starting {
        /// What is started.
        target: Target,
    },
    /// The window does not admit it: it runs hidden, or does not run.
    Refused {
        /// Why, for people.
        reason: String,
        /// Its version changed while it was in rotation, in this boot of the machine: it stays there until the
        /// coordinator drains it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stays: Option<String>,
    },
    /// Not tried again under this generation.
    Failed {
        /// The step that failed.
        at: String,
        /// What was tried and found.
        reason: String,
        /// Whether the instance is disabled in rotation.
        hidden: bool,
    },
}

impl Phase {
    /// Where a stop has failed.
    pub const STOPPING: &'static str = "stopping";
    /// Where a start has failed.
    pub const STARTING: &'static str = "starting";

    /// A failure of `at`.
    pub fn failed(at: &str, reason: impl Into<String>, hidden: bool) -> Self {
        Self::Failed { at: at.to_owned(), reason: reason.into(), hidden }
    }

    /// A refusal that keeps the instance out of rotation.
    pub fn refused(reason: impl Into<String>) -> Self {
        Self::Refused { reason: reason.into(), stays: None }
    }

    /// Whether a stop or a start follows from the next look. That look is taken once the phase is on the disk: while a slow disk
    /// writes, the service may come into rotation, or its own supervisor may start it.
    pub fn precedes_stop_or_start(&self) -> bool {
        matches!(self, Self::Stopping | Self::Starting { .. })
    }

    /// Whether its probe has to answer, because it may get requests unless it was never shown. What starts does not answer yet;
    /// of what is hidden, a report says more than silence, and the coordinator orders nothing of an instance that is silent.
    pub fn expects_answers(&self) -> bool {
        match self {
            Self::Serving | Self::Draining => true,
            Self::Refused { stays, .. } => stays.is_some(),
            Self::Failed { hidden, .. } => !hidden,
            _ => false,
        }
    }

    /// Whether a stop or a start has failed: without an order to replace the service it is tried again.
    pub fn is_failed_stop_or_start(&self) -> bool {
        matches!(self, Self::Failed { at, .. } if at == Self::STOPPING || at == Self::STARTING)
    }

    /// Its name, as it is journalled.
    pub fn name(&self) -> String {
        let journalled = serde_json::to_value(self).ok();
        let name = journalled.as_ref().and_then(|phase| phase["name"].as_str());
        name.unwrap_or_default().to_owned()
    }

    /// The step that a report names. `replacing`: whether a directive wants a release to be started.
    pub fn step(&self, replacing: bool) -> Step {
        match self {
            Self::Fresh => Step::Starting,
            Self::Verifying => Step::Verifying,
            Self::Serving => Step::Serving,
            Self::Draining => Step::Draining,
            Self::Drained { forced } => Step::Drained { forced: *forced },
            Self::Stopping | Self::Starting { .. } => Step::Replacing,
            Self::Stopped if replacing => Step::Replacing,
            Self::Stopped => Step::Stopped,
            Self::Refused { reason, .. } => Step::Refused { reason: reason.clone() },
            Self::Failed { at, reason, .. } => Step::Failed { at: at.clone(), reason: reason.clone() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_get_requests_has_to_answer() {
        let refused = |stays: Option<&str>| {
            let (reason, stays) = ("above the ceiling".to_owned(), stays.map(str::to_owned));
            Phase::Refused { reason, stays }
        };
        for (phase, expected) in [
            (Phase::Verifying, false),
            (Phase::Serving, true),
            (Phase::Draining, true),
            (Phase::Drained { forced: false }, false),
            (refused(Some("boot")), true),
            (refused(None), false),
            (Phase::failed("verifying", "not healthy", false), true),
            (Phase::failed("verifying", "not healthy", true), false),
        ] {
            assert_eq!(phase.expects_answers(), expected, "{phase:?}");
        }
    }
}
