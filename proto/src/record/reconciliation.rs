//! An operator's statement that a store which was restored from a backup, or is blank, is the one to obey from here on:
//! it holds what the witnesses of the former one had seen, and who confirmed it.

use super::{Body, Timestamp};
use crate::{InstanceId, NodeId, Revision, ServiceName, ServiceVersion, TermId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The last reconciliation, with what earlier ones covered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reconciliation {
    /// Who reconciled it.
    pub who: String,
    /// Why it may be believed.
    pub why: String,
    /// When, by the clock of the coordinator.
    pub at: Timestamp,
    /// The terms that witnesses had obeyed and this store does not know.
    #[serde(default)]
    pub terms: BTreeSet<TermId>,
    /// The highest revision of a former store that any witness named. The terms that databases keep count on from it,
    /// because they only rise.
    #[serde(default)]
    pub revision: Revision,
    /// The highest floor that a witness had obeyed, by service: the window was raised to it with this record.
    #[serde(default)]
    pub floors: BTreeMap<ServiceName, ServiceVersion>,
    /// The instances that a person disregarded, with what each claimed then. Their agents do not take this record in.
    /// A claim that changes is heard again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub disregarded: BTreeMap<ServiceName, BTreeMap<NodeId, Claim>>,
    /// The instances of the plan that reported to the store and were not admitted. Each counts until it is admitted or a
    /// person decommissions it, also once its report has lapsed. A record of a former version lists none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub listed: BTreeMap<ServiceName, BTreeSet<NodeId>>,
}

/// What an instance claims to have obeyed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// The term of the last directive.
    pub term: Option<TermId>,
    /// The floor of the last window.
    pub floor: Option<ServiceVersion>,
    /// The highest revision of directive, window and admission.
    #[serde(default)]
    pub revision: Revision,
    /// The store was behind it when a person disregarded it. A record of a former version does not say so: there the
    /// revisions alone show it, and only until the store is reconciled once more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ahead: bool,
}

impl From<AcceptedState<'_>> for Claim {
    fn from(obeyed: AcceptedState<'_>) -> Self {
        Self { term: obeyed.term.cloned(), floor: obeyed.floor, revision: obeyed.revision, ahead: false }
    }
}

impl Claim {
    /// Whether this is what an instance claims that has obeyed these.
    pub fn is_made_by(&self, obeyed: AcceptedState<'_>) -> bool {
        self.term.as_ref() == obeyed.term && self.floor == obeyed.floor && self.revision == obeyed.revision
    }
}

impl Body for Reconciliation {
    const SCHEMA: u32 = 1;
}

/// What an agent has obeyed of a store, whichever that was.
#[derive(Debug, Clone, Copy)]
pub struct AcceptedState<'a> {
    /// The term of the last directive.
    pub term: Option<&'a TermId>,
    /// The floor of the last window.
    pub floor: Option<ServiceVersion>,
    /// The highest revision of directive, window and admission.
    pub revision: Revision,
}

impl Reconciliation {
    /// Whether the person had before them what this instance obeyed, and did not disregard it: then its agent may obey
    /// the store from here on.
    pub fn covers(&self, service: &ServiceName, node: &NodeId, obeyed: AcceptedState<'_>) -> bool {
        let floor = self.floors.get(service).copied().unwrap_or_default();
        self.disregarded_claim(service, node).is_none()
            && obeyed.term.is_none_or(|term| self.terms.contains(term))
            && obeyed.floor.is_none_or(|seen| seen <= floor)
            && obeyed.revision <= self.revision
    }

    /// Whether the store may have lost records: a claim of a former store was taken in. A word that only disregards
    /// claims says that none was lost.
    pub fn takes_in_a_former_store(&self) -> bool {
        !self.terms.is_empty() || !self.floors.is_empty() || self.revision.exists()
    }

    /// Whether this record, which is at `at`, disregards what an instance still claims, and the store was behind that: the
    /// claim says so, or is of a later revision than the record. The agent takes in nothing of the store until a plan includes the instance, however far
    /// the store has come since.
    pub fn disregards_later(
        &self,
        service: &ServiceName,
        node: &NodeId,
        at: Revision,
        obeyed: AcceptedState<'_>,
    ) -> bool {
        let claim = self.disregarded_claim(service, node);
        claim.is_some_and(|claim| (claim.ahead || claim.revision > at) && claim.is_made_by(obeyed))
    }

    /// The instances that count without an admission.
    pub fn listed_instances(&self) -> impl Iterator<Item = InstanceId> {
        let id = |service: &ServiceName, node: &NodeId| InstanceId::new(service.clone(), node.clone());
        self.listed.iter().flat_map(move |(service, nodes)| nodes.iter().map(move |node| id(service, node)))
    }

    /// What an instance claimed when a person disregarded it.
    pub fn disregarded_claim(&self, service: &ServiceName, node: &NodeId) -> Option<&Claim> {
        self.disregarded.get(service)?.get(node)
    }
}
