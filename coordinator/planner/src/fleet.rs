//! Everything observed at one revision: the records, by service and node, with the indexes that make reading them
//! cheap. Pure data: it receives keys and queries nothing.

mod cause;
mod causes;
mod compute;
mod exceptions;
mod gate;
mod group;
mod index;
mod instance;
mod marks;
mod metadata;
mod place;
mod read;
mod sample;
mod service;
pub(crate) mod share;
mod stored;
mod text;
mod upgrade;
mod witness;

pub use crate::spread::Known;
pub use causes::{Cause, Causes};
pub use compute::{SignalCount, StoredSignal};
pub use exceptions::Exceptions;
pub use index::{NO_DOMAIN, Standing};
pub use instance::{Exposure, Instance};
pub use sample::Sample;
pub use service::{Matching, ServiceFleet};
pub use stored::Stored;
pub(crate) use upgrade::{moved_from, releases, stays_under_order, target, turned_to};
pub(crate) use witness::awaits_new_directive;
pub use witness::{Against, Contradiction};

use std::collections::BTreeMap;
use tidegate_proto::key::Kind;
use tidegate_proto::record::Malformed;
use tidegate_proto::record::active::Active;
use tidegate_proto::record::maintenance::Maintenance;
use tidegate_proto::record::reconciliation::Reconciliation;
use tidegate_proto::record::schema::Schema;
use tidegate_proto::record::token::Token;
use tidegate_proto::record::upgrade::Upgrade;
use tidegate_proto::record::waves::WavePage;
use tidegate_proto::{
    InstanceId, Key, NodeId, Revision, SchemaName, ServiceName, TokenId, UpgradeId, Value, mutant,
};

/// The fleet.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    revision: Revision,
    services: BTreeMap<ServiceName, ServiceFleet>,
    upgrades: BTreeMap<UpgradeId, Stored<Upgrade>>,
    active: BTreeMap<ServiceName, Stored<Active>>,
    active_schemas: BTreeMap<SchemaName, (UpgradeId, Revision)>,
    schemas: BTreeMap<SchemaName, Stored<Schema>>,
    maintenance: BTreeMap<NodeId, Stored<Maintenance>>,
    waves: BTreeMap<UpgradeId, BTreeMap<u32, Stored<WavePage>>>,
    exceptions: exceptions::ByUpgrade,
    compute: compute::ComputeRecords,
    metadata: metadata::MetadataRecords,
    tokens: BTreeMap<TokenId, Stored<Token>>,
    gates: gate::GateVerdicts,
    unreadable: BTreeMap<Key, (Malformed, Revision)>,
    /// Whether indexes are left as they are until all is loaded.
    loading: bool,
    /// Who contradicts the store.
    witnesses: witness::Witnesses,
}

impl Fleet {
    /// An empty fleet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The fleet of all of these records, which are the whole of one revision: indexed once, at the end.
    pub fn load(
        records: impl IntoIterator<Item = (Key, Result<Value, Malformed>, Revision)>,
        revision: Revision,
    ) -> Self {
        let mut fleet = Self { revision, loading: true, ..Self::default() };
        records.into_iter().for_each(|(key, value, at)| fleet.put(key, value, at));
        fleet.loading = false;
        fleet.compute.loaded();
        let (compute, before) = (&fleet.compute, fleet.unreadable.len());
        fleet.unreadable.retain(|key, _| !compute.is_stray(key));
        (fleet.unreadable.len()..before).for_each(|_| fleet.compute.saw_stray());
        fleet.services.values_mut().for_each(ServiceFleet::loaded);
        fleet.recheck_all();
        fleet
    }

    /// The revision of the store that it shows.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// It now shows everything up to `revision`.
    pub fn set_revision(&mut self, revision: Revision) {
        self.revision = revision;
    }

