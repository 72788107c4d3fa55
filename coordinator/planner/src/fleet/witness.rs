//! Witnesses: an agent that obeyed what this store does not know of shows that the store was restored from a backup, or
//! is blank. Witnesses outrank the store, until an operator has reconciled it.
//!
//! No agent can contradict a store that only ever went forward: its terms are kept for good, no revision that it ever
//! gave is beyond its own records, and no directive of a term is younger than the term that followed.
//!
//! The claim of an agent counts for its own node. What contradicts the store on one node alone stops nothing else: that
//! node's instances count as silent and out. Where a second node makes the same claim, or a database or a coordinator
//! contradicts the store as well, nothing acts.

mod against;
mod databases;
mod heard;

pub use against::Against;
use heard::Heard;

use super::instance::Instance;
use super::{Fleet, Known, Stored};
use crate::moment::SchemaFacts;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use tidegate_proto::record::reconciliation::Reconciliation;
use tidegate_proto::record::report::Report;
use tidegate_proto::{InstanceId, Key, NodeId, Revision, ServiceName, TermId, UpgradeId, mutant};

/// How far the store is contradicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contradiction {
    /// Not at all.
    None,
    /// By agents that are each alone with their claim: the claim of an agent counts for its own node.
    OneNode,
    /// By two nodes that make the same claim, by a database or by a coordinator: nothing acts.
    Supported,
}

/// What the report of an instance says of the store.
enum ReportClaim {
    /// Nothing that the store does not know.
    Nothing,
    /// That it is another one.
    Against(Against),
    /// That it is another one, and a person has disregarded that.
    Disregarded(Against),
    /// An operator has reconciled the store with it, and it still obeys the last directive of the former store.
    Former,
}

/// The terms that the store knows, and the agents that contradict it; updated as records come and go, so that a turn
/// without contradictions searches nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct Witnesses {
    /// By term, the mod_revision of its record.
    terms: BTreeMap<TermId, Revision>,
    /// When those began whose record can be read.
    begun: BTreeSet<Revision>,
    reconciled: Option<Stored<Reconciliation>>,
    against: BTreeMap<(ServiceName, NodeId), Against>,
    disregarded: BTreeMap<(ServiceName, NodeId), Against>,
    former: BTreeMap<ServiceName, BTreeSet<NodeId>>,
    fell: Option<(Revision, Revision)>,
}

impl Fleet {
    pub(super) fn knows_term(&mut self, term: TermId, at: Revision) {
        self.witnesses.begun.insert(at);
        self.witnesses.terms.insert(term, at);
        self.recheck_all();
    }

    /// Its key says that the store gave it; its mod_revision is later than its beginning, so it ends no other term.
    pub(super) fn knows_unreadable_term(&mut self, term: TermId, at: Revision) {
        self.witnesses.terms.insert(term, at);
        self.recheck_all();
    }

    pub(super) fn forgets_term(&mut self, term: &TermId) {
        if let Some(at) = self.witnesses.terms.remove(term) {
            self.witnesses.begun.remove(&at);
        }
        self.recheck_all();
    }

    pub(super) fn was_reconciled(&mut self, by: Option<Stored<Reconciliation>>) {
        if self.witnesses.fell.is_some_and(|(_, found)| by.as_ref().is_some_and(|by| by.at > found)) {
            self.witnesses.fell = None;
        }
        let former = std::mem::replace(&mut self.witnesses.reconciled, by);
        self.mark_listed(former.as_ref());
        self.recheck_all();
    }

    /// The store was seen at a revision, and found behind it.
    pub fn fell_back(&mut self, seen: Revision, found: Revision) {
        let (earlier, _) = self.witnesses.fell.unwrap_or((seen, found));
        self.witnesses.fell = Some((earlier.max(seen), found));
    }

    /// Whether the store was seen to fall back, and from where to where.
    pub fn fall(&self) -> Option<(Revision, Revision)> {
        self.witnesses.fell
    }

