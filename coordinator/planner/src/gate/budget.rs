//! How many instances may be out of service at once.

pub mod capacity;
pub mod outside;

use super::description::{Description, Waits};
use super::roll::{besides, recovery_command};
use super::{Causes, Sample};
use serde::{Deserialize, Serialize};
use tidegate_proto::ServiceName;

/// A gate on capacity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[expect(missing_docs, reason = "each is described by its sentence, below")]
pub enum BudgetGate {
    Capacity { in_service: usize, required: usize, out: Causes },
    Unavailable { allowed: usize, out: Causes },
    Domain { domain: String, out: Causes },
    Held { nodes: Sample },
    Outside { service: ServiceName, window: String, nodes: Causes },
    CapacityUnknown { service: ServiceName, window: String, nodes: Causes },
    Unlabelled { nodes: Sample },
}

const RETURNS: &str =
    "the instances that return to rotation; or a person, who corrects those that are out of service";

impl BudgetGate {
    pub(super) fn describe(&self, waits: Waits<'_>) -> Description {
        let status = || waits.upgrade(|id| format!("tidegate upgrade status {id}"));
        match self {
            Self::Capacity { in_service, required, out } => Description::new(
                format!("{in_service} instances are in service, and {required} are required{}", besides(out)),
                RETURNS,
            )
            .next_step(recovery_command(waits, out)),
            Self::Unavailable { allowed, out } => Description::new(
                format!("{} instances are not in service, and at most {allowed} may be: {out}", out.count),
                RETURNS,
            )
            .next_step(recovery_command(waits, out)),
            Self::Domain { domain, out } => Description::new(
                format!(
                    "failure domain {domain} has instances out of service, and only one domain may have them: {out}"
                ),
                RETURNS,
            )
            .next_step(recovery_command(waits, out)),
            Self::Held { nodes } => Description::new(
                format!("drained and not stopped, because too few other instances are in rotation: {nodes}"),
                RETURNS,
            )
            .next_step(status()),
            Self::Outside { service, window, nodes } => Description::new(
                format!(
                    "{service}: the version changed in rotation to one outside the window {window} on {nodes}; these instances are drained one at a time, as far as capacity allows"
                ),
                "a person, who starts a version that the window admits on these nodes",
            )
            .next_step(waits.upgrade(|_| format!("tidegate fleet list {service}"))),
            Self::CapacityUnknown { service, window, nodes } => Description::new(
                format!(
                    "{service}: the version is outside the window {window} on {nodes}; no instance is drained, because the store was reconciled and has no upgrade of {service} that says how many must stay"
                ),
                "a person, who starts a version that the window admits on these nodes, or widens the window",
            )
            .next_step(waits.upgrade(|_| format!("tidegate fleet list {service}"))),
            Self::Unlabelled { nodes } => Description::new(
                format!(
                    "out of rotation without the label of a failure domain, so possibly in any of them: {nodes}; no other instance may be drained"
                ),
                "the instance, which returns; or a person, who sets the label in its agent's configuration",
            )
            .next_step(status()),
        }
    }
}
