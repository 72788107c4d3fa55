//! The instances of one service, with their indexes: every question that a turn asks is answered from a group that
//! was kept while records changed, so a turn costs what has changed, not what there is.

use super::Stored;
use super::group::{Groups, Tally};
use super::index::{Facets, Index, NO_DOMAIN, Standing, View};
use super::instance::{Instance, Known};
use super::place::{Moved, Place, Places};
use crate::reason::Sample;
use crate::spread::Spread;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::RangeBounds;
use std::sync::Arc;
use tidegate_proto::key::Kind;
use tidegate_proto::record::window::Window;
use tidegate_proto::{NodeId, Revision, ServiceName, ServiceVersion, UpgradeId};

/// What names are hashed with: without dice, so that two coordinators that saw the same do the same.
const HASHER: FixedState = FixedState::with_seed(0);

/// An instance, and where it stands in each index.
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
    /// Their order here is nobody's: whoever goes through all of them goes by the places.
    slots: HashTable<u32>,
    places: Places,
    view: Option<View>,
    index: Index,
    /// Whether places and index are left as they are until `loaded`.
    loading: bool,
}

/// Some instances, in their order, and how many they are.
#[derive(Debug, Clone)]
pub struct Those<I> {
    /// How many.
    pub count: usize,
    /// Each of them.
    pub each: I,
}

impl<'a, I: Iterator<Item = &'a Instance>> Those<I> {
    /// The first names of them.
    pub fn sample(self) -> Sample {
        Sample::of(self.each.map(|instance| &instance.node), self.count)
    }

    /// The first names of those that are not excused; so many of the excused are among them.
    pub fn sample_but(self, excused: impl Fn(&NodeId) -> bool, among: usize) -> Sample {
        let names = self.each.map(|instance| &instance.node);
        Sample::of(names.filter(|node| !excused(node)), self.count - among)
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
        // All leave before any comes: one may come where another stood.
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
        self.count_anew();
    }

    /// Everything that was to be loaded is: from now on places and index follow each change.
    pub(super) fn loaded(&mut self) {
        self.loading = false;
        self.places = Places::of_all(self.members.iter().map(|member| member.instance.node.clone()));
        self.count_anew();
    }

