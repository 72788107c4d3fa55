//! The instances of one service, with their indexes: every question that a turn asks is answered from a set that
//! was kept while records changed, so a turn costs what has changed, not what there is.

use super::Stored;
use super::index::{Facets, Index, View};
use super::instance::Instance;
use crate::spread::Spread;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasherDefault;
use tidegate_proto::record::window::Window;
use tidegate_proto::{NodeId, Revision, ServiceName, UpgradeId};

/// Found by a hash without dice, because a search by name touches memory at seventeen places among 100,000. Its order
/// is nobody's: whoever goes through all of them goes by the names.
type Members = HashMap<NodeId, Box<Member>, BuildHasherDefault<DefaultHasher>>;

/// An instance, and where it stands in each index.
#[derive(Debug, Clone)]
struct Member {
    instance: Instance,
    facets: Facets,
}

impl Member {
    fn new(instance: Instance, view: Option<&View>) -> Box<Self> {
        let facets = Facets::of(&instance, view);
        Box::new(Self { instance, facets })
    }
}

/// One service.
#[derive(Debug, Clone)]
pub struct ServiceFleet {
    name: ServiceName,
    window: Option<Stored<Window>>,
    budget: Revision,
    members: Members,
    names: BTreeSet<NodeId>,
    view: Option<View>,
    index: Index,
}

impl ServiceFleet {
    pub(super) fn new(name: ServiceName) -> Self {
        Self {
            name,
            window: None,
            budget: Revision::ABSENT,
            members: Members::default(),
            names: BTreeSet::new(),
            view: None,
            index: Index::default(),
        }
    }

    pub(super) fn set_window(&mut self, window: Option<Stored<Window>>) {
        self.window = window;
    }

    pub(super) fn set_budget(&mut self, at: Revision) {
        self.budget = at;
    }

    pub(super) fn change(&mut self, node: NodeId, change: impl FnOnce(&mut Instance)) {
        let view = self.view.as_ref();
        let member = member(&mut self.members, &mut self.names, node, view);
        change(&mut member.instance);
        let after = Facets::of(&member.instance, view);
        if member.facets != after {
            self.index.shift(&member.instance.node, &member.facets, &after);
            member.facets = after;
        }
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
            for member in self.members.values_mut() {
                member.instance.wave = None;
            }
            for (node, wave) in view.iter().flat_map(|v| assigned(&v.upgrade)) {
                let member = member(&mut self.members, &mut self.names, node, None);
                member.instance.wave = Some(wave);
            }
        }
        self.view = view;
        self.index = Index::default();
        for (node, member) in &mut self.members {
            member.facets = Facets::of(&member.instance, self.view.as_ref());
            self.index.apply(node, &member.facets, true);
        }
    }

    /// Whether the index is what a recount of every instance gives. For tests: it always is.
    pub fn index_is_true(&self) -> bool {
        let mut recount = Index::default();
        for (node, member) in &self.members {
            recount.apply(node, &Facets::of(&member.instance, self.view.as_ref()), true);
        }
        self.index == recount && self.names.iter().eq(self.members.keys().collect::<BTreeSet<_>>())
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
        self.members.get(node).map(|member| &member.instance)
    }

    /// Every instance that counts, by node.
    pub fn instances(&self) -> impl Iterator<Item = &Instance> {
        self.every_instance().filter(|instance| instance.counts())
    }

    /// Every instance that ever left a trace, decommissioned ones too.
    pub fn every_instance(&self) -> impl Iterator<Item = &Instance> {
        self.names.iter().filter_map(|node| self.get(node))
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
    pub fn silent(&self) -> &BTreeSet<NodeId> {
        &self.index.silent
    }

    /// Those that report without a known version.
    pub fn unknown(&self) -> &BTreeSet<NodeId> {
        &self.index.unknown
    }

    /// Those known to be below a version.
    pub fn below(&self, version: tidegate_proto::ServiceVersion) -> impl Iterator<Item = &NodeId> {
        self.index.by_version.range(..version).flat_map(|(_, nodes)| nodes)
    }

    /// Those known to be above a version.
    pub fn above(&self, version: tidegate_proto::ServiceVersion) -> impl Iterator<Item = &NodeId> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.index.by_version.range((Excluded(version), Unbounded)).flat_map(|(_, nodes)| nodes)
    }

    /// Those that, by what is observed, serve nobody: broken, silent, maintained or ordered out.
    pub fn out(&self) -> &BTreeSet<NodeId> {
        &self.index.out
    }

    /// How many are in rotation and healthy.
    pub fn in_service(&self) -> usize {
        self.index.counting - self.index.out.len()
    }

    /// Those that have not acknowledged the window as it stands; nobody where there is none.
    pub fn unacknowledged(&self) -> impl Iterator<Item = &NodeId> {
        self.index.acknowledged.range(..self.window_at()).flat_map(|(_, nodes)| nodes)
    }

    /// Those that an upgrade has not seen serving its target, up to and including a wave, by wave.
    pub fn todo_up_to(&self, wave: u32) -> impl DoubleEndedIterator<Item = &NodeId> {
        self.index.todo.range(..=wave).flat_map(|(_, nodes)| nodes)
    }

    /// Those of one wave that an upgrade has not seen serving its target.
    pub fn todo_in(&self, wave: u32) -> usize {
        self.index.todo.get(&wave).map_or(0, BTreeSet::len)
    }

    /// Whether anybody counts in a wave after this one.
    pub fn has_waves_after(&self, wave: u32) -> bool {
        self.index.in_wave.range(wave + 1..).next().is_some()
    }

    /// How many count in a wave.
    pub fn in_wave(&self, wave: u32) -> usize {
        self.index.in_wave.get(&wave).copied().unwrap_or(0)
    }

    /// How many were seen serving the target.
    pub fn done(&self) -> usize {
        self.index.counting - self.index.todo_count
    }

    /// Those that a directive has taken out and no report has shown back.
    pub fn ordered(&self) -> &BTreeSet<NodeId> {
        &self.index.ordered
    }

    /// Those whose directive does not yet name the releases that the active upgrade wants present.
    pub fn misdirected(&self) -> &BTreeSet<NodeId> {
        &self.index.misdirected
    }

    /// Those whose nodes lack a release that the active upgrade wants present.
    pub fn unstaged(&self) -> &BTreeSet<NodeId> {
        &self.index.unstaged
    }

    /// Those whose nodes hold releases that the active upgrade does not want present.
    pub fn cluttered(&self) -> &BTreeSet<NodeId> {
        &self.index.cluttered
    }

    /// The failure domains of which something is out, by the label that the active upgrade names; under `NO_DOMAIN`
    /// those without it.
    pub fn domains_out(&self) -> &BTreeMap<String, usize> {
        &self.index.domains_out
    }
}

/// The member of a name; a new one has left no trace yet.
fn member<'a>(
    members: &'a mut Members,
    names: &mut BTreeSet<NodeId>,
    node: NodeId,
    view: Option<&View>,
) -> &'a mut Member {
    match members.entry(node) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(new) => {
            let node = new.key().clone();
            names.insert(node.clone());
            new.insert(Member::new(Instance::new(node), view))
        }
    }
}
