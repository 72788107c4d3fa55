//! Everything that runs: three members of etcd, PostgreSQL with a replica, HAProxy, two coordinators, nine agents with
//! their instances, each on a host of its own.

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::clock::Clock;
use super::database::Databases;
use super::event_log::EventLog;
use super::network::{self, Network};
use super::plan::{COORDINATORS, MEMBERS, NODES, UpgradePlan};
use super::releases;
use crate::fixture::migrations;
use crate::fixture::node::{DATABASE_VARIABLE, NodeConfig, SERVICE};
use crate::fixture::pantry;
use crate::world::agent::Agent;
use crate::world::balancer::RunningBalancer;
use crate::world::coordinator::{Coordinator, CoordinatorPlan};
use crate::world::etcd::Etcd;
use crate::world::{Process, Spawn, World, etcd, haproxy};

/// How long a leader may be unheard, in seconds: the least that etcd grants.
pub(super) const LEADER_TTL: u64 = 2;
/// The seconds of an agent's lease.
const AGENT_TTL: u64 = 3;
/// Rows of the catalogue at the beginning.
pub(super) const ROWS: u32 = 3000;
/// The port of each instance of the service.
const SERVICE_PORT: u16 = 8080;
/// Names of the coordinators.
const NAMES: [&str; COORDINATORS] = ["left", "right"];
/// The balancer's host.
pub(super) const BALANCER: &str = "balancer";

/// What runs.
#[derive(Debug)]
pub(super) struct Testbed {
    /// The network between all of it.
    pub network: Network,
    /// The clocks.
    pub clock: Clock,
    /// etcd.
    pub etcd: Etcd,
    /// PostgreSQL.
    pub databases: Databases,
    /// Coordinators.
    pub coordinators: Vec<Coordinator>,
    /// Agents, in the order of the nodes.
    pub agents: Vec<Agent>,
    /// HAProxy.
    pub balancer: RunningBalancer,
    /// Nodes and where their instances listen.
    pub nodes: Vec<(String, SocketAddr)>,
    /// The sha256 of every release but the first.
    pub sha256: String,
    /// The directory of migrations.
    pub migrations: PathBuf,
    /// Processes that a fault ended and starts again, by name: all others are started again at once.
    pub down: BTreeSet<String>,
    /// What makes a disk slow, while it does.
    pub slowed: Vec<(String, Process)>,
    /// What happens.
    pub log: EventLog,
    // Last: it ends what is left.
    /// The processes' world.
    pub world: World,
}

impl Testbed {
    /// Brings it up. Every agent starts its instance at version 1.
    ///
    /// # Errors
    /// When something cannot be started.
    pub(super) async fn start(world: World, log: EventLog) -> anyhow::Result<Self> {
        let (mut network, clock) = (Network::new()?, Clock::new(world.dir())?);
        let (sha256, size) = releases::publish(&world)?;
        let migrations = migrations::write(&world)?;
        let mut members = Vec::new();
        for n in 0..MEMBERS {
            members.push(network.add(&member(n))?);
        }
        let etcd = etcd::start_on(&world, &members, &[]).await?;
        let databases = Databases::start(&world, &mut network, &clock).await?;
        pantry::seed(&world, &databases.url(), ROWS).await?;
        let mut nodes = Vec::new();
        for n in 0..NODES {
            let host = network.add(&node(n))?;
            nodes.push((node(n), SocketAddr::new(host.ip, SERVICE_PORT)));
        }
        let host = network.add(BALANCER)?;
        let balancer = haproxy::start_on(&world, &host, &nodes).await?;
        let mut coordinators = Vec::new();
        for name in NAMES {
            let host = network.add(name)?;
            let mut plan = CoordinatorPlan::on(host, name, etcd.store_argument())?;
            plan.env = clock.env(name)?;
            plan.env.push((DATABASE_VARIABLE.to_owned(), databases.url()));
            let directory = migrations.display().to_string();
            let more = ["--migrations", &directory, "--leader-ttl", &format!("{LEADER_TTL}s")];
            plan.args.extend(more.map(str::to_owned));
            coordinators.push(Coordinator::start(&world, plan).await?);
        }
        let mut testbed = Self {
            network,
            clock,
            etcd,
            databases,
            coordinators,
            agents: Vec::new(),
            balancer,
            nodes,
            sha256,
            migrations,
            down: BTreeSet::new(),
            slowed: Vec::new(),
            log,
            world,
        };
        for n in 0..NODES {
            let agent = testbed.start_agent(n, size)?;
            testbed.agents.push(agent);
        }
        Ok(testbed)
    }

    fn start_agent(&self, n: usize, size: u64) -> anyhow::Result<Agent> {
        let (name, address) = &self.nodes[n];
        let store = self.etcd.endpoints();
        let config = NodeConfig {
            node: name,
            home: self.home(n),
            address: *address,
            database: &self.databases.url(),
            store: &store,
            balancer: &self.balancer.stats_socket,
            artifacts: &self.world.path("artifacts"),
            broken: None,
        };
        for directory in [self.state(n), config.home.join("run")] {
            std::fs::create_dir_all(&directory).context("could not make a directory of a node")?;
        }
        // A disk of its own for what the agent keeps: two releases and one that is being brought, and some space.
        let room = format!("size={}k", size * 3 / 1024 + 2048);
        network::run("mount", &["-t", "tmpfs", "-o", &room, "tmpfs", &self.state(n).display().to_string()])?;
        let text = config.toml_naming_releases();
        let text = format!("lease_ttl = \"{AGENT_TTL}s\"\n{text}{}", releases::later_artifacts(&self.world));
        let host = self.network.host(name)?;
        Ok(Agent::start_on(&self.world, host, name, &text, self.clock.env(name)?)?)
    }