    fn count_anew(&mut self) {
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

    /// Those that fell silent.
    pub fn silent(&self) -> Those<impl DoubleEndedIterator<Item = &Instance>> {
        self.known(Known::Silent..=Known::Silent)
    }

    /// Those that report without a known version.
    pub fn unknown(&self) -> Those<impl DoubleEndedIterator<Item = &Instance>> {
        self.known(Known::Unknown..=Known::Unknown)
    }

    /// Those known to be below a version.
    pub fn below(&self, version: ServiceVersion) -> Those<impl DoubleEndedIterator<Item = &Instance>> {
        self.known((Excluded(Known::Unknown), Excluded(Known::At(version))))
    }

    /// Those known to be above a version.
    pub fn above(&self, version: ServiceVersion) -> Those<impl DoubleEndedIterator<Item = &Instance>> {
        self.known((Excluded(Known::At(version)), Unbounded))
    }

    fn known(
        &self,
        range: impl RangeBounds<Known> + Clone,
    ) -> Those<impl DoubleEndedIterator<Item = &Instance>> {
        those(self, &self.index.known, range)
    }

    /// Those not in service, by what is observed: unhealthy, silent, in maintenance or ordered out.
    pub fn out(&self) -> Those<impl DoubleEndedIterator<Item = &Instance>> {
        those(self, &self.index.out, ..)
    }

    /// How many are in rotation, healthy or not, and not ordered out.
    pub fn in_rotation(&self) -> usize {
        self.index.in_rotation
    }

    /// How many are in rotation and healthy, whatever version they run.
    pub fn well(&self) -> usize {
        self.index.well
    }

    /// In how many failure domains something is not healthy in rotation, by the label that the active upgrade names. Each
    /// without the label is one of its own.
    pub fn domains_unwell(&self) -> usize {
        domains_in(&self.index.domains_unwell)
    }

    /// How many get no requests: out of rotation by evidence, by a person or by an order; on their way in or out; or
    /// silent.
    pub fn away(&self) -> usize {
        self.index.away
    }

    /// In how many failure domains something gets no requests, by the label that the active upgrade names. Each without the
    /// label is one of its own.
    pub fn count_of_domains_away(&self) -> usize {
        domains_in(&self.index.domains_away)
    }

    /// The failure domains of which something gets no requests, by the label that the active upgrade names; under
    /// `NO_DOMAIN` those without it.
    pub fn domains_away(&self) -> impl Iterator<Item = &str> {
        self.index.domains_away.keys().map(|domain| &**domain)
    }

    /// How many are in rotation and healthy.
    pub fn in_service(&self) -> usize {
        self.index.counting - self.index.out.count(..)
    }

    /// Those that have not acknowledged the window as it stands; nobody where there is none.
    pub fn unacknowledged(&self) -> Those<impl DoubleEndedIterator<Item = &Instance>> {
        those(self, &self.index.acknowledged, ..self.window_at())
    }

    /// Those that an upgrade has not seen serving its target and that stand to it like this, up to and including a
    /// wave, by wave. Of those under order all, whatever their wave.
    pub fn standing(
        &self,
        standing: Standing,
        wave: u32,
    ) -> Those<impl DoubleEndedIterator<Item = &Instance>> {
        those(self, &self.index.standing, (standing, 0)..=(standing, wave))
    }

    /// Each of the same, where nobody asks how many they are: that takes a look at each wave.
    pub fn each_standing(&self, standing: Standing, wave: u32) -> impl DoubleEndedIterator<Item = &Instance> {
        self.index.standing.places((standing, 0)..=(standing, wave)).map(|place| self.at(place))
    }

    /// How one instance stands to the upgrade, and its wave; none where it was seen serving the target.
    pub fn standing_of(&self, node: &NodeId) -> Option<(Standing, u32)> {
        self.members[self.found(node)?].facets.stands()
    }

    /// Those that a directive has taken out and no report has shown back.
    pub fn ordered(&self) -> Those<impl DoubleEndedIterator<Item = &Instance>> {
        self.standing(Standing::Ordered, 0)
    }

    /// Whether anybody counts in a wave after this one.
    pub fn has_waves_after(&self, wave: u32) -> bool {
        self.index.in_wave.reaches(wave + 1)
    }

    /// How many count in a wave.
    pub fn in_wave(&self, wave: u32) -> usize {
        self.index.in_wave.of(&wave)
    }

    /// How many of a wave were seen serving the target.
    pub fn done_in(&self, wave: u32) -> usize {
        self.index.done_in.of(&wave)
    }

    /// How many were seen serving the target; all where nothing is asked of them.
    pub fn done(&self) -> usize {
        if self.view.is_some() { self.index.done } else { self.index.counting }
    }

    /// Those whose directive does not yet name the releases that the active upgrade wants present.
    pub fn misdirected(&self) -> Those<impl DoubleEndedIterator<Item = &Instance>> {
        those(self, &self.index.misdirected, ..)
    }

    /// Those that report, and whose nodes lack a release that the active upgrade wants present.
    pub fn unstaged(&self) -> Those<impl DoubleEndedIterator<Item = &Instance>> {
        those(self, &self.index.unstaged, false..=false)
    }

    /// Whether the node of one instance lacks such a release.
    pub fn is_unstaged(&self, node: &NodeId) -> bool {
        self.found(node).is_some_and(|slot| self.members[slot].facets.is_unstaged())
    }

    /// Those that are silent, and whose nodes lack such a release as far as is known.
    pub fn unstaged_silent(&self) -> Those<impl DoubleEndedIterator<Item = &Instance>> {
        those(self, &self.index.unstaged, true..=true)
    }

    /// Those that are unstaged and say that a release could not be staged or removed.
    pub fn stage_failed(&self) -> Those<impl DoubleEndedIterator<Item = &Instance>> {
        those(self, &self.index.stage_failed, ..)
    }

    /// Those that report, run something else than the target, and whose nodes lack it.
    pub fn stranded(&self) -> Those<impl DoubleEndedIterator<Item = &Instance>> {
        those(self, &self.index.stranded, ..)
    }

    /// Those whose nodes hold releases that the active upgrade does not want present.
    pub fn cluttered(&self) -> Those<impl DoubleEndedIterator<Item = &Instance>> {
        those(self, &self.index.cluttered, ..)
    }

    /// Those that report a fault since they were verified, where no person keeps them out.
    pub fn faulty(&self) -> Those<impl DoubleEndedIterator<Item = &Instance>> {
        those(self, &self.index.faulty, ..)
    }

    /// Those that report although they were decommissioned: the tombstone is void, and still there.
    pub fn returned(&self) -> Those<impl DoubleEndedIterator<Item = &Instance>> {
        those(self, &self.index.returned, ..)
    }

    /// The failure domains of which something is out, by the label that the active upgrade names; under `NO_DOMAIN`
    /// those without it.
    pub fn domains_out(&self) -> impl Iterator<Item = &str> {
        self.index.domains_out.keys().map(|domain| &**domain)
    }

    /// Those that are out and lack the label that the active upgrade names.
    pub fn unlabelled_out(&self) -> Those<impl DoubleEndedIterator<Item = &Instance>> {
        those(self, &self.index.unlabelled_out, ..)
    }
}

/// Each without the label may be in any domain: it counts as one of its own.
fn domains_in(domains: &Tally<Arc<str>>) -> usize {
    let unlabelled = domains.of(&Arc::from(NO_DOMAIN));
    domains.keys().count() - usize::from(unlabelled > 0) + unlabelled
}

fn those<'a, K: Ord + Copy>(
    service: &'a ServiceFleet,
    groups: &'a Groups<K>,
    range: impl RangeBounds<K> + Clone,
) -> Those<impl DoubleEndedIterator<Item = &'a Instance>> {
    Those { count: groups.count(range.clone()), each: groups.places(range).map(|place| service.at(place)) }
}
