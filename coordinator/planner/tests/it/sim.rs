//! A store, agents and a leader as plain data: an agent takes one step at a time, and the leader carries out what the
//! planner says.

mod agent;
mod database;
mod store;

pub(crate) use agent::Agent;
pub(crate) use database::{Database, later};
pub(crate) use store::Store;

use std::collections::{BTreeMap, BTreeSet};
use tidegate_planner::ask;
use tidegate_planner::certificate::{Certificate, Session};
use tidegate_planner::plan::DatabaseEvidence;
use tidegate_planner::{Action, Leading, Moment, Plan, SchemaFacts, SchemaJob, ViewAge, plan};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::leader::Leader;
use tidegate_proto::record::report::{Health, Rotation};
use tidegate_proto::record::upgrade::{MigrateOrder, Phase, SchemaBinding, Upgrade};
use tidegate_proto::spec::Spec;
use tidegate_proto::{
    Commit, Digest, InstanceId, Key, NodeId, Release, Revision, ServiceName, UpgradeId, Value, Write,
};

pub(crate) fn service() -> ServiceName {
    "pantry-api".parse().unwrap()
}

pub(crate) fn node(n: usize) -> NodeId {
    format!("n{n}").parse().unwrap()
}

pub(crate) fn upgrade_id() -> UpgradeId {
    "u1".parse().unwrap()
}

pub(crate) fn release(version: i64) -> Release {
    Release {
        tag: format!("pantry-{version}.0.0").parse().unwrap(),
        sha256: Digest::of(format!("artifact {version}").as_bytes()),
        version: tidegate_proto::ServiceVersion::new(version).unwrap(),
    }
}

/// A spec from 1 to 2, with changes in JSON.
pub(crate) fn spec(change: serde_json::Value) -> Spec {
    let mut value = serde_json::json!({
        "service": "pantry-api", "from": 1, "to": 2,
        "release": {"tag": "pantry-2.0.0", "sha256": release(2).sha256},
    });
    let (target, change) = (value.as_object_mut().unwrap(), change);
    target.extend(change.as_object().unwrap().clone());
    serde_json::from_value(value).unwrap()
}

pub(crate) fn sessions(names: &[&str]) -> BTreeSet<Session> {
    names
        .iter()
        .map(|name| Session { name: (*name).to_owned(), kind: "session".to_owned(), ..Session::default() })
        .collect()
}

/// Whether an upgrade that is active either moves or says why it does not. There is one at most here.
pub(crate) fn says_why(plan: &Plan) -> bool {
    !plan.actions.is_empty() || plan.waiting.values().all(|reasons| !reasons.is_empty())
}

/// The whole world.
#[derive(Clone)]
pub(crate) struct World {
    pub store: Store,
    pub agents: BTreeMap<NodeId, Agent>,
    pub term: Leading,
    pub events: u64,
    pub stalled_ms: u64,
    /// How long each stream's record is unchanged.
    pub uncounted: BTreeMap<tidegate_proto::StreamName, u64>,
    /// The same of each metadata group.
    pub group_uncounted: BTreeMap<tidegate_proto::GroupName, u64>,
    pub database: Database,
    /// What the schema worker reported of the database.
    pub facts: Option<SchemaFacts>,
    /// How long orders are declined.
    pub declined_ms: BTreeMap<InstanceId, u64>,
    /// How long ago the last instance was ordered back.
    pub recalled_ms: BTreeMap<ServiceName, u64>,
    /// How long the leader has led.
    pub leading_ms: u64,
    /// How old the view of the next turn is.
    pub view: ViewAge,
    /// See the moment.
    pub unanswered: BTreeSet<ServiceName>,
    pub jobs: Vec<SchemaJob>,
    /// What an undo leaves in place.
    pub leaves_in_place: Vec<String>,
    /// What the database answers when a certificate is made.
    pub evidence: DatabaseEvidence,
    pub certificate: Option<Certificate>,
    pub min_seen_in_service: usize,
}

/// What the database of every story is.
pub(crate) fn binding(order: MigrateOrder) -> SchemaBinding {
    SchemaBinding {
        id: "s1".parse().unwrap(),
        migrations: Digest::of(b"migrations"),
        order,
        old_reads_migrated: true,
        own: vec!["0002_it".into()],
        left: Vec::new(),
        form_left: false,
        migrate_floors: BTreeMap::new(),
    }
}