    /// Whether a person has reconciled the store since it took the place of the one that `former` shows, with all that was
    /// seen of that up to a revision: under a term that it lacked, because terms are kept for good.
    pub fn was_reconciled_since(&self, former: &Self, seen: Revision) -> bool {
        let (terms, known) = (&self.witnesses.terms, &former.witnesses.terms);
        self.reconciliation().is_some_and(|by| {
            let began_here = |(term, at): (&TermId, &Revision)| *at < by.at && !known.contains_key(term);
            by.revision >= seen && terms.iter().any(began_here)
        })
    }

    /// A window that cannot be read has trouble of its own, and is no older one.
    pub(super) fn window_is_readable(&self, service: &ServiceName) -> bool {
        self.unreadable.is_empty() || !self.unreadable.contains_key(&Key::Window(service.clone()))
    }

    /// What the store has learnt since may only have reconciled it with those who contradict it, disregarded ones too.
    pub(super) fn recheck_contradicting(&mut self) {
        let Witnesses { against, disregarded, .. } = &self.witnesses;
        let doubters: Vec<_> = against.keys().chain(disregarded.keys()).cloned().collect();
        for (service, node) in &doubters {
            let window = self.window_is_readable(service);
            let Some(of) = self.services.get_mut(service) else { continue };
            let Some(instance) = of.get(node) else { continue };
            let heard = self.witnesses.recheck(service, instance, window.then(|| of.window_at()));
            if !heard.is_marked_on(instance) {
                of.change(node.clone(), None, |instance| heard.mark_on(instance));
            }
        }
    }

    /// Checks every instance: the terms have changed, or an operator has reconciled, or all was loaded.
    pub(super) fn recheck_all(&mut self) {
        if self.loading {
            return;
        }
        let services: Vec<_> = self.services.keys().cloned().collect();
        services.iter().for_each(|service| self.recheck_service(service));
    }

    /// Checks every instance of a service.
    pub(super) fn recheck_service(&mut self, service: &ServiceName) {
        let window = self.window_is_readable(service);
        let Some(of) = self.services.get_mut(service).filter(|_| !self.loading) else { return };
        let mut changed = Vec::new();
        for instance in of.every_instance() {
            let heard = self.witnesses.recheck(service, instance, window.then(|| of.window_at()));
            if !heard.is_marked_on(instance) {
                changed.push((instance.node.clone(), heard));
            }
        }
        for (node, heard) in changed {
            of.change(node, None, |instance| heard.mark_on(instance));
        }
    }

    /// Those of a service that still obey the directives of a former store, and need new ones.
    pub(crate) fn of_a_former_store(&self, service: &ServiceName) -> impl Iterator<Item = &Instance> {
        let named = self.witnesses.former.get(service).into_iter().flatten();
        named.filter_map(|node| self.services.get(service)?.get(node))
    }

    /// Those of a service whose contradiction a person has disregarded.
    pub(crate) fn disregarded_of(&self, service: &ServiceName) -> impl Iterator<Item = &Instance> {
        let of_service = move |(of, instance, _): (&ServiceName, _, _)| (of == service).then_some(instance);
        self.disregarded().filter_map(of_service)
    }

    /// Whether the store knows a term, or a person has reconciled it with one that it does not know.
    pub fn acknowledges_term(&self, term: &TermId) -> bool {
        let reconciled = self.reconciliation().is_some_and(|by| by.terms.contains(term));
        self.witnesses.terms.contains_key(term) || reconciled
    }

    /// The last reconciliation.
    pub fn reconciliation(&self) -> Option<&Stored<Reconciliation>> {
        self.witnesses.reconciled.as_ref()
    }

    /// Every instance that contradicts the store, with what it says.
    pub fn contradicted_by(&self) -> impl Iterator<Item = (&ServiceName, &Instance, &Against)> {
        self.witnesses.against.iter().filter_map(|((service, node), against)| {
            Some((service, self.services.get(service)?.get(node)?, against))
        })
    }

    /// Every instance whose contradiction a person has disregarded, with what it says.
    pub fn disregarded(&self) -> impl Iterator<Item = (&ServiceName, &Instance, &Against)> {
        self.witnesses.disregarded.iter().filter_map(|((service, node), against)| {
            Some((service, self.services.get(service)?.get(node)?, against))
        })
    }

