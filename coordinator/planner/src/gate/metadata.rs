//! Batches of a metadata update.

use super::description::{Description, Waits};
use super::{Answer, Reason, Sample, StoreGate};
use crate::fleet::Fleet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tidegate_proto::metadata::TIMEOUT;
use tidegate_proto::record::group::GroupUpdate;
use tidegate_proto::{GroupName, Key, NodeId, Span};

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
    pub(super) fn describe(&self, waits: Waits<'_>) -> Description {
        let cancel = waits.group(|group| format!("tidegate metadata cancel {group} --why …"));
        match self {
            Self::Unsignalled { nodes, batch, batches, left } => Description::new(
                format!("batch {batch}/{batches}: no signal yet from {nodes}"),
                "the instances, which signal success or failure; or a person, who cancels the update",
            )
            .next_step(cancel)
            .timeout(format!("in {left} instances without a signal count as failed ({TIMEOUT})")),
            Self::Soaking { batch, batches, left } => Description::new(
                format!("batch {batch}/{batches} reported success and is soaking"),
                "the coordinator",
            )
            .next_step(cancel)
            .timeout(format!("in {left} the next batch is exposed")),
        }
    }
}

/// Whether the last batch has signalled and soaked. `unsignalled`: its instances without a signal; `waited_ms`: how long it
/// has been exposed.
pub(crate) fn batch_passed(update: &GroupUpdate, unsignalled: &BTreeSet<NodeId>, waited_ms: u64) -> Answer {
    let (batch, batches) = (update.batch + 1, update.batches);
    let left = |of: Span| Span::from_millis(of.as_millis().saturating_sub(waited_ms));
    if !unsignalled.is_empty() {
        let nodes = Sample::counted(unsignalled.iter());
        let left = left(update.terms.timeout);
        return Answer::from(Reason::from(MetadataGate::Unsignalled { nodes, batch, batches, left }));
    }
    let left = left(update.terms.pause);
    match left.as_millis() {
        0 => Answer::open(),
        _ => Answer::from(Reason::from(MetadataGate::Soaking { batch, batches, left })),
    }
}

/// Whether every page of the update can be read: nothing is decided without them.
pub(crate) fn readable(fleet: &Fleet, name: &GroupName, update: &GroupUpdate) -> Answer {
    let stored: BTreeSet<u32> = fleet
        .exposed_pages(name)
        .filter(|(_, page)| page.generation == update.to.generation)
        .map(|(page, _)| page)
        .collect();
    let lacking = (0..update.pages).filter(|page| !stored.contains(page));
    let unreadable = lacking.map(|page| {
        let key = Key::Exposed(name.clone(), page);
        let why = fleet.unreadable_at(&key).map_or_else(|| "is missing".to_owned(), ToString::to_string);
        Reason::from(StoreGate::Unreadable { key: key.to_string(), why })
    });
    let reasons: Vec<Reason> = unreadable.collect();
    Answer { is_open: reasons.is_empty(), reasons }
}