    /// A key was put. What cannot be read is kept as such: it closes the gates that depend on it.
    pub fn put(&mut self, key: Key, value: Result<Value, Malformed>, at: Revision) {
        if !self.loading && self.compute.is_stray(&key) {
            self.compute.saw_stray();
            return;
        }
        match value {
            Ok(value) => {
                let was_unreadable = self.unreadable.remove(&key).is_some();
                if was_unreadable {
                    self.mark_unreadable(&key, None);
                }
                let window = if let Key::Window(service) = &key { Some(service.clone()) } else { None };
                self.put_readable(key, value, at);
                // While it could not be read, no instance contradicted it.
                if let Some(service) = window.filter(|_| was_unreadable) {
                    self.recheck_service(&service);
                }
            }
            Err(malformed) => {
                self.delete(&key);
                if mutant::is("unreadable-reads-as-absent") {
                    return;
                }
                self.mark_unreadable(&key, Some(malformed.clone()));
                let window = if let Key::Window(service) = &key { Some(service.clone()) } else { None };
                let cordoned = if let Key::Maintenance(node) = &key { Some(node.clone()) } else { None };
                if let Key::Term(term) = &key {
                    self.knows_unreadable_term(term.clone(), at);
                }
                self.unreadable.insert(key, (malformed, at));
                if let Some(node) = cordoned {
                    self.set_cordoned(&node, true);
                }
                if let Some(service) = window {
                    self.recheck_service(&service);
                }
            }
        }
    }

    fn put_readable(&mut self, key: Key, value: Value, at: Revision) {
        match (key, value) {
            (Key::Report(s, n), Value::Report(record)) => {
                self.instance(s, n, Some(Kind::Report), |i| i.report = Some(Stored { record, at }))
            }
            (Key::Inventory(s, n), Value::Inventory(record)) => {
                self.instance(s, n, Some(Kind::Inventory), |i| i.inventory = Some(Stored { record, at }))
            }
            (Key::Decommission(s, n), Value::Decommission(record)) => {
                self.instance(s, n, Some(Kind::Decommission), |i| {
                    i.decommission = Some(Box::new(Stored { record, at }))
                })
            }
            (Key::Directive(s, n), Value::Directive(record)) => {
                self.instance(s, n, Some(Kind::Directive), |i| i.directive = Some(Stored { record, at }))
            }
            (Key::Window(s), Value::Window(record)) => {
                let of = self.of(s.clone());
                let fell = at < of.window_at();
                of.set_window(Some(Stored { record, at }));
                // A window that rises adds no contradiction.
                if fell { self.recheck_service(&s) } else { self.recheck_contradicting() }
            }
            (Key::Term(term), Value::Term(_)) => self.knows_term(term, at),
            (Key::Reconciliation, Value::Reconciliation(record)) => {
                self.was_reconciled(Some(Stored { record, at }))
            }
            (Key::Budget(s), Value::Budget(_)) => self.of(s).set_budget(at),
            (Key::Upgrade(id), Value::Upgrade(record)) => {
                let service = record.body.spec.service.clone();
                self.upgrades.insert(id, Stored { record, at });
                self.refresh_view(&service);
            }
            (Key::Active(s), Value::Active(record)) => {
                self.active.insert(s.clone(), Stored { record, at });
                self.refresh_view(&s);
            }
            (Key::ActiveSchema(id), Value::ActiveSchema(record)) => {
                self.active_schemas.insert(id, (record.body.0.upgrade, at));
            }
            (Key::Schema(id), Value::Schema(record)) => {
                self.schemas.insert(id, Stored { record, at });
            }
            (Key::Maintenance(node), Value::Maintenance(record)) => {
                self.maintenance.insert(node.clone(), Stored { record, at });
                self.set_cordoned(&node, true);
            }
            (Key::Waves(id, page), Value::Waves(record)) => {
                let former = self.waves.entry(id.clone()).or_default().insert(page, Stored { record, at });
                self.assign_waves(&id, page, former);
            }
            (Key::Exception(id, node), Value::Exception(record)) => {
                self.exceptions.entry(id).or_default().insert(node, Stored { record, at });
            }
            (Key::Token(id), Value::Token(record)) => drop(self.tokens.insert(id, Stored { record, at })),
            (key @ (Key::Group(_) | Key::Members(_) | Key::Exposed(..) | Key::GroupSignal(..)), value) => {
                self.metadata.put(key, value, at)
            }
            (key @ Key::GateVerdict(..), Value::GateVerdict(record)) => {
                self.gates.insert(key, Stored { record, at });
            }
            // Events, waiting, certificates and the leader are read by their users.
            (key, value) => self.compute.put(key, value, at),
        }
    }

