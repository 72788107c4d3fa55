//! A fleet that is upgraded: store, coordinators, agents with their instances, balancer.

mod command;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use grenade_tests::crash::Reaper;
use grenade_tests::crash::asked::{self, Asked};
use grenade_tests::crash::proxy::Proxy;
use grenade_tests::fixture::migrations;
use grenade_tests::fixture::node::{DATABASE_VARIABLE, NEW, NodeConfig, OLD, PROGRAM, SERVICE};
use grenade_tests::fixture::pantry;
use grenade_tests::load::LoadHandle;
use grenade_tests::world::agent::Agent;
use grenade_tests::world::balancer::RunningBalancer;
use grenade_tests::world::coordinator::{Coordinator, CoordinatorPlan};
use grenade_tests::world::etcd::Etcd;
use grenade_tests::world::postgres::{DATABASE, Postgres, USER};
use grenade_tests::world::{balancer, etcd, port, postgres, program};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sha2::{Digest, Sha256};

pub(super) use self::command::{Said, run, tidegate};
use super::line::Line;
use crate::rig::Rig;

/// How long anything of an upgrade of three instances may take on a busy machine.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// How long the store waits for an agent.
pub(super) const LEASE: Duration = Duration::from_secs(3);
/// The upgrade's name.
pub(super) const ID: &str = "u1";

/// Names, for the coordinators, a database without a server.
pub(super) const NOWHERE: &str = "NOWHERE_DATABASE_URL";
/// Names, for the coordinators, the database with a wrong password.
pub(super) const STRANGER: &str = "STRANGER_DATABASE_URL";
/// That password; no message may contain it.
pub(super) const SECRET: &str = "not-the-password";

/// The fleet's size, store and database.
#[derive(Clone, Copy)]
pub(super) struct Ground {
    pub instances: u32,
    pub rows: u32,
    /// Two coordinators on a real etcd, instead of one with the embedded store.
    pub etcd: bool,
    pub postgres: bool,
}

impl Ground {
    pub(super) const SMALL: Self = Self { instances: 3, rows: 200, etcd: false, postgres: false };
}

/// Whose processes are killed at points of theirs.
pub(super) struct Watched {
    pub reaper: Reaper,
    /// From which of the instances on version 2 never becomes healthy.
    pub broken_from: u32,
}

/// The gate of one process that is watched.
struct Gate {
    proxy: Proxy,
    asked: Asked,
}

impl Gate {
    async fn before(rig: &Rig, process: &str, store: &str, reaper: &Reaper) -> Self {
        let proxy = Proxy::start(process, store, reaper).await.unwrap();
        Self { proxy, asked: Asked::start(rig.world.dir(), process, reaper).unwrap() }
    }

    fn env(&self) -> (String, String) {
        (asked::VARIABLE.to_owned(), self.asked.socket().to_str().unwrap().to_owned())
    }
}

pub(super) struct Fleet {
    pub coordinators: Vec<Coordinator>,
    pub agents: Vec<Agent>,
    pub balancer: RunningBalancer,
    pub nodes: Vec<(String, SocketAddr)>,
    pub etcd: Option<Etcd>,
    _postgres: Option<Postgres>,
    /// Between the last agent and its store.
    pub line: Line,
    /// Where the store is.
    pub store: String,
    /// The catalogue's URL.
    pub database: String,
    watched: Option<Watched>,
    gates: Vec<Gate>,
    pub sha256: String,
    pub rows: u32,
    // Last, so that everything above is there when the world ends what is left.
    pub rig: Rig,
}

impl Fleet {
    /// Brings it up; every instance is at version 1 and in rotation.
    pub(super) async fn on(ground: Ground) -> Self {
        Self::built(ground, None).await
    }

    /// The same on a real etcd, with one coordinator; every process is behind a gate of its own.
    pub(super) async fn watched(ground: Ground, watched: Watched) -> Self {
        Self::built(Ground { etcd: true, ..ground }, Some(watched)).await
    }