    /// What an instance says against the store.
    pub fn contradiction_of(&self, id: &InstanceId) -> Option<&Against> {
        self.witnesses.against.get(&(id.service.clone(), id.node.clone()))
    }

    /// How far the store is contradicted.
    pub fn contradiction(&self, databases: &BTreeMap<UpgradeId, SchemaFacts>) -> Contradiction {
        if self.witnesses.fell.is_some() || self.unknown_to_store_of_upgrades(databases).next().is_some() {
            return Contradiction::Supported;
        }
        if self.witnesses.against.is_empty() {
            return Contradiction::None;
        }
        let supported = self.is_claimed_by_two_nodes() || mutant::is("claim-of-one-node-is-applied");
        if supported { Contradiction::Supported } else { Contradiction::OneNode }
    }

    /// Whether two nodes say the same against the store: that they obeyed one term which it does not know; or one that it
    /// is behind, and another one anything.
    fn is_claimed_by_two_nodes(&self) -> bool {
        let mut terms: BTreeMap<&TermId, &NodeId> = BTreeMap::new();
        let (mut nodes, mut ahead) = (BTreeSet::new(), false);
        let mut shared = false;
        for (_, instance, against) in self.contradicted_by() {
            nodes.insert(&instance.node);
            let obeyed = instance.report.as_ref().map_or(Revision::ABSENT, |report| report.obeyed().revision);
            ahead |= obeyed > self.revision();
            match against {
                Against::UnknownTerm(term) => {
                    shared |= terms.insert(term, &instance.node).is_some_and(|node| *node != instance.node);
                }
                _ => ahead = true,
            }
        }
        shared || ahead && nodes.len() > 1
    }

    /// Who contradicts the store, each in a sentence, and how many do; at most `most` of the agents are named.
    pub(crate) fn contradictions(
        &self,
        databases: &BTreeMap<UpgradeId, SchemaFacts>,
        most: usize,
    ) -> (Vec<String>, usize) {
        let mut said = Vec::new();
        let fell = self.witnesses.fell.map(|(seen, found)| Against::Fell { seen, found });
        said.extend(fell.map(|against| format!("a coordinator {against}")));
        said.extend(self.unknown_to_store_of_upgrades(databases).map(|(upgrade, term, number)| {
            format!(
                "the database of upgrade {upgrade} obeyed term {term} (number {number}), and the store does \
                 not know that term, or gives no higher number"
            )
        }));
        let others = said.len();
        let named = self.contradicted_by().take(most);
        said.extend(named.map(|(service, instance, against)| {
            format!("{} {against}", InstanceId::new(service.clone(), instance.node.clone()))
        }));
        (said, others + self.witnesses.against.len())
    }

    /// The instances of a service that count as silent because they contradict the store.
    pub(crate) fn contradicting(&self, service: &ServiceName) -> BTreeSet<NodeId> {
        let of_service = self.contradicted_by().filter(|(of, ..)| *of == service);
        let silent = of_service.filter(|(_, instance, _)| instance.known() == Known::Silent);
        silent.map(|(_, instance, _)| instance.node.clone()).collect()
    }
}

impl Witnesses {
    /// Hears what an instance's report says; asked whenever a record that this depends on has changed. `window` is the
    /// mod_revision of the service's window; none = it cannot be read.
    pub(super) fn recheck(
        &mut self,
        service: &ServiceName,
        instance: &Instance,
        window: Option<Revision>,
    ) -> Heard {
        let claim = instance
            .report
            .as_ref()
            .filter(|_| !instance.is_decommissioned())
            .map_or(ReportClaim::Nothing, |report| self.claim(service, instance, report, window));
        let node = &instance.node;
        if !matches!(claim, ReportClaim::Former)
            && let Some(former) = self.former.get_mut(service)
            && former.remove(node)
            && former.is_empty()
        {
            self.former.remove(service);
        }
        if !matches!(claim, ReportClaim::Against(_)) && !self.against.is_empty() {
            self.against.remove(&(service.clone(), node.clone()));
        }
        if !self.disregarded.is_empty() {
            self.disregarded.remove(&(service.clone(), node.clone()));
        }
        let heard = Heard {
            contradicts: matches!(claim, ReportClaim::Against(_)),
            disregarded: matches!(claim, ReportClaim::Disregarded(_)),
        };
        match claim {
            ReportClaim::Nothing => {}
            ReportClaim::Against(against) => {
                self.against.insert((service.clone(), node.clone()), against);
            }
            ReportClaim::Disregarded(against) => {
                self.disregarded.insert((service.clone(), node.clone()), against);
            }
            ReportClaim::Former => {
                self.former.entry(service.clone()).or_default().insert(node.clone());
            }
        }
        heard
    }

