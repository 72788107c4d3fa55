//! The instances of one service, with their indexes: every question that a turn asks is answered from a set that
//! was kept while records changed, so a turn costs what has changed, not what there is.

use super::Stored;
use super::instance::{Instance, Known};
use crate::spread::Spread;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::record::window::Window;
use tidegate_proto::{NodeId, Release, Revision, ServiceName, UpgradeId};

/// What the active upgrade asks, by which instances are indexed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    pub(super) upgrade: UpgradeId,
    pub(super) target: Release,
    pub(super) releases: Vec<Release>,
    pub(super) domain: Option<String>,
    pub(super) last_wave: u32,
}

/// One service.
#[derive(Debug, Clone)]
pub struct ServiceFleet {
    name: ServiceName,
    window: Option<Stored<Window>>,
    budget: Revision,
    instances: BTreeMap<NodeId, Instance>,
    view: Option<View>,
    index: Index,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Index {
    counting: usize,
    spread: Spread,
    silent: BTreeSet<NodeId>,
    unknown: BTreeSet<NodeId>,
    by_version: BTreeMap<tidegate_proto::ServiceVersion, BTreeSet<NodeId>>,
    out: BTreeSet<NodeId>,
    acknowledged: BTreeMap<Revision, BTreeSet<NodeId>>,
    todo: BTreeMap<u32, BTreeSet<NodeId>>,
    todo_count: usize,
    in_wave: BTreeMap<u32, usize>,
    ordered: BTreeSet<NodeId>,
    unstaged: BTreeSet<NodeId>,
    cluttered: BTreeSet<NodeId>,
    misdirected: BTreeSet<NodeId>,
    domains_out: BTreeMap<String, usize>,
}

/// Where an instance stands in each index: computed from the instance alone, compared to move it between sets.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Facets {
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
    fn of(instance: &Instance, view: Option<&View>) -> Self {
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
                .and_then(|label| instance.label(label))
                .map(str::to_owned),
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

fn count_by<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K, enter: bool) {
    let count = counts.entry(key).or_default();
    if enter { *count += 1 } else { *count -= 1 }
}

impl Index {
    fn apply(&mut self, node: &NodeId, facets: &Facets, enter: bool) {
        if !facets.counts {
            return;
        }
        if enter {
            self.counting += 1
        } else {
            self.counting -= 1
        }
        self.spread.count(facets.known, enter);
        match facets.known {
            Known::Silent => put(&mut self.silent, node, enter),
            Known::Unknown => put(&mut self.unknown, node, enter),
            Known::At(version) => put_by(&mut self.by_version, version, node, enter),
        }
        put_by(&mut self.acknowledged, facets.acknowledged, node, enter);
        count_by(&mut self.in_wave, facets.wave, enter);
        for (member, set) in [
            (facets.out, &mut self.out),
            (facets.ordered, &mut self.ordered),
            (facets.unstaged, &mut self.unstaged),
            (facets.cluttered, &mut self.cluttered),
            (facets.misdirected, &mut self.misdirected),
        ] {
            if member {
                put(set, node, enter);
            }
        }
        if facets.todo {
            put_by(&mut self.todo, facets.wave, node, enter);
            if enter { self.todo_count += 1 } else { self.todo_count -= 1 }
        }
        if let Some(domain) = facets.domain.as_ref().filter(|_| facets.out) {
            count_by(&mut self.domains_out, domain.clone(), enter);
            self.domains_out.retain(|_, count| *count > 0);
        }
        self.in_wave.retain(|_, count| *count > 0);
    }
}

impl ServiceFleet {
    pub(super) fn new(name: ServiceName) -> Self {
        Self {
            name,
            window: None,
            budget: Revision::ABSENT,
            instances: BTreeMap::new(),
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
        let instance = self.instances.entry(node.clone()).or_insert_with(|| Instance::new(node.clone()));
        let before = Facets::of(instance, self.view.as_ref());
        change(instance);
        let after = Facets::of(instance, self.view.as_ref());
        if before != after {
            self.index.apply(&node, &before, false);
            self.index.apply(&node, &after, true);
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
            for instance in self.instances.values_mut() {
                instance.wave = None;
            }
            for (node, wave) in view.iter().flat_map(|v| assigned(&v.upgrade)) {
                self.instances.entry(node.clone()).or_insert_with(|| Instance::new(node)).wave = Some(wave);
            }
        }
        self.view = view;
        self.index = self.recount();
    }

    fn recount(&self) -> Index {
        let mut index = Index::default();
        for (node, instance) in &self.instances {
            index.apply(node, &Facets::of(instance, self.view.as_ref()), true);
        }
        index
    }

    /// Whether the index is what a recount of every instance gives. For tests: it always is.
    pub fn index_is_true(&self) -> bool {
        self.index == self.recount()
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
        self.instances.get(node)
    }

    /// Every instance that counts, by node.
    pub fn instances(&self) -> impl Iterator<Item = &Instance> {
        self.instances.values().filter(|instance| instance.counts())
    }

    /// Every instance that ever left a trace, decommissioned ones too.
    pub fn every_instance(&self) -> impl Iterator<Item = &Instance> {
        self.instances.values()
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

    /// The failure domains of which something is out, by the label that the active upgrade names.
    pub fn domains_out(&self) -> &BTreeMap<String, usize> {
        &self.index.domains_out
    }
}
