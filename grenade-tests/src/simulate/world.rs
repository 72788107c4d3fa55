//! A whole simulated world: everything of a scenario, put up.

use super::agent::{Agent, IMPOSTOR};
use super::auditor::Auditor;
use super::by_hand;
use super::coordinator::Coordinator;
use super::database::Database;
use super::dice::Dice;
use super::event_log::EventLog;
use super::judge::{Facts, Limits, ServiceFacts};
use super::line::Place;
use super::names::Names;
use super::narrow_store;
use super::old_sessions::Sessions;
use super::operators::Operators;
use super::paused_job::PausedJob;
use super::scenario::{ReleasePlan, Scenario};
use super::sharing::Wanted;
use super::slot::{At, Behaviour, Server};
use super::tamper::Spoilt;
use super::testbed::Testbed;
use super::upgrade_id::place_of;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::InstanceId;

/// What there is, and the processes in it.
pub(super) struct World {
    /// What was drawn.
    pub scenario: Scenario,
    /// Nodes and services.
    pub testbed: Testbed,
    /// The store.
    pub place: Place,
    /// Agents, by node; none while one is dead.
    pub agents: Vec<Option<Agent>>,
    /// Second agents with the name of a first.
    pub impostors: Vec<Option<Agent>>,
    /// Coordinators; none while one is dead.
    pub coordinators: Vec<Option<Coordinator>>,
    /// Databases, by schema.
    pub databases: Vec<Database>,
    /// The sessions of programs, by schema.
    pub sessions: Vec<Sessions>,
    /// What the engine had written into each schema under the pause of its upgrade.
    pub paused_jobs: Vec<Option<PausedJob>>,
    /// The history of the store.
    pub auditor: Auditor,
    /// Keys to which unreadable values were written.
    pub garbage: Vec<tidegate_proto::Key>,
    /// The store as it was a while ago.
    pub snapshot: Option<Embedded>,
    /// The history of the store that it is of, where that was replaced since.
    kept_history: Option<crate::trace::Trace>,
    /// Another store took the place of the one that there was.
    pub store_lost: bool,
    /// The history of stores that were replaced was good up to then.
    pub former: Vec<crate::trace::Broken>,
    /// Nodes whose agents lie now.
    pub byzantine: BTreeSet<usize>,
    /// Services whose people try nothing further, until another upgrade needs that.
    pub given_up: BTreeSet<usize>,
    /// Upgrades, by their place, that services which share the schema may follow.
    pub wanted: BTreeMap<usize, Wanted>,
    /// The release with which the next upgrade of a service is to go on, where one was cut off.
    pub goes_on_with: BTreeMap<usize, String>,
    /// Nodes that are switched off for good, as far as people know.
    pub left: BTreeSet<usize>,
    /// Nodes without power: nothing is started there.
    pub off: BTreeSet<usize>,
    /// Instances whose journal is gone and whose agent was not started since.
    pub without_journal: BTreeSet<At>,
    /// Records that people have put back: a restored store may have the unreadable one again.
    pub put_back: Vec<Spoilt>,
    /// Storage goes back to this version, below what a release needs: its people withdraw it.
    pub withdraw: Option<u32>,
    /// The next upgrade is started by two people at once, after a dry run.
    pub started_twice: bool,
    /// People who ask for something beside those who follow the upgrades.
    pub operators: Operators,
    /// Chance for whatever is started.
    pub dice: Dice,
    /// Of what agents that lie write beside reports and admissions.
    pub lies: Dice,
    directory: PathBuf,
}

/// The tag of a service's release.
pub(super) fn tag(service: &str, version: u32) -> String {
    format!("{service}-{version}")
}

/// The variable that names a schema's database.
pub(super) fn variable(schema: usize) -> String {
    format!("SIMULATED_DATABASE_{schema}")
}

/// The name of a schema, of its file and of its directory of migrations.
pub(super) fn schema_name(schema: usize) -> String {
    format!("schema{schema}")
}

