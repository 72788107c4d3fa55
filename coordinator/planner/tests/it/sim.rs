//! A store, agents and a leader as plain data. The store carries commits out as etcd does (all preconditions, then
//! all writes at one new revision); an agent takes one step at a time; the leader carries out what the planner says.

use std::collections::{BTreeMap, BTreeSet};
use tidegate_planner::certificate::{Certificate, DatabaseEvidence, Session, certify};
use tidegate_planner::{Action, Fleet, Leading, Moment, Plan, SchemaFacts, SchemaJob, plan};
use tidegate_proto::commit::{Commit, Precondition, Write};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::inventory::Inventory;
use tidegate_proto::record::leader::Leader;
use tidegate_proto::record::report::{Abilities, Health, Identity, Report, Rotation, Step};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase, SchemaBinding, Upgrade};
use tidegate_proto::spec::Spec;
use tidegate_proto::{Digest, Key, NodeId, Release, Revision, ServiceName, UpgradeId, Value};

pub fn service() -> ServiceName {
    "pantry-api".parse().unwrap()
}

pub fn node(n: usize) -> NodeId {
    format!("n{n}").parse().unwrap()
}

pub fn upgrade_id() -> UpgradeId {
    "u1".parse().unwrap()
}

pub fn release(version: i64) -> Release {
    Release {
        tag: format!("pantry-{version}.0.0").parse().unwrap(),
        sha256: Digest::of(format!("artifact {version}").as_bytes()),
        version: tidegate_proto::ServiceVersion::new(version).unwrap(),
    }
}

/// A spec from 1 to 2, with changes in JSON.
pub fn spec(change: serde_json::Value) -> Spec {
    let mut value = serde_json::json!({
        "service": "pantry-api", "from": 1, "to": 2,
        "release": {"tag": "pantry-2.0.0", "sha256": release(2).sha256},
    });
    let (target, change) = (value.as_object_mut().unwrap(), change);
    target.extend(change.as_object().unwrap().clone());
    serde_json::from_value(value).unwrap()
}

pub fn sessions(names: &[&str]) -> BTreeSet<Session> {
    names.iter().map(|name| Session { name: (*name).to_owned(), kind: "session".to_owned() }).collect()
}

#[derive(Clone, Default)]
pub struct Store {
    pub revision: i64,
    pub keys: BTreeMap<Key, (Value, i64, i64)>,
    fleet: Fleet,
    pub unchecked: bool,
}

impl Store {
    fn holds(&self, precondition: &Precondition) -> bool {
        let modified = |key: &Key| self.keys.get(key).map_or(0, |(_, modified, _)| *modified);
        match precondition {
            Precondition::At(key, revision) => modified(key) == revision.0,
            Precondition::CreatedAt(key, revision) => {
                self.keys.get(key).map_or(0, |(_, _, created)| *created) == revision.0
            }
            Precondition::NonePutAfter(kind, revision) => {
                self.keys.iter().filter(|(k, _)| k.kind() == *kind).all(|(_, (_, m, _))| *m <= revision.0)
            }
            Precondition::NonePutAfterWithin(kind, owner, revision) => {
                let within = |k: &Key| k.kind() == *kind && k.to_string().split('/').nth(1) == Some(owner);
                self.keys.iter().filter(|(k, _)| within(k)).all(|(_, (_, m, _))| *m <= revision.0)
            }
        }
    }

    /// Whether it was carried out.
    pub fn commit(&mut self, commit: &Commit) -> bool {
        assert!(
            commit.writes.len() <= 128 && commit.when.len() <= 128,
            "a transaction has at most 128 operations a side"
        );
        let mut seen = BTreeSet::new();
        for write in &commit.writes {
            let (Write::Put(key, _) | Write::Delete(key)) = write;
            assert!(seen.insert(key.clone()), "{key} is written twice in one transaction");
        }
        if !commit.when.iter().all(|p| self.holds(p)) {
            return false;
        }
        self.revision += 1;
        self.fleet.set_revision(Revision(self.revision));
        for write in &commit.writes {
            match write {
                Write::Put(key, value) => {
                    assert_eq!(key.kind(), value.kind(), "{key} holds a record of another kind");
                    let decoded = self.written(key, value);
                    let created = self.keys.get(key).map_or(self.revision, |(_, _, created)| *created);
                    self.fleet.put(key.clone(), Ok(decoded.clone()), Revision(self.revision));
                    self.keys.insert(key.clone(), (decoded, self.revision, created));
                }
                Write::Delete(key) => {
                    self.fleet.delete(key);
                    self.keys.remove(key);
                }
            }
        }
        true
    }