    fn claim(
        &self,
        service: &ServiceName,
        instance: &Instance,
        report: &Stored<Report>,
        window: Option<Revision>,
    ) -> ReportClaim {
        let taken_in = report.witness.reconciled;
        // Until the agent has taken the word in, it says what it said to the person who gave it.
        let covered = |by: &Stored<Reconciliation>| {
            by.at != taken_in && by.covers(service, &instance.node, report.obeyed())
        };
        let disregarded = |by: &Stored<Reconciliation>| {
            by.disregarded_claim(service, &instance.node)
                .is_some_and(|claim| claim.is_made_by(report.obeyed()))
        };
        match self.against(instance, report, window) {
            Some(_) if self.reconciled.as_ref().is_some_and(covered) => ReportClaim::Former,
            Some(against) if self.reconciled.as_ref().is_some_and(disregarded) => {
                ReportClaim::Disregarded(against)
            }
            Some(against) => ReportClaim::Against(against),
            None if awaits_new_directive(instance) => ReportClaim::Former,
            // Its agent takes in nothing of the store until a plan includes it.
            None => self
                .overtaken(service, instance, report)
                .map_or(ReportClaim::Nothing, ReportClaim::Disregarded),
        }
    }

    /// The claim of an instance that a person disregarded while the store was behind it.
    fn overtaken(
        &self,
        service: &ServiceName,
        instance: &Instance,
        report: &Stored<Report>,
    ) -> Option<Against> {
        let by = self.reconciled.as_ref()?;
        let obeyed = report.obeyed();
        by.record
            .body
            .disregards_later(service, &instance.node, by.at, obeyed)
            .then_some(Against::Overtaken { obeyed: obeyed.revision })
    }

    fn against(
        &self,
        instance: &Instance,
        report: &Stored<Report>,
        window: Option<Revision>,
    ) -> Option<Against> {
        let witness = &report.witness;
        let ahead = |record, holds, found| Against::Ahead { record, holds, found };
        let word = self.reconciled.as_ref().map_or(Revision::ABSENT, |by| by.at);
        if witness.reconciled > word {
            return Some(ahead("reconciliation", witness.reconciled, word));
        }
        if let Some(term) = &witness.term {
            let Some(begun) = self.terms.get(term) else { return Some(Against::UnknownTerm(term.clone())) };
            let next = self.begun.range((Excluded(begun), Unbounded)).next();
            if next.is_some_and(|next| report.generation >= *next) {
                return Some(Against::EndedTerm(term.clone()));
            }
        }
        // A directive that a person removed is none that is older; a window is never removed.
        let directive = instance.directive.as_ref().map(|stored| ("directive", report.generation, stored.at));
        let window = window.map(|found| ("window", report.window, found));
        let mut later = directive.into_iter().chain(window);
        let later = later.find(|(_, holds, found)| holds > found && *holds != witness.reconciled);
        later.map(|(record, holds, found)| ahead(record, holds, found))
    }
}

/// Whether its agent has accepted a reconciliation, and the store's directive for it is older than that: the agent
/// obeys the last directive that it accepted, whichever that was, until it gets a new one.
pub(crate) fn awaits_new_directive(instance: &Instance) -> bool {
    let Some(report) = &instance.report else { return false };
    report.witness.reconciled.exists()
        && report.generation == report.witness.reconciled
        && instance.directive.as_ref().is_some_and(|directive| directive.at < report.generation)
}