    async fn built(ground: Ground, watched: Option<Watched>) -> Self {
        let rig = Rig::new();
        let world = &rig.world;
        let sha256 = artifacts(&rig);
        let postgres = if ground.postgres { Some(postgres::start(world).await.unwrap()) } else { None };
        let database = match &postgres {
            Some(server) => server.url(),
            None => format!("sqlite:{}", world.path("pantry.db").display()),
        };
        pantry::seed(world, &database, ground.rows).await.unwrap();
        // Where coordinators die often, the shortest leases: etcd's least is one and a half election timeouts.
        let quick = ["--heartbeat-interval", "50", "--election-timeout", "500"];
        let more = if watched.is_some() { &quick[..] } else { &[] };
        let etcd = if ground.etcd { Some(etcd::start_with(world, 1, more).await.unwrap()) } else { None };
        let listen = port::free().unwrap();
        let store =
            etcd.as_ref().map_or_else(|| format!("http://{listen}"), |etcd| etcd.endpoints().remove(0));
        let (mut coordinators, mut gates) = (Vec::new(), Vec::new());
        for name in if ground.etcd && watched.is_none() { &["left", "right"][..] } else { &["only"] } {
            let embedded = format!("embedded:{}", world.path("store").display());
            let mut env = environment(&database, postgres.as_ref());
            let mut store = etcd.as_ref().map_or(embedded, Etcd::store_argument);
            if let (Some(watched), Some(etcd)) = (&watched, &etcd) {
                let gate = Gate::before(&rig, name, &etcd.endpoints()[0], &watched.reaper).await;
                store = format!("etcd:{}", gate.proxy.url());
                env.push(gate.env());
                gates.push(gate);
            }
            // Where they die often, the store is the same each time: it need not wait for reports first.
            let (ttl, report_grace) = if watched.is_some() { ("1s", "0s") } else { ("2s", "3s") };
            let plan = CoordinatorPlan {
                store_listen: etcd.is_none().then_some(listen),
                env,
                args: [
                    "--migrations",
                    migrations::write(world).unwrap().to_str().unwrap(),
                    "--leader-ttl",
                    ttl,
                    "--report-grace",
                    report_grace,
                ]
                .map(str::to_owned)
                .to_vec(),
                ..CoordinatorPlan::new(name, store).unwrap()
            };
            coordinators.push(Coordinator::start(world, plan).await.unwrap());
        }
        let nodes: Vec<_> =
            (1..=ground.instances).map(|n| (format!("node-{n}"), port::free().unwrap())).collect();
        let balancer = balancer::start(world, &nodes).await.unwrap();
        let line = Line::to(store.strip_prefix("http://").unwrap()).await;
        let mut fleet = Self {
            coordinators,
            agents: Vec::new(),
            balancer,
            nodes,
            etcd,
            _postgres: postgres,
            line,
            store,
            database,
            watched,
            gates,
            sha256,
            rows: ground.rows,
            rig,
        };
        for n in 0..fleet.nodes.len() {
            let agent = fleet.agent(n).await;
            fleet.agents.push(agent);
        }
        fleet.all_serve(1).await;
        fleet
    }

    async fn agent(&mut self, n: usize) -> Agent {
        let (node, last) = (self.nodes[n].0.clone(), n + 1 == self.nodes.len());
        let mut store = if last { self.line.url() } else { self.store.clone() };
        let mut env = Vec::new();
        if let Some(watched) = &self.watched {
            let gate = Gate::before(&self.rig, &node, &self.store, &watched.reaper).await;
            store = gate.proxy.url();
            env.push(gate.env());
            self.gates.push(gate);
        }
        let config = self.config(n, store);
        Agent::start_with(&self.rig.world, &node, &config, env).unwrap()
    }

    fn config(&self, n: usize, store: String) -> String {
        let (node, address) = &self.nodes[n];
        let store = [store];
        let config = NodeConfig {
            node,
            home: self.home(node),
            address: *address,
            database: &self.database,
            store: &store,
            balancer: &self.balancer.stats_socket,
            artifacts: &self.rig.world.path("artifacts"),
            broken: self.watched.as_ref().map(|watched| (watched.broken_from, self.start_ledger())),
        };
        for dir in ["state", "run"] {
            std::fs::create_dir_all(config.home.join(dir)).unwrap();
        }
        format!("lease_ttl = \"{}s\"\n{}", LEASE.as_secs(), config.toml())
    }

    /// Where starts of version 2 are counted, in a fleet that is watched: a line `<node> <pid> <when>` each.
    pub(super) fn start_ledger(&self) -> PathBuf {
        self.rig.world.path("starts-of-version-2")
    }

    pub(super) fn home(&self, node: &str) -> PathBuf {
        self.rig.world.path("nodes").join(node)
    }

    pub(super) fn disable_file(&self, node: &str) -> PathBuf {
        self.home(node).join("pantry-api.disable")
    }

    /// A spec with these lines of its own.
    pub(super) fn spec(&self, more: &str) -> String {
        format!(
            "service: {SERVICE}\nfrom: 1\nto: 2\nrelease: {{tag: {NEW}, sha256: {}}}\n\
             health: {{min_healthy_time: 300ms, healthy_deadline: 30s, progress_deadline: 2m}}\n\
             drain: {{evidence: haproxy, deadline: 30s, on_deadline: fail}}\n\
             failures: {{tolerate: 0, per_wave: 0, then: pause}}\n\
             schema: {{database: {{from_env: {DATABASE_VARIABLE}}}, migrations: {}}}\n{more}\n",
            self.sha256,
            migrations::DIRECTORY,
        )
    }

