//! What an upgrade needs around the service: a store with a coordinator, an agent for each node, a balancer, and the changes
//! of the schema outside of it.

mod agent;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use rustix::process::Signal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::balancer::server::ServerAddress;
use crate::gate::by_hand::ByHand;
use crate::gate::course::Course;
use crate::gate::databases::run_all;
use crate::gate::file::{Gate, Schema, Version};
use crate::gate::launcher::{Data, Node, Places};
use crate::gate::written::{Balancer, Store};
use crate::world::agent::Agent;
use crate::world::balancer::{Behind, RunningBalancer};
use crate::world::coordinator::{Coordinator, CoordinatorPlan};
use crate::world::etcd::Etcd;
use crate::world::operator::Operator;
use crate::world::{Process, World, balancer, etcd, haproxy, port};

/// Where the coordinator finds the database.
const DATABASE_VARIABLE: &str = "GATE_DATABASE_URL";
/// The directory of the migrations, below the coordinator's `--migrations`.
const MIGRATIONS: &str = "service";
/// How long a killed process may take to be gone.
const ENDS: Duration = Duration::from_secs(10);
/// Members of a real etcd.
const MEMBERS: usize = 3;

/// Brings a database from the base's schema to what the target needs, without any upgrade.
///
/// # Errors
/// When a step fails.
pub async fn expand(world: &World, gate: &Gate, name: &str, data: &Data) -> anyhow::Result<()> {
    match &gate.schema {
        None => Ok(()),
        Some(Schema::Commands { before, .. }) => {
            run_all(world, gate, &format!("{name}-schema"), before, data).await
        }
        Some(Schema::Migrations(directory)) => {
            let by_hand = ByHand::on(&data.url, directory).await?;
            by_hand.expand().await.context("could not expand the schema")?;
            by_hand.migrate().await.context("could not migrate the data")
        }
    }
}

/// Contracts by the service's own commands.
///
/// # Errors
/// When a step fails.
pub async fn contract(world: &World, gate: &Gate, data: &Data) -> anyhow::Result<()> {
    match &gate.schema {
        Some(Schema::Commands { contract, .. }) => run_all(world, gate, "contract", contract, data).await,
        _ => Ok(()),
    }
}

/// Everything that runs around an upgrade.
#[derive(Debug)]
pub struct Ground {
    /// Speaks to the coordinator.
    pub operator: Operator,
    /// What clients speak to.
    pub balancer: RunningBalancer,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The database.
    pub data: Data,
    /// The spec that is started.
    pub spec: PathBuf,
    coordinator: Coordinator,
    agents: Vec<Agent>,
    etcd: Option<Etcd>,
}

impl Ground {
    /// Brings it up; every instance is at the base version and in rotation.
    ///
    /// # Errors
    /// When anything of it cannot be had; the error says what.
    pub async fn bring_up(
        world: &World,
        gate: &Gate,
        data: Data,
        course: Course<'_>,
    ) -> anyhow::Result<Self> {
        let places = Places::of(world, gate, &data)?;
        let base = Release::make(world, gate, &places, &gate.service.base)?;
        let target = Release::make(world, gate, &places, &gate.service.target)?;
        let spec = world.path("upgrade.yaml");
        std::fs::write(&spec, spec_of(gate, &target, course).to_string())
            .context("could not write the spec")?;
        let etcd = match gate.store {
            Store::Embedded => None,
            Store::Etcd => Some(etcd::start(world, MEMBERS).await?),
        };
        let listen = port::free()?;
        let (store, endpoints) = match &etcd {
            Some(etcd) => (etcd.store_argument(), etcd.endpoints()),
            None => {
                let directory = world.path("store");
                (format!("embedded:{}", directory.display()), vec![format!("http://{listen}")])
            }
        };
        let plan = CoordinatorPlan {
            store_listen: etcd.is_none().then_some(listen),
            env: vec![(DATABASE_VARIABLE.to_owned(), data.url.clone())],
            args: migrations(world, gate)?,
            ..CoordinatorPlan::new("coordinator", store)?
        };
        let coordinator = Coordinator::start(world, plan).await?;
        let (service, upgrade) = (gate.service.name.as_str(), course.upgrade_id(gate));
        let operator = Operator::of(coordinator.plan.grpc, service, &upgrade).await?;
        let nodes = nodes(world, gate)?;
        let balancer = balance(world, gate, &nodes).await?;
        let mut agents = Vec::new();
        for node in &nodes {
            let config = agent::config(gate, node, &endpoints, &balancer.stats_socket, &[&base, &target]);
            let config = toml::to_string(&config).context("could not word an agent's configuration")?;
            agents.push(Agent::start(world, &node.name, &config)?);
        }
        let mut ground = Self { operator, balancer, nodes, data, spec, coordinator, agents, etcd };
        let in_service = ground.operator.fleet_at(gate.instances, gate.service.base.number.get()).await;
        ground.must_run()?;
        in_service?;
        for node in &ground.nodes {
            ground.balancer.wait_for_status(&node.name, "UP", gate.service.start_timeout).await?;
        }
        Ok(ground)
    }

