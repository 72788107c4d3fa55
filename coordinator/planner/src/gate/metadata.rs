//! Batches of a metadata update.

use super::Sample;
use super::said::{Said, Waits};
use serde::{Deserialize, Serialize};
use tidegate_proto::Span;
use tidegate_proto::metadata::TIMEOUT;

/// A gate on the next batch of a metadata update.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[expect(missing_docs, reason = "each is described by its sentence, below")]
pub enum MetadataGate {
    Unsignalled { nodes: Sample, batch: u32, batches: u32, left: Span },
    Soaking { batch: u32, batches: u32, left: Span },
}

impl MetadataGate {
    pub(super) fn said(&self, waits: Waits<'_>) -> Said {
        let cancel = waits.group(|group| format!("tidegate metadata cancel {group} --why …"));
        match self {
            Self::Unsignalled { nodes, batch, batches, left } => Said::new(
                format!("batch {batch}/{batches}: no signal yet from {nodes}"),
                "the instances, which signal success or failure; or a person, who cancels the update",
            )
            .next_step(cancel)
            .timeout(format!("in {left} instances without a signal count as failed ({TIMEOUT})")),
            Self::Soaking { batch, batches, left } => Said::new(
                format!("batch {batch}/{batches} reported success and is soaking"),
                "the coordinator",
            )
            .next_step(cancel)
            .timeout(format!("in {left} the next batch is exposed")),
        }
    }
}