    /// A key was removed.
    pub fn delete(&mut self, key: &Key) {
        if self.unreadable.remove(key).is_some() {
            self.mark_unreadable(key, None);
        }
        match key.clone() {
            Key::Report(s, n) => self.instance(s, n, Some(Kind::Report), |i| i.report = None),
            Key::Inventory(s, n) => self.instance(s, n, Some(Kind::Inventory), |i| i.inventory = None),
            Key::Decommission(s, n) => {
                self.instance(s, n, Some(Kind::Decommission), |i| i.decommission = None)
            }
            Key::Directive(s, n) => self.instance(s, n, Some(Kind::Directive), |i| i.directive = None),
            Key::Window(s) => {
                self.of(s.clone()).set_window(None);
                self.recheck_service(&s);
            }
            Key::Term(term) => self.forgets_term(&term),
            Key::Reconciliation => self.was_reconciled(None),
            Key::Budget(s) => self.of(s).set_budget(Revision::ABSENT),
            Key::Upgrade(id) => {
                if let Some(gone) = self.upgrades.remove(&id) {
                    self.refresh_view(&gone.spec.service.clone());
                }
            }
            Key::Active(s) => {
                self.active.remove(&s);
                self.refresh_view(&s);
            }
            Key::ActiveSchema(id) => drop(self.active_schemas.remove(&id)),
            Key::Schema(id) => drop(self.schemas.remove(&id)),
            Key::Maintenance(node) => {
                self.maintenance.remove(&node);
                self.set_cordoned(&node, false);
            }
            Key::Token(id) => drop(self.tokens.remove(&id)),
            Key::Exception(id, node) => {
                self.exceptions.get_mut(&id).map(|of| of.remove(&node));
            }
            Key::Waves(id, page) => {
                let former = self.waves.get_mut(&id).and_then(|pages| pages.remove(&page));
                self.assign_waves(&id, page, former);
            }
            Key::Group(_) | Key::Members(_) | Key::Exposed(..) | Key::GroupSignal(..) => {
                self.metadata.delete(key)
            }
            key @ Key::GateVerdict(..) => drop(self.gates.remove(&key)),
            key => self.compute.delete(&key),
        }
    }

    fn of(&mut self, service: ServiceName) -> &mut ServiceFleet {
        let loading = self.loading;
        self.services.entry(service.clone()).or_insert_with(|| ServiceFleet::new(service, loading))
    }

    fn instance(
        &mut self,
        service: ServiceName,
        node: NodeId,
        changed: Option<Kind>,
        change: impl FnOnce(&mut Instance),
    ) {
        let cordoned = self.is_cordoned(&node);
        let hears = !self.loading;
        let window_is_readable = !hears || self.window_is_readable(&service);
        let loading = self.loading;
        let of = self.services.entry(service.clone()).or_insert_with(|| ServiceFleet::new(service, loading));
        let window = window_is_readable.then(|| of.window_at());
        let name = of.name().clone();
        let instance = of.change(node, changed, |instance| {
            instance.cordoned = cordoned;
            change(instance);
        });
        if hears {
            let heard = self.witnesses.recheck(&name, instance, window);
            if !heard.is_marked_on(instance) {
                let node = instance.node.clone();
                of.change(node, None, |instance| heard.mark_on(instance));
            }
        }
    }

    fn mark_unreadable(&mut self, key: &Key, why: Option<Malformed>) {
        if let Key::Report(s, n) | Key::Inventory(s, n) | Key::Directive(s, n) | Key::Decommission(s, n) = key
        {
            let kind = key.kind();
            self.instance(s.clone(), n.clone(), None, |i| match why {
                Some(why) => drop(i.unreadable.insert(kind, why)),
                None => drop(i.unreadable.remove(&kind)),
            });
        }
    }

