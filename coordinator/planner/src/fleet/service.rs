//! The instances of one service, with their indexes: every question that a turn asks is answered from a group that
//! was kept while records changed, so a turn costs what has changed, not what there is.

mod query;

use super::index::{Facets, Index, View};
use super::instance::Instance;
use super::place::{Moved, Place, Places};
use super::sample::Sample;
use super::stored::Stored;
use crate::spread::Spread;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use tidegate_proto::key::Kind;
use tidegate_proto::record::window::Window;
use tidegate_proto::{NodeId, Revision, ServiceName, UpgradeId};

/// What names are hashed with: without dice, so that two coordinators that saw the same do the same.
const HASHER: FixedState = FixedState::with_seed(0);

/// An instance, and its group in each index.
#[derive(Debug, Clone)]
struct Member {
    facets: Facets,
    instance: Instance,
}

/// One service.
#[derive(Debug, Clone)]
pub struct ServiceFleet {
    name: ServiceName,
    window: Option<Stored<Window>>,
    budget: Revision,
    /// By slot: in the order in which nodes came.
    members: Vec<Member>,
    /// The slots, by the hash of the names: a search by name itself touches memory at seventeen places among 100,000.
    /// Their order here has no meaning: iteration goes by the places.
    slots: HashTable<u32>,
    places: Places,
    view: Option<View>,
    index: Index,
    /// Whether places and index are left as they are until `loaded`.
    loading: bool,
}

/// Some instances, in their order, and how many they are.
#[derive(Debug, Clone)]
pub struct Matching<I> {
    /// How many.
    pub count: usize,
    /// Each of them.
    pub each: I,
}

impl<'a, I: Iterator<Item = &'a Instance>> Matching<I> {
    /// The first names of them.
    pub fn sample(self) -> Sample {
        Sample::of(self.each.map(|instance| &instance.node), self.count)
    }

    /// The first names of those that are not skipped; `among` is the number of skipped ones.
    pub fn sample_but(self, left_out: impl Fn(&NodeId) -> bool, among: usize) -> Sample {
        let names = self.each.map(|instance| &instance.node);
        Sample::of(names.filter(|node| !left_out(node)), self.count - among)
    }
}

impl ServiceFleet {
    pub(super) fn new(name: ServiceName, loading: bool) -> Self {
        Self {
            name,
            window: None,
            budget: Revision::ABSENT,
            members: Vec::new(),
            slots: HashTable::new(),
            places: Places::default(),
            view: None,
            index: Index::default(),
            loading,
        }
    }

    pub(super) fn set_window(&mut self, window: Option<Stored<Window>>) {
        self.window = window;
    }

    pub(super) fn set_budget(&mut self, at: Revision) {
        self.budget = at;
    }

    /// Changes an instance, which one record of it (none: something else) does; gives it back as it is then.
    pub(super) fn change(
        &mut self,
        node: NodeId,
        changed: Option<Kind>,
        change: impl FnOnce(&mut Instance),
    ) -> &Instance {
        let slot = self.slot(node);
        let member = &mut self.members[slot];
        change(&mut member.instance);
        if !self.loading {
            let after = member.facets.after(changed, &member.instance, self.view.as_ref());
            if member.facets != after {
                self.index.change(self.places.of(slot), &member.facets, &after);
                member.facets = after;
            }
        }
        &self.members[slot].instance
    }

    /// The slot of a name, if it has left any trace.
    fn found(&self, node: &NodeId) -> Option<usize> {
        let is = |slot: &u32| self.members[*slot as usize].instance.node == *node;
        self.slots.find(HASHER.hash_one(node), is).map(|slot| *slot as usize)
    }

