//! A state of the model: the world, a commit on its way, and which faults may still happen; put into a normal form in
//! which only the order of revisions counts, so that there are finitely many.

use crate::sim::{World, release, service, spec};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use tidegate_planner::{LookedFor, SchemaFacts};
use tidegate_proto::commit::{Commit, Precondition, Write};
use tidegate_proto::key::Kind;
use tidegate_proto::record::certificate::CertificatePage;
use tidegate_proto::record::report::{Health, Report, Rotation, Step};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase};
use tidegate_proto::{Digest, Key, NodeId, Value};

/// How often each fault may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Faults {
    pub lapse: u8,
    pub old: u8,
    pub decommission: u8,
    pub broken: u8,
    pub elect: u8,
    pub late: u8,
    pub unseen: u8,
    pub roll_back: u8,
    /// Every readiness URL fails for a while.
    pub hiccup: u8,
}

impl Faults {
    pub(super) const NONE: Self = Self {
        lapse: 0,
        old: 0,
        decommission: 0,
        broken: 0,
        elect: 0,
        late: 0,
        unseen: 0,
        roll_back: 0,
        hiccup: 0,
    };
    pub(super) const EACH_ONCE: Self = Self {
        lapse: 1,
        old: 1,
        decommission: 1,
        broken: 1,
        elect: 1,
        late: 1,
        unseen: 1,
        roll_back: 1,
        hiccup: 0,
    };
    /// A hiccup of all, beside what makes its orders worse.
    pub(super) const HICCUP: Self =
        Self { elect: 1, late: 1, unseen: 1, roll_back: 1, hiccup: 1, ..Self::NONE };

    /// What may follow the fault that made `before` into this: every fault happens, and then those that make it worse.
    fn narrowed(self, before: Self) -> Self {
        let none = Self::NONE;
        if self.lapse < before.lapse {
            return Self { old: self.old, decommission: self.decommission, ..none };
        }
        if self.decommission < before.decommission {
            return Self { old: self.old, ..none };
        }
        if self.late < before.late {
            return Self { elect: self.elect, hiccup: self.hiccup, ..none };
        }
        if self.hiccup < before.hiccup {
            return Self { late: self.late, roll_back: self.roll_back, unseen: self.unseen, ..none };
        }
        if self == before { self } else { none }
    }
}

#[derive(Clone)]
pub(super) struct State {
    pub world: World,
    pub on_its_way: Option<Commit>,
    pub faults: Faults,
    /// Instances that a person has really stopped.
    pub stopped: BTreeSet<NodeId>,
    /// Instances that a fault has touched.
    pub faulted: BTreeSet<NodeId>,
    /// Whether contract began.
    pub contracting: bool,
    /// Whether an active upgrade neither moved nor said why.
    pub mute: bool,
    /// Faults as they were before the last step.
    before: Faults,
}

impl State {
    pub(super) fn begin(nodes: usize, schema: bool, faults: Faults) -> Self {
        let mut world = World::at_version_1(nodes);
        world.store.unchecked = true;
        if schema {
            let change = json!({"min_in_service": nodes - 1, "schema": {"database": {"from_env": "PANTRY"}, "migrations": "pantry"}});
            world.start_with_schema(spec(change), MigrateOrder::BeforeRoll);
        } else {
            world.start(spec(json!({"min_in_service": nodes - 1}))).unwrap();
        }
        world.jobs.clear();
        let mut state = Self {
            world,
            on_its_way: None,
            faults,
            stopped: BTreeSet::new(),
            faulted: BTreeSet::new(),
            contracting: false,
            mute: false,
            before: faults,
        };
        state.normalise();
        state
    }

    pub(super) fn phase(&self) -> Phase {
        self.world.phase()
    }

    /// Carries a commit out, without what only people read.
    pub(super) fn carry_out(&mut self, commit: &Commit) -> bool {
        let done = self.world.store.commit(&lean(commit));
        self.contracting |= matches!(self.phase(), Phase::Contract { .. });
        done
    }

    pub(super) fn lapse(&mut self, n: &NodeId) {
        self.faulted.insert(n.clone());
        self.world.agents.get_mut(n).unwrap().alive = false;
        self.world.store.commit(&Commit::new().delete(Key::Report(service(), n.clone())));
    }

