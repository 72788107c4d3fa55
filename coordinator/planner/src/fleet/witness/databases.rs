//! Databases as witnesses: each keeps the last term that it obeyed, with a number that only rises.

use crate::fleet::Fleet;
use crate::moment::SchemaFacts;
use std::collections::BTreeMap;
use tidegate_proto::{Revision, TermId, UpgradeId};

impl Fleet {
    /// Whether a database that keeps this number for a term may obey this store: the store acknowledges the term, and
    /// its last leader gives a higher number, or gave this one. The number of a known term may be higher where it counts
    /// on from a store that was lost before: agents name only the term.
    pub fn acknowledges_database(&self, term: &TermId, number: Revision) -> bool {
        let former = self.reconciliation().map_or(Revision::ABSENT, |by| by.revision);
        // A term whose record cannot be read may have begun as late as that was written.
        let given = self.witnesses.terms.get(term).copied();
        let last = given.max(self.witnesses.begun.last().copied());
        let is_last = given.is_some() && given == last;
        let obeys = |ours: Revision| number < ours || number == ours && is_last;
        // Where there is no sum, no term can be given to the database: that is refused with its own advice.
        let ours = former.checked_add(last.unwrap_or(Revision::ABSENT));
        self.acknowledges_term(term) && ours.is_none_or(obeys)
    }

    /// Whether the terms of this store can be counted on from the revision that its reconciliation names. A plan to reconcile
    /// takes that out of the record otherwise.
    pub(crate) fn counts_on(&self) -> bool {
        self.reconciliation().is_none_or(|by| self.revision().may_follow(by.revision))
    }

    /// The databases that the store does not acknowledge, each with the term that it obeyed and the number that it
    /// keeps for it. One that no store can have given is no witness.
    pub fn unknown_to_store<'a>(
        &'a self,
        databases: &'a BTreeMap<UpgradeId, SchemaFacts>,
    ) -> impl Iterator<Item = (&'a UpgradeId, &'a TermId, Revision)> {
        let obeyed = databases.iter().filter_map(|(id, facts)| Some((id, facts.obeyed.as_ref()?)));
        obeyed
            .filter(|(_, (_, number))| self.revision().may_follow(*number))
            .filter(|(_, (term, number))| !self.acknowledges_database(term, *number))
            .map(|(upgrade, (term, number))| (upgrade, term, *number))
    }

    /// The same of the databases of upgrades. The database of a start that was refused is heard by a reconciliation
    /// alone and stops nothing: its URL may be wrong.
    pub(super) fn unknown_to_store_of_upgrades<'a>(
        &'a self,
        databases: &'a BTreeMap<UpgradeId, SchemaFacts>,
    ) -> impl Iterator<Item = (&'a UpgradeId, &'a TermId, Revision)> {
        self.unknown_to_store(databases).filter(|(upgrade, ..)| self.upgrade(upgrade).is_some())
    }
}