    /// The value as it is read again: through its bytes, unless a model that makes millions of writes is in a hurry.
    fn written(&self, key: &Key, value: &Value) -> Value {
        if self.unchecked {
            return value.clone();
        }
        let decoded = Value::decode(key, &value.encode()).expect("what is written can be read");
        assert_eq!(&decoded, value, "{key} is read as it was written");
        decoded
    }

    /// Drops the fleet; it must be built anew before anybody looks at it.
    pub fn forget_fleet(&mut self) {
        self.fleet = Fleet::new();
    }

    /// Builds the fleet anew from the keys.
    pub fn rebuild(&mut self) {
        self.fleet = Fleet::new();
        for (key, (value, modified, _)) in &self.keys {
            self.fleet.put(key.clone(), Ok(value.clone()), Revision(*modified));
        }
        self.fleet.set_revision(Revision(self.revision));
    }

    pub fn put(&mut self, key: Key, value: impl Into<Value>) -> i64 {
        assert!(self.commit(&Commit::new().put(key, value)));
        self.revision
    }

    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }
}

/// An agent with its service.
#[derive(Clone)]
pub struct Agent {
    pub report: Report,
    pub release: Release,
    pub staged: BTreeSet<Release>,
    pub zone: String,
    /// Releases of this version never become healthy here.
    pub broken_at: Option<i64>,
    pub alive: bool,
    pub admitted: i64,
    /// The directive and window under which it last had nothing to do.
    pub idle: Option<(i64, i64)>,
}

/// The whole world.
#[derive(Clone)]
pub struct World {
    pub store: Store,
    pub agents: BTreeMap<NodeId, Agent>,
    pub term: Leading,
    pub events: u64,
    pub stalled_ms: u64,
    pub facts: Option<SchemaFacts>,
    pub jobs: Vec<SchemaJob>,
    /// What the database answers when a certificate is made.
    pub evidence: DatabaseEvidence,
    pub certificate: Option<Certificate>,
    pub min_seen_in_service: usize,
}

impl World {
    /// `nodes` instances at version 1, in zones a, b, c in turn.
    pub fn at_version_1(nodes: usize) -> Self {
        let mut world = Self {
            store: Store::default(),
            agents: BTreeMap::new(),
            term: Leading { term: "t0".parse().unwrap(), revision: Revision::ABSENT },
            events: 0,
            stalled_ms: 0,
            facts: None,
            jobs: Vec::new(),
            evidence: DatabaseEvidence {
                pending_rows: 0,
                sessions: Ok(sessions(&["pantry-api/2/n0", "tidegate/7/schema"])),
            },
            certificate: None,
            min_seen_in_service: usize::MAX,
        };
        world.elect(1);
        for n in 0..nodes {
            world.join(n, 1);
        }
        world
    }

    pub fn elect(&mut self, term: usize) {
        self.store.keys.remove(&Key::Leader);
        let id: tidegate_proto::TermId = format!("t{term}").parse().unwrap();
        let created = self.store.put(Key::Leader, Leader { term: id.clone(), address: "here".into() });
        self.term = Leading { term: id, revision: Revision(created) };
        self.events = 0;
    }

    pub fn join(&mut self, n: usize, version: i64) {
        let release = release(version);
        let report = Report {
            version: Some(release.version),
            release: Some(release.tag.clone()),
            release_digest: Some(release.sha256),
            admission: Revision::ABSENT,
            health: Health::Healthy,
            rotation: Rotation::In,
            step: Step::Serving,
            generation: Revision::ABSENT,
            window: Revision::ABSENT,
            staged: vec![release.tag.clone()],
            stage_failures: BTreeMap::new(),
            identity: Identity { nonce: format!("nonce{n}"), boot: "boot".into() },
            abilities: Abilities {
                replace: Some("process".into()),
                drain: Some("settle".into()),
                artifacts: vec![super::sim::release(1).tag, super::sim::release(2).tag],
            },
            in_flight: None,
        };
        let agent = Agent {
            report,
            release: release.clone(),
            staged: [release].into(),
            zone: ["a", "b", "c"][n % 3].into(),
            broken_at: None,
            alive: true,
            admitted: 0,
            idle: None,
        };
        self.agents.insert(node(n), agent);
        self.admit(&node(n));
        self.publish(&node(n));
    }