    /// The machine comes back from an old image: its service is started only if it is admitted.
    pub(super) fn return_old(&mut self, n: &NodeId) {
        self.stopped.remove(n);
        self.world.return_with(n, 1);
    }

    /// A person stops the service.
    pub(super) fn stop(&mut self, n: &NodeId) {
        self.stopped.insert(n.clone());
        let agent = self.world.agents.get_mut(n).unwrap();
        (agent.report.step, agent.report.rotation, agent.report.health) =
            (Step::Stopped, Rotation::Out, Health::Unknown);
    }

    pub(super) fn is_unready(&self) -> bool {
        self.world.agents.values().any(|agent| agent.unready)
    }

    pub(super) fn set_unready(&mut self, unready: bool) {
        let nodes: Vec<NodeId> = self.world.agents.keys().cloned().collect();
        nodes.iter().for_each(|n| self.world.set_unready(n, unready));
    }

    fn serving(&self) -> impl Iterator<Item = &crate::sim::Agent> {
        self.world.agents.values().filter(|a| a.report.rotation == Rotation::In)
    }

    fn standing(&self) -> impl Iterator<Item = &crate::sim::Agent> {
        self.world.agents.iter().filter(|(n, _)| !self.stopped.contains(*n)).map(|(_, agent)| agent)
    }

    /// Silent ones too, as long as they serve.
    pub(super) fn nothing_old_serves_after_contract(&self) -> bool {
        !self.contracting || self.serving().all(|a| a.release == release(2))
    }

    /// An instance that has acknowledged a window and serves is inside it.
    pub(super) fn no_instance_serves_outside_the_window(&self) -> bool {
        let Some((Value::Window(window), at, _)) = self.world.store.keys.get(&Key::Window(service())) else {
            return true;
        };
        let mut others = self.serving().filter(|a| a.alive && a.report.window.0 >= *at);
        others.all(|a| window.body.admits(a.release.version))
    }

    /// A fault may take its own instance away; orders never take a second one.
    pub(super) fn capacity_holds(&self) -> bool {
        let out = self.world.agents.iter().filter(|(_, a)| a.report.rotation != Rotation::In);
        out.filter(|(n, _)| !self.faulted.contains(*n)).count() <= 1
    }

    pub(super) fn rolled_back_means_back(&self) -> bool {
        let back = || self.standing().all(|a| a.release == release(1) && a.report.rotation == Rotation::In);
        let as_before = || {
            let window = self.world.store.keys.get(&Key::Window(service()));
            window.is_none_or(|(value, _, _)| matches!(value, Value::Window(window) if window.body.is_open()))
        };
        !matches!(self.phase(), Phase::RolledBack { .. }) || back() && as_before()
    }

    /// One that came back after the end, old, is disabled in rotation, or is on its way to the new version.
    pub(super) fn completed_means_seen(&self) -> bool {
        let came_back =
            |n: &NodeId, a: &crate::sim::Agent| self.faulted.contains(n) && a.report.rotation != Rotation::In;
        let seen = |a: &crate::sim::Agent| a.release == release(2) && a.report.rotation == Rotation::In;
        let mut standing = self.world.agents.iter().filter(|(n, _)| !self.stopped.contains(*n));
        self.phase() != Phase::Completed || standing.all(|(n, a)| seen(a) || came_back(n, a))
    }

    pub(super) fn contract_is_final(&self) -> bool {
        !self.contracting || matches!(self.phase(), Phase::Contract { .. } | Phase::Completed)
    }

    /// Only the order of revisions counts: they are renumbered from 1, everywhere.
    pub(super) fn normalise(&mut self) {
        self.faults = self.faults.narrowed(self.before);
        self.before = self.faults;
        let mut seen = BTreeSet::new();
        self.each_revision(&mut |revision| {
            seen.insert(*revision);
        });
        seen.remove(&0);
        let rank: BTreeMap<i64, i64> = seen.into_iter().zip(1..).collect();
        self.each_revision(&mut |revision| *revision = rank.get(revision).copied().unwrap_or(0));
        self.world.events = 0;
        self.world.jobs.clear();
        self.world.certificate = None;
        self.world.min_seen_in_service = 0;
        self.world.agents.values_mut().for_each(|agent| agent.idle = None);
        self.world.store.forget_fleet();
    }