fn releases(scenario: &Scenario) -> BTreeMap<String, Behaviour> {
    let mut releases = BTreeMap::new();
    for (n, service) in scenario.services.iter().enumerate() {
        let first = scenario.first_version(n);
        releases.insert(tag(&service.name, first), behaviour(first, ReleasePlan::Good));
    }
    for upgrade in &scenario.upgrades {
        let version = upgrade.from + 1;
        let name = &scenario.services[upgrade.service].name;
        releases.insert(tag(name, version), behaviour(version, upgrade.release));
        // What is built after the first try failed, under a tag of its own.
        releases.insert(format!("{}-mended", tag(name, version)), behaviour(version, ReleasePlan::Good));
    }
    releases
}

fn behaviour(version: u32, plan: ReleasePlan) -> Behaviour {
    let mut is = Behaviour::good(version, 600);
    match plan {
        ReleasePlan::Good => {}
        ReleasePlan::NeverStarts => is.starts = false,
        ReleasePlan::CrashesAfter(after) => is.crashes_after = Some(after),
        ReleasePlan::Flaps => is.flaps = Some(1_500),
        ReleasePlan::HealthFlaps(period) => is.health_flaps = Some(period),
        ReleasePlan::Slow => is.ready_after = 8_000,
        ReleasePlan::Lies => is.says = Some(version - 1),
    }
    is
}

impl World {
    /// Puts everything up; databases and migrations in `directory`.
    ///
    /// # Errors
    /// What the file system says.
    pub(super) async fn make(scenario: Scenario, directory: &Path, keeps: bool) -> anyhow::Result<Self> {
        let services: Vec<String> = scenario.services.iter().map(|service| service.name.clone()).collect();
        let nodes: Vec<String> = (0..scenario.zones.len()).map(|n| format!("n{n:02}")).collect();
        let known = |service: &super::scenario::ServicePlan| {
            ServiceFacts::before_upgrades(service.nodes.len() as u64, service.asks_balancer)
        };
        let facts = Facts {
            services: scenario.services.iter().map(known).collect(),
            limits: scenario.upgrades.iter().map(Limits::of).collect(),
            ..Facts::default()
        };
        let testbed =
            Testbed::new(Names { services, nodes }, releases(&scenario), EventLog::new(keeps), facts);
        let mut databases = Vec::new();
        for (n, plan) in scenario.schemas.iter().enumerate() {
            let shares = scenario.owner(n).map(|owner| scenario.sharing(owner)).unwrap_or_default();
            let shares: Vec<&str> = shares.iter().map(|of| scenario.services[*of].name.as_str()).collect();
            let (name, url) = (schema_name(n), std::env::var(variable(n))?);
            databases.push(Database::make(plan, directory, (&name, &url), &shares).await?);
        }
        std::fs::create_dir_all(directory.join("migrations"))?;
        by_hand::adopt_all(&scenario, &directory.join("migrations")).await?;
        let place = Place::of(narrow_store::empty(&scenario)).at(scenario.latency);
        let begun = narrow_store::leave(&scenario, &place.store()).await?;
        testbed.state().failure_output = narrow_store::failure_output(&scenario);
        let auditor = Auditor::begin(&place.store(), testbed.clone(), begun).await?;
        let mut world = Self {
            dice: Dice::of(scenario.seed, "processes"),
            lies: Dice::of(scenario.seed, "lies elsewhere"),
            garbage: Vec::new(),
            snapshot: None,
            kept_history: None,
            store_lost: false,
            former: Vec::new(),
            byzantine: BTreeSet::new(),
            given_up: BTreeSet::new(),
            wanted: BTreeMap::new(),
            goes_on_with: BTreeMap::new(),
            left: BTreeSet::new(),
            off: BTreeSet::new(),
            without_journal: BTreeSet::new(),
            put_back: Vec::new(),
            withdraw: None,
            started_twice: false,
            operators: Operators::default(),
            agents: (0..scenario.zones.len()).map(|_| None).collect(),
            impostors: (0..scenario.zones.len()).map(|_| None).collect(),
            coordinators: (0..scenario.coordinators).map(|_| None).collect(),
            testbed,
            place,
            sessions: databases.iter().map(|_| Sessions::default()).collect(),
            paused_jobs: databases.iter().map(|_| None).collect(),
            databases,
            auditor,
            directory: directory.to_owned(),
            scenario,
        };
        world.services_run();
        for n in 0..world.coordinators.len() {
            world.start_coordinator(n).await?;
        }
        for n in 0..world.agents.len() {
            if !world.services_on(n).is_empty() {
                world.start_agent(n);
            }
        }
        Ok(world)
    }