    /// Admits what the agent is about to run; false where the window refuses it.
    pub fn admit(&mut self, n: &NodeId) -> bool {
        let agent = &self.agents[n];
        let window = self.store.keys.get(&Key::Window(service()));
        let admits = window.is_none_or(
            |(value, _, _)| matches!(value, Value::Window(w) if w.body.admits(agent.release.version)),
        );
        if !admits {
            return false;
        }
        let inventory = Inventory {
            version: agent.release.version,
            release: Some(agent.release.tag.clone()),
            labels: [("zone".to_owned(), agent.zone.clone())].into(),
            identity: agent.report.identity.clone(),
            at: Timestamp(0),
        };
        let at = self.store.put(Key::Inventory(service(), n.clone()), inventory);
        self.agents.get_mut(n).unwrap().admitted = at;
        true
    }

    /// What the agent would report now.
    pub fn due(&self, n: &NodeId) -> Report {
        let agent = &self.agents[n];
        let staged = agent.staged.iter().map(|r| r.tag.clone()).collect();
        Report { admission: Revision(agent.admitted), staged, ..agent.report.clone() }
    }

    pub fn is_report_due(&self, n: &NodeId) -> bool {
        let stored = self.store.keys.get(&Key::Report(service(), n.clone()));
        !matches!(stored, Some((Value::Report(r), _, _)) if r.body == self.due(n))
    }

    pub fn publish(&mut self, n: &NodeId) {
        let report = self.due(n);
        let key = Key::Report(service(), n.clone());
        let same = matches!(self.store.keys.get(&key), Some((Value::Report(r), _, _)) if r.body == report);
        if !same {
            self.store.put(key, report);
        }
    }

    /// The lease lapses; the service goes on.
    pub fn fall_silent(&mut self, n: usize) {
        self.agents.get_mut(&node(n)).unwrap().alive = false;
        self.store.commit(&Commit::new().delete(Key::Report(service(), node(n))));
    }

    /// One step of every agent; whether any moved.
    pub fn agents_step(&mut self) -> bool {
        let nodes: Vec<NodeId> = self.agents.keys().cloned().collect();
        nodes.iter().map(|n| self.agent_step(n)).fold(false, |any, moved| any | moved)
    }

    /// One step of one agent, reported at once; false where it had nothing to do.
    pub fn agent_step(&mut self, n: &NodeId) -> bool {
        let moved = self.act(n);
        if self.agents[n].alive {
            self.publish(n);
        }
        moved
    }

    /// One step of one agent, not reported yet; false where it had nothing to do.
    pub fn act(&mut self, n: &NodeId) -> bool {
        let agent = &self.agents[n];
        if !agent.alive {
            return false;
        }
        let directed = self.store.keys.get(&Key::Directive(service(), n.clone())).map_or(0, |(_, at, _)| *at);
        let window = self.store.keys.get(&Key::Window(service())).map_or(0, |(_, modified, _)| *modified);
        if agent.idle == Some((directed, window)) {
            return false;
        }
        let before = (agent.report.clone(), agent.staged.clone(), agent.admitted);
        self.agents.get_mut(n).unwrap().report.window = Revision(window);
        if let Some((Value::Directive(directive), at, _)) =
            self.store.keys.get(&Key::Directive(service(), n.clone())).cloned()
        {
            self.stage(n, &directive.body.releases);
            self.obey(n, &directive.body.disposition, at);
        }
        let agent = self.agents.get_mut(n).unwrap();
        let moved = (&agent.report, &agent.staged, agent.admitted) != (&before.0, &before.1, before.2);
        agent.idle = (!moved).then_some((directed, window));
        moved
    }

    fn stage(&mut self, n: &NodeId, releases: &[Release]) {
        let agent = self.agents.get_mut(n).unwrap();
        let running = agent.release.clone();
        agent.staged.extend(releases.iter().cloned());
        agent.staged.retain(|r| releases.contains(r) || *r == running);
    }