    fn each_revision(&mut self, visit: &mut dyn FnMut(&mut i64)) {
        visit(&mut self.world.store.revision);
        visit(&mut self.world.term.revision.0);
        for (value, modified, created) in self.world.store.keys.values_mut() {
            visit(modified);
            visit(created);
            match value {
                Value::Report(record) => each_of_report(&mut record.body, visit),
                Value::Decommission(record) => visit(&mut record.body.admission.0),
                _ => {}
            }
        }
        for agent in self.world.agents.values_mut() {
            visit(&mut agent.admitted);
            each_of_report(&mut agent.report, visit);
        }
        for precondition in self.on_its_way.iter_mut().flat_map(|commit| &mut commit.when) {
            let (Precondition::At(_, revision)
            | Precondition::CreatedAt(_, revision)
            | Precondition::NonePutAfter(_, revision)
            | Precondition::NonePutAfterWithin(_, _, revision)
            | Precondition::NoneCreatedAfter(_, revision)
            | Precondition::NoneCreatedAfterWithin(_, _, revision)) = precondition;
            visit(&mut revision.0);
        }
    }
}

fn each_of_report(report: &mut Report, visit: &mut dyn FnMut(&mut i64)) {
    visit(&mut report.admission.0);
    visit(&mut report.generation.0);
    visit(&mut report.window.0);
}

/// A commit without events, and with a certificate that is only a mark: their texts differ in numbers that do not
/// matter here.
pub(super) fn lean(commit: &Commit) -> Commit {
    let is_event = |key: &Key| key.kind() == Kind::Event;
    let mut lean = commit.clone();
    lean.when.retain(|p| !matches!(p, Precondition::At(key, _) if is_event(key)));
    lean.writes.retain(|w| !matches!(w, Write::Put(key, _) if is_event(key)));
    for write in &mut lean.writes {
        match write {
            Write::Put(_, Value::Certificate(record)) => {
                record.body = CertificatePage { text: String::new(), seal: None }
            }
            Write::Put(_, Value::Upgrade(record)) => {
                if let Phase::Contract { certificate } = &mut record.body.phase {
                    *certificate = Digest::of(b"certificate");
                }
            }
            _ => {}
        }
    }
    lean
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.world.store.keys.hash(state);
        for (node, agent) in &self.world.agents {
            (
                node,
                &agent.report,
                &agent.release,
                &agent.staged,
                agent.broken_at,
                (agent.unready, agent.alive),
                agent.admitted,
            )
                .hash(state);
        }
        facts(&self.world.facts).hash(state);
        self.world.database.hash(state);
        (&self.on_its_way, &self.faults, &self.stopped, &self.faulted, self.contracting, self.mute)
            .hash(state);
    }
}

fn facts(facts: &Option<SchemaFacts>) -> Option<(Option<&LookedFor>, bool, bool, bool, bool)> {
    facts.as_ref().map(|f| (f.looked_for.as_ref(), f.expanded, f.migrated, f.contracted, f.clean))
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        let agents = |s: &Self| {
            s.world
                .agents
                .values()
                .map(|a| {
                    let kept = (a.broken_at, a.unready, a.alive, a.admitted);
                    (a.report.clone(), a.release.clone(), a.staged.clone(), kept)
                })
                .collect::<Vec<_>>()
        };
        self.world.store.keys == other.world.store.keys
            && agents(self) == agents(other)
            && facts(&self.world.facts) == facts(&other.world.facts)
            && self.world.database == other.world.database
            && (&self.on_its_way, &self.faults, &self.stopped, &self.faulted, self.contracting, self.mute)
                == (
                    &other.on_its_way,
                    &other.faults,
                    &other.stopped,
                    &other.faulted,
                    other.contracting,
                    other.mute,
                )
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let agent = |(n, a): (&NodeId, &crate::sim::Agent)| {
            format!(
                "{n}@{} {} {:?} alive={}",
                a.release.version,
                a.report.step.word(),
                a.report.rotation,
                a.alive
            )
        };
        let agents: Vec<String> = self.world.agents.iter().map(agent).collect();
        write!(f, "{:?} {agents:?} {:?}", self.phase(), self.faults)
    }
}