    /// Follows the store that is there now; what was broken in the history of the former one stays known.
    ///
    /// # Errors
    /// None in practice.
    pub(super) async fn audit_new_store(&mut self) -> Result<(), etcd_client::Error> {
        self.former.extend(self.auditor.breaches(None));
        // It is replaced by a copy of the store from the time of the snapshot, or by a blank one.
        let mut history = self.kept_history.get_or_insert_with(|| self.auditor.history()).clone();
        history.take_over_processes(&self.auditor.trace());
        let now = self.testbed.now();
        self.testbed.state().facts.services.iter_mut().for_each(|service| service.loses_its_store(now));
        let directives = self.auditor.directives();
        self.auditor =
            Auditor::follow_copy(history, &directives, &self.place.store(), self.testbed.clone()).await?;
        for (service, id) in self.auditor.begun_last() {
            let place = self.testbed.names().service(service.as_str());
            let plan = place_of(id.as_str()).and_then(|n| self.scenario.upgrades.get(n));
            if let (Some(place), Some(plan)) = (place, plan) {
                self.testbed.state().facts.services[place].is_bound_by(plan);
            }
        }
        Ok(())
    }

    /// Keeps the store as it is now.
    pub(super) fn keep_store(&mut self) {
        self.snapshot = Some(self.place.store().restored_in_memory());
        self.kept_history = None;
    }

    /// The first version ran long before Tidegate came.
    fn services_run(&mut self) {
        for (place, service) in self.scenario.services.iter().enumerate() {
            for node in &service.nodes {
                let first = tag(&service.name, self.scenario.first_version(place));
                self.testbed.start((place, *node), &first);
                self.testbed.change((place, *node), |slot, _| {
                    slot.staged.insert(first);
                    slot.is_of(service);
                    slot.server = Server { up: true, against: 0, down_at: 0 };
                    if let Some(run) = &mut slot.running {
                        run.is.ready_after = 0;
                    }
                });
            }
        }
    }

    /// A service comes to a node that was not there, at a version: its machine starts it, or the agent does.
    pub(super) fn joins(&mut self, service: usize, node: usize, version: u32) {
        let plan = &mut self.scenario.services[service];
        plan.late.retain(|late| *late != node);
        plan.nodes.push(node);
        let first = tag(&plan.name, version);
        self.testbed.log(format!("{} joins with {first}", self.testbed.names().instance((service, node))));
        self.testbed.change((service, node), |slot, _| {
            slot.staged.insert(first.clone());
            slot.is_of(plan);
            (slot.last, slot.came_with) = (Some(first.clone()), Some(first));
        });
        self.testbed.state().facts.services[service].instances += 1;
        self.testbed.boots((service, node));
    }

    /// Corrects which releases the configs of agents name, where an answer names their nodes and asks for that: an agent cannot
    /// say which of two releases of one version runs, or a release is missing there.
    pub(super) fn correct_config(&mut self, service: usize, answer: &str) {
        let now = self.testbed.now();
        for node in self.scenario.services[service].nodes.clone() {
            let name = &self.testbed.names().nodes[node];
            if !answer.contains(name.as_str()) || self.agents[node].is_none() {
                continue;
            }
            let is_changed = {
                let mut state = self.testbed.state();
                let slot = state.slots.get_mut(&(service, node));
                slot.is_some_and(|slot| slot.correct_config(answer, now))
            };
            if is_changed {
                self.testbed.log(format!("the config of {name} names other releases"));
                self.agents[node].take().into_iter().for_each(Agent::kill);
                self.start_agent(node);
            }
        }
    }

