//! What a reconciliation would do, in full: every witness with its claim, what runs where, and what changes for whom.
//! Its hash is what a person applies, so that nothing is applied that was not shown.

use serde::Serialize;
use std::collections::BTreeSet;
use tidegate_proto::{Digest, InstanceId, Revision, ServiceName, ServiceVersion, TermId, UpgradeId};

/// What a person says of single instances, with the plan and with its application alike.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Choices {
    /// Their claims are not applied, their versions need not be known, and their agents stay as they are.
    pub disregard: BTreeSet<InstanceId>,
    /// Their claims are applied although no other node and no database makes them.
    pub include: BTreeSet<InstanceId>,
}

/// A plan to reconcile the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Proposal {
    /// What was chosen.
    pub choices: Choices,
    /// Whether nothing acts until it is applied.
    pub nothing_acts: bool,
    /// Where a coordinator saw the store, and where it found it.
    pub fall: Option<(Revision, Revision)>,
    /// The databases that obeyed a term which the store does not know, or for which it gives no higher number, each with
    /// the number that it keeps.
    pub databases: Vec<(UpgradeId, TermId, Revision)>,
    /// Every instance that contradicts the store.
    pub witnesses: Vec<Witness>,
    /// The windows of the services of these witnesses, and those raised for what serves above them.
    pub windows: Vec<WindowChange>,
    /// What runs where.
    pub instances: Vec<Runs>,
}

/// An instance that contradicts the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Witness {
    /// Which.
    pub instance: InstanceId,
    /// What it says against the store.
    pub says: String,
    /// The term that it obeyed.
    pub term: Option<TermId>,
    /// The floor that it obeyed.
    pub floor: Option<ServiceVersion>,
    /// The highest revision that it obeyed.
    pub revision: Revision,
    /// The part of the claim that no other node and no database makes, or that an earlier plan disregarded the instance;
    /// none = the claim is supported.
    pub lacks: Option<String>,
    /// What happens to it.
    pub fate: Fate,
}

/// What happens to a witness when the plan is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// Its claim is applied, and its agent obeys the store from then on.
    Applied,
    /// Its claim is neither applied nor dropped: it counts as silent and out.
    Quarantined,
    /// Its claim is dropped, and its agent stays as it is.
    Disregarded,
}

impl Fate {
    /// The word for it.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// A window before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WindowChange {
    /// Of this service.
    pub service: ServiceName,
    /// The mod_revision of the window; 0 = there is none.
    pub at: Revision,
    /// Floor and ceiling now.
    pub now: Option<(ServiceVersion, ServiceVersion)>,
    /// Floor and ceiling afterwards.
    pub then: Option<(ServiceVersion, ServiceVersion)>,
    /// Whether the floor is raised to what the database of a refused start has contracted: nothing else is as high.
    pub by_database: bool,
}

impl WindowChange {
    /// Whether it is another one afterwards.
    pub(super) fn changes(&self) -> bool {
        self.then != self.now
    }
}

/// What an instance runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Runs {
    /// Which.
    pub instance: InstanceId,
    /// The version, where it is known.
    pub version: Option<ServiceVersion>,
    /// Why the plan cannot be applied because of it.
    pub refused: Option<String>,
}

impl Proposal {
    /// The hash of all of it.
    pub fn hash(&self) -> Digest {
        Digest::of(&serde_json::to_vec(self).expect("a plan has string keys only, so it is always JSON"))
    }

    /// Why it cannot be applied, by instance; empty = it can.
    pub fn refusals(&self) -> impl Iterator<Item = String> {
        self.instances
            .iter()
            .filter_map(|runs| Some(format!("{}: {}", runs.instance, runs.refused.as_ref()?)))
    }
}
