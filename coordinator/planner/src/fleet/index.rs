//! The sets and counts over the instances of one service, kept while records change.
//!
//! # Invariants
//! * What they hold is what a count of every instance would give, after any sequence of changes.

use super::instance::{Instance, Known};
use crate::spread::Spread;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::{NodeId, Release, Revision, ServiceVersion, UpgradeId};

/// The failure domain of an instance without the label, or with an empty one: unknown, so it conflicts with all.
pub const NO_DOMAIN: &str = "";

/// What the active upgrade asks, by which instances are indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    pub(super) upgrade: UpgradeId,
    pub(super) target: Release,
    pub(super) releases: Vec<Release>,
    pub(super) domain: Option<String>,
    pub(super) last_wave: u32,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Index {
    pub(super) counting: usize,
    pub(super) spread: Spread,
    pub(super) silent: BTreeSet<NodeId>,
    pub(super) unknown: BTreeSet<NodeId>,
    pub(super) by_version: BTreeMap<ServiceVersion, BTreeSet<NodeId>>,
    pub(super) out: BTreeSet<NodeId>,
    pub(super) acknowledged: BTreeMap<Revision, BTreeSet<NodeId>>,
    pub(super) todo: BTreeMap<u32, BTreeSet<NodeId>>,
    pub(super) todo_count: usize,
    pub(super) in_wave: BTreeMap<u32, usize>,
    pub(super) ordered: BTreeSet<NodeId>,
    pub(super) unstaged: BTreeSet<NodeId>,
    pub(super) cluttered: BTreeSet<NodeId>,
    pub(super) misdirected: BTreeSet<NodeId>,
    pub(super) domains_out: BTreeMap<String, usize>,
}

/// Where an instance stands in each index: computed from the instance alone, compared to move it between sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facets {
    counts: bool,
    known: Known,
    out: bool,
    acknowledged: Revision,
    wave: u32,
    todo: bool,
    ordered: bool,
    unstaged: bool,
    cluttered: bool,
    misdirected: bool,
    domain: Option<String>,
}

impl Facets {
    pub(super) fn of(instance: &Instance, view: Option<&View>) -> Self {
        let in_service = instance.is_in_service();
        Self {
            counts: instance.counts(),
            known: instance.known(),
            out: !in_service,
            acknowledged: instance.report.as_ref().map_or(Revision::ABSENT, |report| report.window),
            wave: view.map_or(0, |v| instance.wave.unwrap_or(v.last_wave)),
            todo: view.is_some_and(|v| !instance.serves(&v.target)),
            ordered: instance.is_under_order() && !in_service,
            unstaged: view.is_some_and(|v| !instance.has_staged(&v.releases)),
            cluttered: view.is_some_and(|v| instance.has_others_than(&v.releases)),
            misdirected: view
                .is_some_and(|v| !v.releases.is_empty() && !instance.is_directed_to(&v.upgrade, &v.releases)),
            domain: view
                .and_then(|v| v.domain.as_deref())
                .map(|label| instance.label(label).unwrap_or(NO_DOMAIN).to_owned()),
        }
    }
}

fn put(set: &mut BTreeSet<NodeId>, node: &NodeId, member: bool) {
    if member {
        set.insert(node.clone());
    } else {
        set.remove(node);
    }
}

/// The same among sets by a key; a set that has become empty is dropped, so that what remains is what there is.
fn put_by<K: Ord>(sets: &mut BTreeMap<K, BTreeSet<NodeId>>, key: K, node: &NodeId, member: bool) {
    if member {
        sets.entry(key).or_default().insert(node.clone());
    } else if let Some(set) = sets.get_mut(&key) {
        set.remove(node);
        if set.is_empty() {
            sets.remove(&key);
        }
    }
}

/// Counts by a key; a count of 0 is dropped.
fn count_by<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K, enter: bool) {
    use std::collections::btree_map::Entry;
    match counts.entry(key) {
        Entry::Vacant(none) => drop(none.insert(usize::from(enter))),
        Entry::Occupied(last) if !enter && *last.get() == 1 => drop(last.remove()),
        Entry::Occupied(mut some) => count(some.get_mut(), enter),
    }
}

fn count(count: &mut usize, enter: bool) {
    if enter { *count += 1 } else { *count -= 1 }
}

impl Index {
    /// Counts an instance in, or out.
    pub(super) fn apply(&mut self, node: &NodeId, facets: &Facets, enter: bool) {
        if !facets.counts {
            return;
        }
        count(&mut self.counting, enter);
        self.known(node, facets, enter);
        self.acknowledged(node, facets, enter);
        self.wave(facets, enter);
        self.todo(node, facets, enter);
        self.domain(facets, enter);
        for (set, member) in self.sets(facets) {
            if member {
                put(set, node, enter);
            }
        }
    }

    /// Moves an instance: only where it stands otherwise than before, for each move costs a search among all.
    pub(super) fn shift(&mut self, node: &NodeId, before: &Facets, after: &Facets) {
        if !(before.counts && after.counts) {
            self.apply(node, before, false);
            self.apply(node, after, true);
            return;
        }
        for (facets, enter) in [(before, false), (after, true)] {
            if before.known != after.known {
                self.known(node, facets, enter);
            }
            if before.acknowledged != after.acknowledged {
                self.acknowledged(node, facets, enter);
            }
            if before.wave != after.wave {
                self.wave(facets, enter);
            }
            if (before.todo, before.wave) != (after.todo, after.wave) {
                self.todo(node, facets, enter);
            }
            if (before.out, &before.domain) != (after.out, &after.domain) {
                self.domain(facets, enter);
            }
        }
        let was = [before.out, before.ordered, before.unstaged, before.cluttered, before.misdirected];
        for ((set, is), was) in self.sets(after).into_iter().zip(was) {
            if is != was {
                put(set, node, is);
            }
        }
    }

    /// The sets that an instance is in or not, each with whether it is; in the order that `shift` lists them.
    fn sets(&mut self, facets: &Facets) -> [(&mut BTreeSet<NodeId>, bool); 5] {
        [
            (&mut self.out, facets.out),
            (&mut self.ordered, facets.ordered),
            (&mut self.unstaged, facets.unstaged),
            (&mut self.cluttered, facets.cluttered),
            (&mut self.misdirected, facets.misdirected),
        ]
    }

    fn known(&mut self, node: &NodeId, facets: &Facets, enter: bool) {
        self.spread.count(facets.known, enter);
        match facets.known {
            Known::Silent => put(&mut self.silent, node, enter),
            Known::Unknown => put(&mut self.unknown, node, enter),
            Known::At(version) => put_by(&mut self.by_version, version, node, enter),
        }
    }

    fn acknowledged(&mut self, node: &NodeId, facets: &Facets, enter: bool) {
        put_by(&mut self.acknowledged, facets.acknowledged, node, enter);
    }

    fn wave(&mut self, facets: &Facets, enter: bool) {
        count_by(&mut self.in_wave, facets.wave, enter);
    }

    fn todo(&mut self, node: &NodeId, facets: &Facets, enter: bool) {
        if facets.todo {
            put_by(&mut self.todo, facets.wave, node, enter);
            count(&mut self.todo_count, enter);
        }
    }

    fn domain(&mut self, facets: &Facets, enter: bool) {
        if let Some(domain) = facets.domain.as_ref().filter(|_| facets.out) {
            count_by(&mut self.domains_out, domain.clone(), enter);
        }
    }
}