    /// Where the migrations of every schema lie.
    pub(super) fn migrations(&self) -> PathBuf {
        self.directory.join("migrations")
    }

    /// Starts a coordinator.
    ///
    /// # Errors
    /// None in practice.
    pub(super) async fn start_coordinator(&mut self, n: usize) -> anyhow::Result<()> {
        if self.coordinators[n].is_none() {
            let (name, migrations) = (format!("c{n}"), self.migrations());
            self.coordinators[n] =
                Some(Coordinator::start(&self.place, &name, migrations, &mut self.dice).await?);
        }
        Ok(())
    }

    /// Starts the agent of a node. On one without power nothing starts: it starts when that boots.
    pub(super) fn start_agent(&mut self, node: usize) {
        if self.agents[node].is_none() && !self.off.contains(&node) {
            let nonce = format!("nonce-{node}");
            self.auditor.note_restart(&self.testbed.names().nodes[node]);
            let now = self.testbed.now();
            self.testbed.state().facts.agent_started(node, now);
            for service in self.services_on(node) {
                if self.without_journal.remove(&(service, node)) {
                    self.note_lost_journal((service, node));
                }
            }
            let (scenario, testbed, place) = (&self.scenario, &self.testbed, &self.place);
            self.agents[node] = Some(Agent::start(scenario, testbed, place, node, &nonce, &mut self.dice));
        }
    }

    /// The agent of an instance starts without its journal: it has no more than the store has.
    fn note_lost_journal(&self, at: At) {
        let names = self.testbed.names();
        let parsed = (names.services[at.0].parse().ok(), names.nodes[at.1].parse().ok());
        if let (Some(service), Some(node)) = parsed {
            self.auditor.note_lost_journal(InstanceId::new(service, node));
        }
        let (now, mut state) = (self.testbed.now(), self.testbed.state());
        state.facts.starts_without_journal(at);
        state.facts.journals_lost.insert(at.1, now);
    }

    /// Starts a second agent with the name of a node's first.
    pub(super) fn start_impostor(&mut self, node: usize) {
        if self.impostors[node].is_none() {
            let (scenario, testbed, place) = (&self.scenario, &self.testbed, &self.place);
            self.impostors[node] =
                Some(Agent::start(scenario, testbed, place, node, IMPOSTOR, &mut self.dice));
        }
    }

    /// How many instances of a service run a version.
    pub(super) fn runs_at(&self, service: usize, version: u32) -> u64 {
        let (now, state) = (self.testbed.now(), self.testbed.state());
        let of = state.slots.iter().filter(|((of, _), _)| *of == service);
        of.filter(|(_, slot)| slot.alive(now).is_some_and(|run| run.is.version == version)).count() as u64
    }

    /// The services of a node, by place.
    pub(super) fn services_on(&self, node: usize) -> Vec<usize> {
        let of = self.scenario.services.iter().enumerate();
        of.filter(|(_, service)| service.nodes.contains(&node)).map(|(n, _)| n).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::draw;

    impl World {
        /// A world of two services with upgrades, and neither nodes, coordinators nor databases.
        pub(in crate::simulate) async fn bare(directory: &Path) -> Self {
            let has_upgrade =
                |drawn: &Scenario, of: usize| drawn.upgrades.iter().any(|plan| plan.service == of);
            let has_both = |drawn: &Scenario| has_upgrade(drawn, 0) && has_upgrade(drawn, 1);
            let mut drawn = (1..2_000).map(draw::scenario).find(has_both).unwrap();
            for service in &mut drawn.services {
                (service.nodes, service.late, service.schema) = (Vec::new(), Vec::new(), None);
            }
            drawn.schemas.clear();
            (drawn.faults, drawn.coordinators, drawn.max_request) = (Vec::new(), 0, None);
            Self::make(drawn, directory, false).await.unwrap()
        }
    }
}