    /// Kills the coordinator, and starts it again as it was.
    ///
    /// # Errors
    /// When it does not end or does not start.
    pub async fn kill_coordinator(&mut self, world: &World) -> anyhow::Result<()> {
        self.coordinator.process.signal(Signal::KILL)?;
        self.coordinator.process.wait(ENDS).await?;
        let plan = self.coordinator.plan.clone();
        self.coordinator = Coordinator::start(world, plan).await?;
        Ok(())
    }

    /// Stalls the coordinator for so long.
    ///
    /// # Errors
    /// When it is not there.
    pub async fn stall_coordinator(&self, length: Duration) -> anyhow::Result<()> {
        stall(&self.coordinator.process, length).await
    }

    /// Kills the agent of a node, by its number from 1, and starts it again.
    ///
    /// # Errors
    /// When it does not end or does not start.
    pub async fn kill_agent(&mut self, world: &World, node: u32) -> anyhow::Result<()> {
        let agent = self.agents.get_mut(node as usize - 1).context("there is no such node")?;
        agent.process.signal(Signal::KILL)?;
        agent.process.wait(ENDS).await?;
        Ok(agent.restart(world)?)
    }

    /// Stalls the agent of a node for so long.
    ///
    /// # Errors
    /// When it is not there.
    pub async fn stall_agent(&self, node: u32, length: Duration) -> anyhow::Result<()> {
        stall(&self.agents.get(node as usize - 1).context("there is no such node")?.process, length).await
    }

    /// An error if a process has ended that must not.
    ///
    /// # Errors
    /// The first such process with its last words.
    pub fn must_run(&mut self) -> anyhow::Result<()> {
        self.coordinator.process.must_run()?;
        self.balancer.process.must_run()?;
        for (member, _) in self.etcd.iter_mut().flat_map(|etcd| &mut etcd.members) {
            member.must_run()?;
        }
        self.agents.iter_mut().try_for_each(|agent| Ok(agent.process.must_run()?))
    }
}

async fn stall(process: &Process, length: Duration) -> anyhow::Result<()> {
    process.signal(Signal::STOP)?;
    tokio::time::sleep(length).await;
    Ok(process.signal(Signal::CONT)?)
}

/// The nodes of a gate, on free ports.
///
/// # Errors
/// When there is no free port.
pub fn nodes(world: &World, gate: &Gate) -> anyhow::Result<Vec<Node>> {
    let home = world.path("nodes");
    (1..=gate.instances).map(|n| Node::make(&gate.node(n), &home)).collect()
}

/// Starts the balancer of a gate before its nodes.
///
/// # Errors
/// When it cannot be started.
pub async fn balance(world: &World, gate: &Gate, nodes: &[Node]) -> anyhow::Result<RunningBalancer> {
    Ok(match gate.balancer {
        Balancer::BuiltIn => balancer::start(world, behind(gate, nodes)).await?,
        Balancer::Haproxy => haproxy::start(world, behind(gate, nodes)).await?,
    })
}

/// A version as a release: a tag and a script.
struct Release {
    tag: String,
    /// Its number in Tidegate.
    version: u32,
    script: PathBuf,
    sha256: String,
}

impl Release {
    fn make(world: &World, gate: &Gate, places: &Places, version: &Version) -> anyhow::Result<Self> {
        let tag = format!("{}-{}", gate.service.name, version.number);
        let script = places.release(version, &world.path("artifacts").join(&tag))?;
        let text = std::fs::read(&script).context("could not read a release")?;
        let sha256 = hex::encode(Sha256::digest(&text));
        Ok(Self { tag, version: gate.service.in_tidegate(version.number), script, sha256 })
    }
}

