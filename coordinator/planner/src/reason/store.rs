//! What the store holds, and whether it can be believed.

use super::Sample;
use super::said::{RECONCILE, Said, Waits, first};
use serde::{Deserialize, Serialize};
use tidegate_proto::{NodeId, ServiceName, Span};

/// A gate on the store itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[expect(missing_docs, reason = "each is described by its sentence, below")]
pub enum StoreGate {
    Unreadable {
        key: String,
        why: String,
    },
    Restored {
        witnesses: Vec<String>,
        count: usize,
    },
    #[strum(serialize = "unsupported-claim")]
    #[serde(rename = "unsupported-claim")]
    Unsupported {
        service: ServiceName,
        node: NodeId,
        claim: String,
    },
    AwaitingReports {
        for_ms: u64,
    },
    FormerStore {
        nodes: Sample,
    },
    Disregarded {
        service: ServiceName,
        nodes: Sample,
    },
    StoreRefused {
        what: String,
        why: String,
    },
}

impl StoreGate {
    pub(super) fn said(&self, _: Waits<'_>) -> Said {
        match self {
            Self::Unreadable { key, why } => Said::new(
                format!("the record {key} {why}"),
                "the process that writes the record; or a person, who removes it",
            ),
            Self::Restored { witnesses, count } => {
                let more = match count - witnesses.len() {
                    0 => String::new(),
                    more => format!("; and {more} more witnesses"),
                };
                Said::new(
                    format!(
                        "the store was restored from a backup, or is blank, and no step is taken until a person reconciles it: {}{more}",
                        witnesses.join("; ")
                    ),
                    "a person, who knows what happened since the backup",
                )
                .next_step(Some(RECONCILE.to_owned()))
            }
            Self::Unsupported { service, node, claim } => Said::new(
                format!(
                    "{service}/{node} {claim}; no database and no other node confirms that, so the instance counts as silent and out of rotation, and the floor, remove and contract of {service} are closed"
                ),
                "a person, who includes or disregards the claim, or decommissions the instance",
            )
            .next_step(Some(RECONCILE.to_owned())),
            Self::AwaitingReports { for_ms } => Said::new(
                format!(
                    "this coordinator sees the store for the first time and waits for reports of the agents: {} left",
                    Span::from_millis(for_ms.div_ceil(1000) * 1000)
                ),
                "the coordinator",
            ),
            Self::FormerStore { nodes } => Said::new(
                format!("the store was reconciled, and these agents have not accepted new directives yet: {nodes}"),
                "the agents",
            ),
            Self::Disregarded { service, nodes } => Said::new(
                format!(
                    "{service}: the claims of these instances against the store were disregarded, and their agents obey the store only after a plan includes them: {nodes}"
                ),
                "a person, who includes the claim or decommissions the instance",
            )
            .next_step(first(nodes).map(|node| format!("{RECONCILE} --include {service}/{node}"))),
            Self::StoreRefused { what, why } => Said::new(
                format!("the store refused the transaction {what:?}: {why}"),
                "a person who administers the store: limits, permissions, space",
            )
            .timeout("none: it is planned again in every turn"),
        }
    }
}