    /// The slot of a name; a new one has left no trace yet.
    fn slot(&mut self, node: NodeId) -> usize {
        if let Some(slot) = self.found(&node) {
            return slot;
        }
        let slot = self.members.len();
        let instance = Instance::new(node.clone());
        let facets = Facets::of(&instance, self.view.as_ref());
        self.members.push(Member { facets, instance });
        let members = &self.members;
        self.slots.insert_unique(HASHER.hash_one(&node), slot as u32, |slot| {
            HASHER.hash_one(&members[*slot as usize].instance.node)
        });
        if self.loading {
            // All are placed when all are there.
            return slot;
        }
        let moved = self.places.place(node);
        // All leave before any comes: one may take another's former place.
        for Moved { slot, from, .. } in &moved {
            self.index.leave(*from, &self.members[*slot].facets);
        }
        for Moved { slot, to, .. } in &moved {
            self.index.enter(*to, &self.members[*slot].facets);
        }
        slot
    }

    pub(super) fn set_view(
        &mut self,
        view: Option<View>,
        assigned: impl Fn(&UpgradeId) -> Vec<(NodeId, u32)>,
    ) {
        let upgrade = |view: &Option<View>| view.as_ref().map(|v| v.upgrade.clone());
        if self.view == view {
            return;
        }
        if upgrade(&self.view) != upgrade(&view) {
            for member in &mut self.members {
                member.instance.wave = None;
            }
            for (node, wave) in view.iter().flat_map(|v| assigned(&v.upgrade)) {
                let slot = self.slot(node);
                self.members[slot].instance.wave = Some(wave);
            }
        }
        self.view = view;
        self.recount();
    }

    /// Everything that was to be loaded is: from now on places and index follow each change.
    pub(super) fn loaded(&mut self) {
        self.loading = false;
        self.places = Places::of_all(self.members.iter().map(|member| member.instance.node.clone()));
        self.recount();
    }

    fn recount(&mut self) {
        if self.loading {
            return;
        }
        for member in &mut self.members {
            member.facets = Facets::of(&member.instance, self.view.as_ref());
        }
        self.index = self.counted();
    }

    fn counted(&self) -> Index {
        let mut index = Index::default();
        for slot in self.places.iter() {
            index.enter(self.places.of(slot), &self.members[slot].facets);
        }
        index
    }

    /// Whether the index is what a recount of every instance gives, and every place that of its name. For tests: it
    /// always is.
    pub fn index_is_true(&self) -> bool {
        let is_true = |slot: usize| {
            let member = &self.members[slot];
            self.found(&member.instance.node) == Some(slot)
                && self.places.slot(self.places.of(slot)) == slot
                && member.facets == Facets::of(&member.instance, self.view.as_ref())
        };
        let names: Vec<&NodeId> = self.every_instance().map(|instance| &instance.node).collect();
        names.is_sorted_by(|a, b| a < b)
            && names.len() == self.members.len()
            && self.places.iter().all(is_true)
            && self.index == self.counted()
    }

    /// Its name.
    pub fn name(&self) -> &ServiceName {
        &self.name
    }

    /// The versions that may be admitted; none = any.
    pub fn window(&self) -> Option<&Stored<Window>> {
        self.window.as_ref()
    }

    /// The mod_revision of the window, for preconditions.
    pub fn window_at(&self) -> Revision {
        self.window.as_ref().map_or(Revision::ABSENT, |window| window.at)
    }

    /// The mod_revision of the budget key, for preconditions.
    pub fn budget_at(&self) -> Revision {
        self.budget
    }

    /// One instance.
    pub fn get(&self, node: &NodeId) -> Option<&Instance> {
        self.found(node).map(|slot| &self.members[slot].instance)
    }

    fn at(&self, place: Place) -> &Instance {
        &self.members[self.places.slot(place)].instance
    }

    /// Every instance that counts, by node.
    pub fn instances(&self) -> impl Iterator<Item = &Instance> {
        self.every_instance().filter(|instance| instance.counts())
    }

    /// Every instance that ever left a trace, decommissioned ones too.
    pub fn every_instance(&self) -> impl Iterator<Item = &Instance> {
        self.places.iter().map(|slot| &self.members[slot].instance)
    }

    /// How many count.
    pub fn len(&self) -> usize {
        self.index.counting
    }

    /// Whether none counts.
    pub fn is_empty(&self) -> bool {
        self.index.counting == 0
    }

    /// How many at each version.
    pub fn spread(&self) -> &Spread {
        &self.index.spread
    }
}