fn behind(gate: &Gate, nodes: &[Node]) -> Behind {
    let server = |node: &Node| ServerAddress {
        name: node.name.clone(),
        address: node.address,
        check: if gate.service.health.is_some() { node.address } else { node.health },
    };
    Behind {
        servers: nodes.iter().map(server).collect(),
        health_path: gate.service.health.clone().unwrap_or_else(|| "/healthcheck".to_owned()),
    }
}

/// The spec: what the gate file says, and what the runner knows.
fn spec_of(gate: &Gate, target: &Release, course: Course<'_>) -> Value {
    let mut spec = json!({
        "drain": {"evidence": "haproxy", "deadline": "30s", "on_deadline": "fail"},
        "min_in_service": gate.least_in_service(),
    });
    let fields = spec.as_object_mut().expect("an object was made");
    fields.extend(gate.upgrade.fields());
    if let Some(plan) = course.plan() {
        if let Some(strategy) = &plan.strategy {
            fields.insert("strategy".to_owned(), json!(strategy));
        }
        if let Some(out) = plan.max_unavailable {
            fields.insert("max_unavailable".to_owned(), json!(out));
            fields.insert("min_in_service".to_owned(), json!(gate.instances - out));
        }
    }
    fields.insert("service".to_owned(), json!(gate.service.name));
    fields.insert("from".to_owned(), json!(gate.service.base.number));
    fields.insert("to".to_owned(), json!(target.version));
    fields.insert("release".to_owned(), json!({"tag": target.tag, "sha256": target.sha256}));
    if let Some(Schema::Migrations(_)) = &gate.schema {
        let schema = json!({"database": {"from_env": DATABASE_VARIABLE}, "migrations": MIGRATIONS});
        fields.insert("schema".to_owned(), schema);
    }
    // The runner changes the schema, or turns back, while the upgrade waits.
    let changes = matches!(gate.schema, Some(Schema::Commands { .. })).then_some("roll");
    for point in changes.into_iter().chain(course.waits_before()) {
        let approvals = fields.entry("approvals").or_insert_with(|| json!([]));
        if let Some(approvals) = approvals.as_array_mut().filter(|all| !all.contains(&json!(point))) {
            approvals.push(json!(point));
        }
    }
    spec
}

/// The coordinator's arguments for the migrations, which are copied to where it looks for them.
fn migrations(world: &World, gate: &Gate) -> anyhow::Result<Vec<String>> {
    let Some(Schema::Migrations(directory)) = &gate.schema else { return Ok(Vec::new()) };
    let home = world.path("migrations");
    let copy = home.join(MIGRATIONS);
    std::fs::create_dir_all(&copy).context("could not make the directory of migrations")?;
    for entry in std::fs::read_dir(directory).context("could not read the migrations")? {
        let entry = entry.context("could not read the migrations")?;
        if entry.path().is_file() {
            std::fs::copy(entry.path(), copy.join(entry.file_name()))
                .context("could not copy a migration")?;
        }
    }
    Ok(vec!["--migrations".to_owned(), home.display().to_string()])
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Release, spec_of};
    use crate::gate::course::Course;
    use crate::gate::file;
    use crate::gate::init::EXAMPLE;

    /// Tidegate keeps both limits: all but one in service would make two out impossible.
    #[test]
    fn spec_lets_as_many_be_out_as_the_gate_file_says() {
        for (fields, least, most) in [
            ("max_unavailable: 2", 1.into(), 2.into()),
            ("max_unavailable: 67%", 1.into(), serde_json::Value::from("67%")),
            ("strategy: immediate", 2.into(), serde_json::Value::Null),
            ("max_unavailable: 2\n  min_in_service: 0", 0.into(), 2.into()),
        ] {
            let text = EXAMPLE.replacen("max_unavailable: 1", fields, 1);
            let gate = file::parse(&text, Path::new("gate.yaml"), Path::new("/")).unwrap();
            let sha256 = "0".repeat(64);
            let target = Release { tag: "items-2".to_owned(), version: 2, script: PathBuf::new(), sha256 };
            let spec = spec_of(&gate, &target, Course::Through);
            assert_eq!((&spec["min_in_service"], &spec["max_unavailable"]), (&least, &most), "{fields}");
        }
    }
}
