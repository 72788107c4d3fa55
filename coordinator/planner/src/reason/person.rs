//! What a person decides.

use super::roll::rollback;
use super::said::{MANUAL, Said, Waits};
use serde::{Deserialize, Serialize};
use tidegate_proto::spec::ApprovalPoint;

/// A gate that a person opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[expect(missing_docs, reason = "each is described by its sentence, below")]
pub enum PersonGate {
    Preflight { finding: String },
    Approval { point: ApprovalPoint },
    Acceptance { why: String },
    Paused { who: String, why: String, way_back: bool },
    NoRollback { why: String },
}

impl PersonGate {
    pub(super) fn said(&self, waits: Waits<'_>) -> Said {
        match self {
            Self::Preflight { finding } => Said::new(
                finding.clone(),
                "a person, who corrects the finding; preflight is repeated automatically",
            )
            .next_step(waits.upgrade(rollback)),
            Self::Approval { point } => {
                Said::new(format!("phase {point} requires a manual approval"), "a person")
                    .next_step(waits.upgrade(|id| format!("tidegate upgrade approve {id} {point}")))
                    .timeout("none (manual approval)")
            }
            Self::Acceptance { why } => Said::new(
                format!("phase contract requires an approval that accepts what cannot be proved: {why}"),
                "a person",
            )
            .next_step(
                waits.upgrade(|id| format!("tidegate upgrade approve {id} contract --accept sessions")),
            )
            .timeout("none (manual approval)"),
            Self::Paused { who, why, way_back } => {
                Said::new(format!("paused by {who}: {why}"), "a person, who resumes or rolls back")
                    .next_step(waits.upgrade(|id| match way_back {
                        true => format!("tidegate upgrade resume {id}, or {}", rollback(id)),
                        false => format!("tidegate upgrade resume {id}"),
                    }))
                    .timeout(MANUAL)
            }
            Self::NoRollback { why } => Said::new(format!("cannot roll back: {why}"), "a person"),
        }
    }
}
