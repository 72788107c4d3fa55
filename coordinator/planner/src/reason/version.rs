//! What instances are known to run.

use super::Sample;
use super::said::{Said, Waits, first};
use serde::{Deserialize, Serialize};
use tidegate_proto::{Revision, ServiceName, ServiceVersion};

/// A gate on the versions of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[expect(missing_docs, reason = "each is described by its sentence, below")]
pub enum VersionGate {
    Silent { service: ServiceName, nodes: Sample },
    VersionUnknown { service: ServiceName, nodes: Sample },
    Behind { service: ServiceName, nodes: Sample, needs: ServiceVersion },
    Ahead { service: ServiceName, nodes: Sample, allowed: ServiceVersion },
    Unacknowledged { service: ServiceName, nodes: Sample, window: Revision },
    NoInstances { service: ServiceName },
}

impl VersionGate {
    pub(super) fn said(&self, waits: Waits<'_>) -> Said {
        match self {
            Self::Silent { service, nodes } => Said::new(
                format!("{service}: no report from {nodes}; these instances are unknown, not gone"),
                "the agent, which reports again; or a person, who decommissions the instance where the machine is gone for good",
            )
            .next_step(first(nodes).map(|node| {
                format!("tidegate fleet decommission {service}/{node} --why … --stopped-how …")
            })),
            Self::VersionUnknown { service, nodes } => Said::new(
                format!("{service}: the running version is not known on {nodes}"),
                "the agent, once its version probe answers",
            )
            .next_step(
                waits.upgrade(|_| match first(nodes) {
                    Some(node) => format!("tidegate-agent check (on {node})"),
                    None => "tidegate-agent check".to_owned(),
                }),
            ),
            Self::Behind { service, nodes, needs } => Said::new(
                format!("{service} is below version {needs} on {nodes}"),
                match waits {
                    // Another tool may upgrade the storage below a release.
                    Waits::Release(..) => {
                        "the tool that upgrades this service; Tidegate only observes it while no upgrade of it runs"
                    }
                    _ => MOVES,
                },
            )
            .next_step(waits.release(|_, _| format!("tidegate fleet list {service}"))),
            Self::Ahead { service, nodes, allowed } => {
                Said::new(format!("{service} is above version {allowed} on {nodes}"), MOVES)
            }
            Self::Unacknowledged { service, nodes, window } => Said::new(
                format!("{service}: {nodes} have not acknowledged the version window of revision {window}"),
                "the agents",
            ),
            Self::NoInstances { service } => Said::new(
                format!("{service} has no instance"),
                "a person, who starts an agent for the service or corrects its name in the spec",
            ),
        }
    }
}

const MOVES: &str = "the coordinator, which moves the instances to that version; or a person, where one has failed or was skipped";
