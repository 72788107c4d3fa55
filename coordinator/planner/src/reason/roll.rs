//! Instances that are staged, moved or cleaned up.

use super::said::{MANUAL, Said, Waits, first};
use super::{Causes, Sample};
use serde::{Deserialize, Serialize};
use tidegate_proto::{NodeId, ReleaseTag, Span, UpgradeId};

/// A gate on the instances that an upgrade moves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[expect(missing_docs, reason = "each is described by its sentence, below")]
pub enum RollGate {
    Staging { release: ReleaseTag, nodes: Sample },
    StageFailed { node: NodeId, release: ReleaseTag, why: String },
    Removing { nodes: Sample },
    Draining { nodes: Sample, deadline: Span },
    Replacing { nodes: Sample, deadline: Span },
    Returning { nodes: Sample },
    NotServing { nodes: Causes },
    Maintenance { nodes: Sample },
    Failed { node: NodeId, why: String },
    Skipped { nodes: Sample },
    EmptyWave { wave: u32 },
    Stalled { for_ms: u64, deadline: Span, out: Causes },
}

const AGENTS: &str = "the agents";

pub(super) fn retry(id: &UpgradeId, node: &NodeId) -> String {
    format!("tidegate upgrade retry {id} {node}")
}

/// What helps where instances are out of service: the one that has failed is named.
pub(super) fn mend(waits: Waits<'_>, out: &Causes) -> Option<String> {
    waits.upgrade(|id| match out.failed() {
        Some(node) => retry(id, node),
        None => format!("tidegate upgrade status {id}"),
    })
}

pub(super) fn besides(out: &Causes) -> String {
    if out.is_empty() { String::new() } else { format!("; not in service: {out}") }
}

impl RollGate {
    pub(super) fn said(&self, waits: Waits<'_>) -> Said {
        match self {
            Self::Staging { release, nodes } => {
                Said::new(format!("{release} is being staged on {nodes}"), AGENTS)
            }
            Self::StageFailed { node, release, why } => Said::new(
                format!("{node} could not stage or remove {release}: {why}"),
                "a person, who corrects the artifact or the hook on that node",
            )
            .next_step(waits.upgrade(|id| retry(id, node))),
            Self::Removing { nodes } => Said::new(format!("old code is being removed from {nodes}"), AGENTS),
            Self::Draining { nodes, deadline } => {
                Said::new(format!("draining {nodes} (timeout {deadline} for each)"), AGENTS)
                    .timeout(format!("after {deadline} the spec's drain.on_deadline decides"))
            }
            Self::Replacing { nodes, deadline } => {
                Said::new(format!("replacing and verifying {nodes} (each healthy within {deadline})"), AGENTS)
                    .timeout(format!("after {deadline} the instance has failed"))
            }
            Self::Returning { nodes } => Said::new(format!("returning to rotation: {nodes}"), AGENTS),
            Self::NotServing { nodes } => Said::new(
                format!("not in rotation and healthy: {nodes}"),
                "the service on that node, or a person who operates it",
            )
            .next_step(mend(waits, nodes)),
            Self::Maintenance { nodes } => {
                Said::new(format!("in maintenance: {nodes}"), "the person who put the node in maintenance")
                    .next_step(waits.upgrade(|_| match first(nodes) {
                        Some(node) => {
                            format!("tidegate fleet uncordon {node}, or remove the disable-file there")
                        }
                        None => "tidegate fleet uncordon NODE".to_owned(),
                    }))
                    .timeout(MANUAL)
            }
            Self::Failed { node, why } => Said::new(
                format!("{node} failed: {why}"),
                "a person, who corrects the instance on that node; it is not retried automatically",
            )
            .next_step(waits.upgrade(|id| retry(id, node))),
            Self::Skipped { nodes } => Said::new(
                format!("skipped instances still block remove and contract: {nodes}"),
                "a person, who retries the instance, or stops and decommissions it",
            )
            .next_step(first(nodes).and_then(|node| waits.upgrade(|id| retry(id, node))))
            .timeout(MANUAL),
            Self::EmptyWave { wave } => Said::new(
                format!("wave {} has no instance left that could be verified at the new version", wave + 1),
                "a person, who corrects and retries an instance of the wave, or rolls back",
            )
            .next_step(waits.upgrade(rollback)),
            Self::Stalled { for_ms, deadline, out } => {
                let time = Span::from_millis(for_ms / 1000 * 1000);
                Said::new(
                    format!(
                        "no instance became healthy for {time} (progress deadline {deadline}){}",
                        besides(out)
                    ),
                    "the instances that are named; or a person, who rolls back",
                )
                .next_step(waits.upgrade(rollback))
                .timeout("passed: the spec's failures.then ignores unreachable instances")
            }
        }
    }
}

pub(super) fn rollback(id: &UpgradeId) -> String {
    format!("tidegate upgrade rollback {id} --why …")
}