    fn obey(&mut self, n: &NodeId, disposition: &Disposition, generation: i64) {
        let agent = self.agents.get_mut(n).unwrap();
        let fresh = agent.report.generation.0 < generation;
        agent.report.generation = Revision(generation);
        let (step, rotation, health) =
            (agent.report.step.clone(), agent.report.rotation, agent.report.health);
        let running = agent.release.clone();
        let mut go = |step: Step, rotation: Rotation, health: Health| {
            let agent = self.agents.get_mut(n).unwrap();
            (agent.report.step, agent.report.rotation, agent.report.health) = (step, rotation, health);
        };
        match (disposition, step) {
            (_, Step::Failed { .. }) if !fresh => {}
            (Disposition::Serve { .. }, Step::Draining | Step::Drained { .. }) => {
                go(Step::Verifying, Rotation::Returning, health)
            }
            (Disposition::Serve { .. }, Step::Verifying) => go(Step::Serving, Rotation::In, Health::Healthy),
            (Disposition::Serve { .. }, _) => {}
            (Disposition::Drain, Step::Draining) => {
                go(Step::Drained { forced: false }, Rotation::Out, health)
            }
            (Disposition::Drain, Step::Drained { .. }) => {}
            (Disposition::Drain, _) => go(Step::Draining, Rotation::Leaving, health),
            (Disposition::Replace { release }, Step::Verifying) if *release == running => self.verify(n),
            (Disposition::Replace { release }, Step::Serving)
                if *release == running && rotation == Rotation::In => {}
            (
                Disposition::Replace { release },
                Step::Drained { .. } | Step::Failed { .. } | Step::Refused { .. } | Step::Stopped,
            ) => self.replace(n, release),
            (Disposition::Replace { .. }, Step::Draining) => {
                go(Step::Drained { forced: false }, Rotation::Out, health)
            }
            (Disposition::Replace { .. }, _) => go(Step::Draining, Rotation::Leaving, health),
            (Disposition::Stop, _) => go(Step::Stopped, Rotation::Out, Health::Unknown),
        }
    }

    fn replace(&mut self, n: &NodeId, release: &Release) {
        let agent = self.agents.get_mut(n).unwrap();
        assert!(agent.staged.contains(release), "{n} is told to run {} and does not have it", release.tag);
        agent.release = release.clone();
        let admitted = self.admit(n);
        let agent = self.agents.get_mut(n).unwrap();
        agent.report.rotation = Rotation::Out;
        agent.report.health = Health::Unknown;
        if admitted {
            agent.report.step = Step::Verifying;
            agent.report.version = Some(release.version);
            agent.report.release = Some(release.tag.clone());
            agent.report.release_digest = Some(release.sha256);
        } else {
            agent.report.step = Step::Refused { reason: "outside the window".into() };
            agent.report.version = None;
        }
    }

    fn verify(&mut self, n: &NodeId) {
        let agent = self.agents.get_mut(n).unwrap();
        let broken = agent.broken_at == Some(i64::from(agent.release.version.get()));
        if broken {
            agent.report.step =
                Step::Failed { at: "verifying".into(), reason: "never became healthy".into() };
            agent.report.health = Health::Unhealthy;
        } else {
            agent.report.step = Step::Serving;
            agent.report.rotation = Rotation::In;
            agent.report.health = Health::Healthy;
        }
    }

    pub fn moment(&self) -> Moment {
        let mut moment = Moment {
            leader: self.term.clone(),
            wall: Timestamp(0),
            elapsed: BTreeMap::new(),
            next_event: self.events,
            schemas: BTreeMap::new(),
        };
        let id = upgrade_id();
        if let Some(upgrade) = self.upgrade() {
            let elapsed = tidegate_planner::Elapsed {
                stalled_ms: upgrade.stalled_ms + self.stalled_ms,
                phase_ms: upgrade.phase_ms,
            };
            moment.elapsed.insert(id.clone(), elapsed);
        }
        if let Some(facts) = &self.facts {
            moment.schemas.insert(id, facts.clone());
        }
        moment
    }

    pub fn upgrade(&self) -> Option<&Upgrade> {
        match self.store.keys.get(&Key::Upgrade(upgrade_id())) {
            Some((Value::Upgrade(record), _, _)) => Some(&record.body),
            _ => None,
        }
    }

    pub fn phase(&self) -> Phase {
        self.upgrade().expect("an upgrade was started").phase.clone()
    }