/// How many events a commit writes.
fn events_in(commit: &Commit) -> u64 {
    commit.writes.iter().filter(|write| matches!(write, Write::Put(Key::Event(..), _))).count() as u64
}

impl World {
    /// `nodes` instances at version 1, in zones a, b, c in turn.
    pub(crate) fn at_version_1(nodes: usize) -> Self {
        let mut world = Self {
            store: Store::default(),
            agents: BTreeMap::new(),
            term: Leading { term: "t0".parse().unwrap(), revision: Revision::ABSENT },
            events: 0,
            stalled_ms: 0,
            uncounted: BTreeMap::new(),
            group_uncounted: BTreeMap::new(),
            database: Database::default(),
            facts: None,
            declined_ms: BTreeMap::new(),
            recalled_ms: BTreeMap::new(),
            leading_ms: 0,
            view: ViewAge::default(),
            unanswered: BTreeSet::new(),
            jobs: Vec::new(),
            leaves_in_place: Vec::new(),
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

    pub(crate) fn elect(&mut self, term: usize) {
        self.store.keys.remove(&Key::Leader);
        let id: tidegate_proto::TermId = format!("t{term}").parse().unwrap();
        let created = self.store.put(Key::Leader, Leader { term: id.clone(), address: "here".into() });
        self.term = Leading { term: id, revision: Revision(created) };
        self.events = 0;
    }

    pub(crate) fn moment(&self) -> Moment {
        let mut moment = Moment {
            leader: self.term.clone(),
            wall: Timestamp(0),
            elapsed: BTreeMap::new(),
            next_event: self.events,
            uncounted: self.uncounted.clone(),
            group_uncounted: self.group_uncounted.clone(),
            schemas: BTreeMap::new(),
            declined_ms: self.declined_ms.clone(),
            recalled_ms: self.recalled_ms.clone(),
            leading_ms: self.leading_ms,
            report_grace_left_ms: 0,
            view: self.view,
            unanswered: self.unanswered.clone(),
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

    pub(crate) fn upgrade(&self) -> Option<&Upgrade> {
        match self.store.keys.get(&Key::Upgrade(upgrade_id())) {
            Some((Value::Upgrade(record), _, _)) => Some(&record.body),
            _ => None,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.upgrade().expect("an upgrade was started").phase.clone()
    }

    /// Starts an upgrade that changes a schema, in Glance's order.
    pub(crate) fn start_with_schema(&mut self, spec: Spec, order: MigrateOrder) {
        self.start_bound(spec, binding(order)).unwrap();
    }

    /// Starts an upgrade on a database that was found to be this.
    pub(crate) fn start_bound(
        &mut self,
        spec: Spec,
        binding: SchemaBinding,
    ) -> Result<(), tidegate_planner::ask::Refusal> {
        let asker =
            tidegate_planner::ask::Asker { who: "op".into(), why: String::new(), accepts: BTreeSet::new() };
        let request =
            tidegate_planner::ask::StartRequest { id: upgrade_id(), spec, schema: Some(binding), asker };
        let commit = tidegate_planner::ask::start(self.store.fleet(), &self.moment(), request)?;
        assert!(self.store.commit(&commit));
        self.events += 1;
        Ok(())
    }

    /// Another upgrade contracts a schema that our service shares, and requires this version of it.
    pub(crate) fn contract_elsewhere(&mut self, requires: i64) {
        let requires = tidegate_proto::ServiceVersion::new(requires).unwrap();
        let services: BTreeMap<ServiceName, _> = [(service(), requires)].into();
        let body = tidegate_proto::record::schema::Schema {
            contracted: services.clone(),
            services,
            migrations: Digest::of(b"migrations"),
            upgrade: "elsewhere".parse().unwrap(),
        };
        self.store.put(Key::Schema("shared".parse().unwrap()), body);
    }

    /// Starts an upgrade as an operator would.
    pub(crate) fn start(&mut self, spec: Spec) -> Result<(), tidegate_planner::ask::Refusal> {
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

    /// The failures that are recorded, each with whether it counts against the budget.
    pub(crate) fn failures(&self) -> Vec<(NodeId, tidegate_proto::record::upgrade::Failure, bool)> {
        let fleet = self.store.fleet();
        let exceptions = fleet.exceptions(&upgrade_id(), fleet.upgrade(&upgrade_id()).unwrap());
        let each = exceptions.failures().map(|(n, f)| (n.clone(), f.clone(), exceptions.counts(f)));
        each.collect()
    }

    /// A person lets it go on.
    pub(crate) fn resume(&mut self) {
        let asker =
            tidegate_planner::ask::Asker { who: "op".into(), why: String::new(), accepts: BTreeSet::new() };
        let commit = tidegate_planner::ask::resume(self.store.fleet(), &self.moment(), &upgrade_id(), &asker);
        assert!(self.store.commit(&commit.unwrap()));
        self.events += 1;
    }

    /// One turn of the leader: whether it changed anything, and what it waits for.
    pub(crate) fn turn(&mut self) -> (bool, Plan) {
        let plan = plan(self.store.fleet(), &self.moment());
        assert!(says_why(&plan), "it neither moves nor says why: {:?}", self.phase());
        let mut changed = false;
        for action in &plan.actions {
            match action {
                Action::Commit(planned) => {
                    self.events += events_in(&planned.commit);
                    assert!(
                        crate::stale_view::compares_budget(&planned.commit),
                        "late, {} may take out too many",
                        planned.what
                    );
                    assert!(
                        self.store.commit(&planned.commit),
                        "no other writer is here, and {} was refused",
                        planned.what
                    );
                    changed = true;
                }
                Action::Schema { job, .. } => {
                    let before = self.facts.clone();
                    self.work(*job);
                    changed |= self.facts != before;
                }
                Action::Certify { .. } => {
                    let before = self.facts.clone();
                    changed |= self.certify().is_ok() || self.facts != before;
                }
            }
        }
        self.check_capacity();
        (changed, plan)
    }

    /// What balancers and requests would see: how many instances really serve.
    pub(crate) fn really_in_service(&self) -> usize {
        self.agents
            .values()
            .filter(|a| a.report.rotation == Rotation::In && a.report.health == Health::Healthy)
            .count()
    }

    fn check_capacity(&mut self) {
        self.min_seen_in_service = self.min_seen_in_service.min(self.really_in_service());
    }

    /// Turns and agents in turn until nothing changes any more; the last plan says why.
    pub(crate) fn run(&mut self) -> Plan {
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

    /// Turns and agents in turn until it is so.
    pub(crate) fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..1000 {
            if is_so(self) {
                return;
            }
            self.turn();
            self.agents_step();
        }
        panic!("1000 turns, and it is not so that {what}; it stands in {:?}", self.phase());
    }

    /// A person rolls the upgrade back.
    pub(crate) fn roll_back(&mut self) {
        let asker = ask::Asker { who: "op".into(), why: "regret".into(), accepts: Default::default() };
        let commit = ask::roll_back(self.store.fleet(), &self.moment(), &upgrade_id(), &asker).unwrap();
        assert!(self.store.commit(&commit));
        self.events += 1;
    }

    /// A person says that an instance was stopped, and takes it out of the fleet.
    pub(crate) fn decommission(&mut self, n: usize) {
        let asker = ask::Asker { who: "op".into(), why: "burnt".into(), accepts: Default::default() };
        let how = ask::Gone { stopped_how: Some("it is off".into()), ..Default::default() };
        let id = InstanceId::new(service(), node(n));
        let commit = ask::decommission(self.store.fleet(), &self.moment(), &id, how, &asker).unwrap();
        assert!(self.store.commit(&commit));
        self.events += 1;
    }

    /// Something was written after a plan was made: of its commits, the one with this reason is refused.
    pub(crate) fn refuses_late(&mut self, plan: Plan, reason: &str) {
        let mut tried = 0;
        for action in plan.actions {
            let Action::Commit(planned) = action else { continue };
            if planned.what.starts_with(reason) {
                tried += 1;
                assert!(!self.store.commit(&planned.commit), "{} was carried out", planned.what);
            }
        }
        assert_eq!(tried, 1, "commits of {reason:?} in the plan");
    }

    /// The same until it rolls.
    pub(crate) fn until_roll(&mut self) {
        self.until("it rolls", |world| matches!(world.phase(), Phase::Roll { .. }));
    }

    pub(crate) fn versions(&self) -> Vec<u32> {
        self.agents.values().map(|a| a.release.version.get()).collect()
    }
}