    /// A cordon that cannot be read is not the same as none: its node is kept out.
    fn is_cordoned(&self, node: &NodeId) -> bool {
        let unread =
            || !self.unreadable.is_empty() && self.unreadable.contains_key(&Key::Maintenance(node.clone()));
        self.maintenance.contains_key(node) || unread()
    }

    /// Marks the instances that the last reconciliation lists, and none that only the one before it does.
    fn mark_listed(&mut self, former: Option<&Stored<Reconciliation>>) {
        let listed = |by: Option<&Stored<Reconciliation>>| -> Vec<InstanceId> {
            by.into_iter().flat_map(|by| by.listed_instances()).collect()
        };
        let last = self.reconciliation();
        let at = last.map_or(Revision::ABSENT, |last| last.at);
        let unmarked = listed(former).into_iter().map(|id| (id, Revision::ABSENT));
        let marked = listed(last).into_iter().map(|id| (id, at));
        for (InstanceId { service, node }, at) in unmarked.chain(marked) {
            self.instance(service, node, None, |instance| instance.listed = at);
        }
    }

    fn set_cordoned(&mut self, node: &NodeId, cordoned: bool) {
        for service in self.services.values_mut() {
            if service.get(node).is_some() {
                service.change(node.clone(), None, |i| i.cordoned = cordoned);
            }
        }
    }

    /// Assigns waves after a page was put or removed: to every node that it names or that its `former` form named. Of
    /// pages that name the same node (a redraw that is half written), the last one counts. Pages come in order when
    /// they are drawn or read again, so that no other page has to be searched then.
    fn assign_waves(&mut self, id: &UpgradeId, page: u32, former: Option<Stored<WavePage>>) {
        let Some(service) = self.upgrades.get(id).map(|u| u.spec.service.clone()) else { return };
        if self.active_upgrade(&service).is_none_or(|(active, _)| active != id) {
            return;
        }
        let Some(pages) = self.waves.get(id) else { return };
        let members = pages.get(&page).map(|page| page.members.clone()).unwrap_or_default();
        let is_last = former.is_none() && pages.keys().next_back() == Some(&page);
        let waves: Vec<(NodeId, Option<u32>)> = if is_last {
            members.into_iter().map(|(node, wave)| (node, Some(wave))).collect()
        } else {
            let waves: BTreeMap<&NodeId, u32> =
                pages.values().flat_map(|page| &page.members).map(|(node, wave)| (node, *wave)).collect();
            let former = former.map(|page| page.record.body.members).unwrap_or_default();
            let now = |(node, _): (NodeId, u32)| {
                let wave = waves.get(&node).copied();
                (node, wave)
            };
            members.into_iter().chain(former).map(now).collect()
        };
        let fleet = self.of(service);
        for (node, wave) in waves {
            fleet.change(node, None, |i| i.wave = wave);
        }
    }

    /// What the active upgrade asks of a service decides how its instances are indexed.
    fn refresh_view(&mut self, service: &ServiceName) {
        let view = self.active_upgrade(service).map(|(id, upgrade)| index::View {
            upgrade: id.clone(),
            target: upgrade::target(upgrade),
            releases: upgrade::releases(upgrade),
            moved_from: upgrade::moved_from(upgrade).cloned(),
            domain: upgrade.spec.failure_domain.clone(),
            last_wave: upgrade.waves.as_ref().map_or(0, |w| (w.sizes.len() as u32).saturating_sub(1)),
        });
        let (waves, loading) = (&self.waves, self.loading);
        let fleet = self
            .services
            .entry(service.clone())
            .or_insert_with(|| ServiceFleet::new(service.clone(), loading));
        fleet.set_view(view, |id| {
            waves
                .get(id)
                .into_iter()
                .flat_map(BTreeMap::values)
                .flat_map(|page| page.members.iter().cloned())
                .collect()
        });
    }
}