    fn home(&self, n: usize) -> PathBuf {
        self.world.path("nodes").join(&self.nodes[n].0)
    }

    /// The directory with what an agent keeps, a disk of its own.
    pub(super) fn state(&self, n: usize) -> PathBuf {
        self.home(n).join("state")
    }

    /// What takes an instance out of rotation.
    pub(super) fn disable_file(&self, n: usize) -> PathBuf {
        self.home(n).join("pantry-api.disable")
    }

    /// Sends a signal to the instance on a node; whether there is one.
    pub(super) fn signal_service(&self, n: usize, signal: Signal) -> bool {
        let file = self.disable_file(n).display().to_string();
        let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let found = pids.find(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains(&file) && line.contains("--disable-file")
        });
        found.and_then(Pid::from_raw).is_some_and(|pid| kill_process(pid, signal).is_ok())
    }

    /// Starts what makes the disk of a process slow: each sync and rename takes longer.
    ///
    /// # Errors
    /// When it cannot be started.
    pub(super) fn slow_disk(&mut self, name: &str, pid: u32, by_ms: u64) -> anyhow::Result<()> {
        let calls = "fsync,fdatasync,rename,renameat,renameat2";
        let spawn = Spawn::new(&format!("slow-{name}"), &crate::world::program::outside("strace")?)
            .args(["-qq", "-f", "-o", "/dev/null", "-p", &pid.to_string(), "-e", &format!("trace={calls}")])
            .args(["-e", &format!("inject={calls}:delay_exit={}", by_ms * 1000)]);
        let process = self.world.spawn(spawn)?;
        self.slowed.push((name.to_owned(), process));
        Ok(())
    }

    /// Ends that.
    pub(super) fn mend_disk(&mut self, name: &str) {
        for (_, process) in self.slowed.extract_if(.., |(of, _)| of == name) {
            // It detaches from the process before it ends; its drop ends it in any case.
            let _ = process.signal(Signal::INT);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }

    /// Starts again what has ended by itself, as an init system does.
    ///
    /// # Errors
    /// When something cannot be started.
    pub(super) fn revive(&mut self) -> anyhow::Result<()> {
        let (world, log, down) = (&self.world, &self.log, &self.down);
        for one in self.coordinators.iter_mut().filter(|one| !down.contains(&one.plan.name)) {
            if let Some(status) = one.process.ended() {
                log.log(format!("{} ended by itself: {status}; it is started again", one.plan.name));
                *one = Coordinator::spawn(world, one.plan.clone())?;
            }
        }
        for agent in self.agents.iter_mut().filter(|agent| !down.contains(&agent.node)) {
            if let Some(status) = agent.process.ended() {
                log.log(format!(
                    "the agent of {} ended by itself: {status}; it is started again",
                    agent.node
                ));
                agent.restart(world)?;
            }
        }
        for n in 0..self.etcd.members.len() {
            if self.down.contains(&member(n)) {
                continue;
            }
            if let Some(status) = self.etcd.members[n].0.ended() {
                self.log.log(format!("{} ended by itself: {status}; it is started again", member(n)));
                self.etcd.spawn_again(&self.world, n)?;
            }
        }
        Ok(())
    }

    /// The spec of an upgrade.
    pub(super) fn spec(&self, plan: &UpgradePlan, from: u32) -> String {
        let to = from + 1;
        serde_json::json!({
            "service": SERVICE,
            "from": from,
            "to": to,
            "release": {"tag": releases::tag(to), "sha256": self.sha256},
            "strategy": plan.strategy,
            "min_in_service": plan.min_in_service,
            "max_unavailable": plan.max_unavailable,
            "health": {"min_healthy_time": "500ms", "healthy_deadline": "30s", "progress_deadline": "2m"},
            "drain": {"evidence": "haproxy", "deadline": "30s", "on_deadline": "fail"},
            "failures": {"tolerate": 0, "per_wave": 0, "then": plan.then},
            "approvals": plan.approvals,
            "schema": {
                "database": {"from_env": DATABASE_VARIABLE},
                "migrations": migrations::DIRECTORY,
                // The replica's connection.
                "allow_sessions": ["walreceiver"],
            },
        })
        .to_string()
    }

    /// The ends of all logs of the product.
    pub(super) fn logs(&self) -> String {
        let coordinators = self.coordinators.iter().map(|c| (c.process.name(), c.process.tail()));
        let agents = self.agents.iter().map(|a| (a.process.name(), a.process.tail()));
        coordinators.chain(agents).map(|(name, tail)| format!("--- {name}\n{tail}\n")).collect()
    }
}

/// The host of a member of etcd.
pub(super) fn member(n: usize) -> String {
    format!("etcd-{n}")
}

/// A node.
pub(super) fn node(n: usize) -> String {
    format!("node-{}", n + 1)
}