    /// Writes a spec into a file; its path.
    pub(super) fn spec_file(&self, spec: &str) -> String {
        let path = self.rig.world.path("upgrade.yaml");
        std::fs::write(&path, spec).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Starts an upgrade, which must be accepted.
    pub(super) async fn upgrade(&self, more: &str) {
        let path = self.spec_file(&self.spec(more));
        self.must(&["upgrade", "start", &path, "--id", ID]).await;
    }

    /// Waits until every instance serves at this version.
    pub(super) async fn all_serve(&self, version: u32) {
        let count = self.nodes.len();
        let good = |said: &Said| {
            let seen = said.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            seen.filter(|i| i["version"] == version && i["step"] == "serving" && i["in_service"] == true)
                .count()
                == count
        };
        let what = format!("{count} instances serve at version {version}");
        self.until(&what, &["--json", "fleet", "list"], good).await;
    }

    /// Waits until an instance's agent is silent.
    pub(super) async fn silent(&self, node: &str) {
        let good = |said: &Said| {
            said.out.lines().any(|line| {
                let seen: Value = serde_json::from_str(line).unwrap();
                seen["node"] == node && seen["silent"] == true
            })
        };
        self.until(&format!("{node} is silent"), &["--json", "fleet", "list"], good).await;
    }

    /// kill -9 of the service on a node, as a power cut would end it; answers whether there was one.
    pub(super) fn kill_service(&self, node: &str) -> bool {
        let home = self.home(node);
        let Some(pid) = pid_with(home.join("pantry-api.disable").to_str().unwrap()) else { return false };
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).is_ok()
    }

    pub(super) fn load(&self, rate: u32) -> LoadHandle {
        self.rig.load(self.balancer.address, rate, self.rows).start().unwrap()
    }

    /// Restarts a coordinator as it was, after it was killed.
    pub(super) async fn restart_coordinator(&mut self, at: usize) {
        let plan = self.coordinators[at].plan.clone();
        self.coordinators[at] = Coordinator::start(&self.rig.world, plan).await.unwrap();
    }

    /// From now on its processes are killed at points of theirs.
    pub(super) fn wakes_the_reaper(&self) {
        let Some(Watched { reaper, .. }) = &self.watched else { return };
        for coordinator in &self.coordinators {
            reaper.lives(&coordinator.plan.name, coordinator.process.pid());
        }
        for agent in &self.agents {
            reaper.lives(&agent.node, agent.process.pid());
        }
        reaper.wakes();
    }

    /// Restarts every process that has ended, as an init system does, and reports to the reaper that it lives.
    pub(super) fn revive(&mut self) {
        let world = &self.rig.world;
        let lives = |process: &str, pid| {
            if let Some(Watched { reaper, .. }) = &self.watched {
                reaper.lives(process, pid);
            }
        };
        for coordinator in &mut self.coordinators {
            if coordinator.process.ended().is_some() {
                *coordinator = Coordinator::spawn(world, coordinator.plan.clone()).unwrap();
                lives(&coordinator.plan.name, coordinator.process.pid());
            }
        }
        for agent in &mut self.agents {
            if agent.process.ended().is_some() {
                agent.restart(world).unwrap();
                lives(&agent.node, agent.process.pid());
            }
        }
    }

    /// The ends of all logs.
    pub(super) fn logs(&self) -> String {
        let coordinators = self.coordinators.iter().map(|c| (c.process.name(), c.process.tail()));
        let agents = self.agents.iter().map(|a| (a.process.name(), a.process.tail()));
        coordinators.chain(agents).map(|(name, tail)| format!("--- {name}\n{tail}\n")).collect()
    }
}

/// The catalogue, a database that is not there and, with a server, one with a wrong password.
fn environment(database: &str, postgres: Option<&Postgres>) -> Vec<(String, String)> {
    let wrong = |address| format!("postgres://{USER}:{SECRET}@{address}/{DATABASE}");
    let nowhere = wrong(port::free().unwrap());
    let stranger = postgres.map(|server| wrong(server.address()));
    let named = |name: &str, url: String| (name.to_owned(), url);
    let mut all = vec![named(DATABASE_VARIABLE, database.to_owned()), named(NOWHERE, nowhere)];
    all.extend(stranger.map(|url| named(STRANGER, url)));
    all
}

/// Puts both releases where agents fetch them; answers the sha256 of the new one.
fn artifacts(rig: &Rig) -> String {
    for (tag, built) in [(OLD, "pantry-v1"), (NEW, "pantry-v2")] {
        let dir = rig.world.path("artifacts").join(tag);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::copy(program::own(built).unwrap(), dir.join(PROGRAM)).unwrap();
    }
    let new = std::fs::read(rig.world.path("artifacts").join(NEW).join(PROGRAM)).unwrap();
    hex::encode(Sha256::digest(new))
}

/// A process of the service that names this in its command line.
pub(super) fn pid_with(what: &str) -> Option<i32> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains(what) && line.contains("--disable-file")
    })
}