    /// Starts an upgrade that changes a schema, in Glance's order.
    pub fn start_with_schema(&mut self, spec: Spec, order: MigrateOrder) {
        let binding = SchemaBinding {
            id: "s1".parse().unwrap(),
            migrations: Digest::of(b"migrations"),
            order,
            old_reads_migrated: true,
        };
        let asker =
            tidegate_planner::ask::Asker { who: "op".into(), why: String::new(), accepts: BTreeSet::new() };
        let request =
            tidegate_planner::ask::StartRequest { id: upgrade_id(), spec, schema: Some(binding), asker };
        let commit = tidegate_planner::ask::start(self.store.fleet(), &self.moment(), request).unwrap();
        assert!(self.store.commit(&commit));
        self.events += 1;
    }

    /// The database does what it is told, at once.
    pub fn work(&mut self, job: SchemaJob) {
        let facts = self.facts.get_or_insert_with(|| SchemaFacts { clean: true, ..SchemaFacts::default() });
        match job {
            SchemaJob::Look => {}
            SchemaJob::Expand => (facts.expanded, facts.clean) = (true, false),
            SchemaJob::Migrate => facts.migrated = true,
            SchemaJob::Contract { .. } => facts.contracted = true,
            SchemaJob::Undo => *facts = SchemaFacts { clean: true, ..SchemaFacts::default() },
        }
        self.jobs.push(job);
    }

    /// Whether a certificate was made and stored; the reasons why not are kept.
    pub fn certify(&mut self) -> Result<(), Vec<tidegate_planner::Reason>> {
        let made = certify(self.store.fleet(), &self.moment(), &upgrade_id(), self.evidence.clone())?;
        for commit in &made.commits {
            assert!(self.store.commit(commit), "nobody wrote between the read and the commit");
            self.events += 1;
        }
        self.certificate = Some(made.certificate);
        Ok(())
    }

    /// Starts an upgrade as an operator would.
    pub fn start(&mut self, spec: Spec) -> Result<(), tidegate_planner::ask::Refusal> {
        let asker = tidegate_planner::ask::Asker {
            who: "op".into(),
            why: String::new(),
            accepts: Default::default(),
        };
        let request = tidegate_planner::ask::StartRequest { id: upgrade_id(), spec, schema: None, asker };
        let commit = tidegate_planner::ask::start(self.store.fleet(), &self.moment(), request)?;
        assert!(self.store.commit(&commit));
        self.events += 1;
        Ok(())
    }

    /// One turn of the leader: whether it changed anything, and what it waits for.
    pub fn turn(&mut self) -> (bool, Plan) {
        let plan = plan(self.store.fleet(), &self.moment());
        let mut changed = false;
        for action in &plan.actions {
            self.events += 1;
            match action {
                Action::Commit(planned) => {
                    assert!(
                        self.store.commit(&planned.commit),
                        "nobody else writes here, and {} was refused",
                        planned.what
                    );
                    changed = true;
                }
                Action::Schema { job, .. } => {
                    let before = self.facts.clone();
                    self.work(*job);
                    changed |= self.facts != before;
                }
                Action::Certify { .. } => changed |= self.certify().is_ok(),
            }
        }
        self.check_capacity();
        (changed, plan)
    }

    /// What balancers and requests would see: how many instances really serve.
    pub fn really_in_service(&self) -> usize {
        self.agents
            .values()
            .filter(|a| a.report.rotation == Rotation::In && a.report.health == Health::Healthy)
            .count()
    }

    fn check_capacity(&mut self) {
        self.min_seen_in_service = self.min_seen_in_service.min(self.really_in_service());
    }

    /// Turns and agents in turn until nothing changes any more; the last plan tells why.
    pub fn run(&mut self) -> Plan {
        let mut last = Plan::default();
        for _ in 0..100_000 {
            let (changed, plan) = self.turn();
            last = plan;
            let nodes: Vec<NodeId> = self.agents.keys().cloned().collect();
            let mut moved = false;
            for n in nodes {
                if self.agent_step(&n) {
                    moved = true;
                    self.check_capacity();
                }
            }
            if !changed && !moved {
                return last;
            }
        }
        panic!("it never came to rest; last: {:?}", last.waiting);
    }

    pub fn versions(&self) -> Vec<u32> {
        self.agents.values().map(|a| a.release.version.get()).collect()
    }
}
