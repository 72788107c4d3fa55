//! Brings up everything that an upgrade needs, and measures alone what the ideal is made of. Every process belongs to
//! the world, so that nothing here has to end any.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use sha2::{Digest, Sha256};

use crate::demo::alone::{self, Alone};
use crate::demo::arguments::DemoPlan;
use crate::demo::config::{self, DATABASE_VARIABLE, NEW, NodeConfig, OLD, PROGRAM};
use crate::demo::display::Display;
use crate::demo::operator::Operator;
use crate::demo::schema;
use crate::world::agent::Agent;
use crate::world::balancer::RunningBalancer;
use crate::world::coordinator::{Coordinator, CoordinatorPlan};
use crate::world::etcd::Etcd;
use crate::world::postgres::Postgres;
use crate::world::{World, balancer, etcd, haproxy, pantry, port, postgres, program};

/// Everything that runs.
#[derive(Debug)]
pub struct Setting {
    /// Speaks to the coordinator.
    pub operator: Operator,
    /// What clients speak to.
    pub balancer: RunningBalancer,
    /// The spec that the operator will start.
    pub spec: PathBuf,
    /// What was measured alone.
    pub alone: Alone,
    coordinator: Coordinator,
    agents: Vec<Agent>,
    etcd: Option<Etcd>,
    postgres: Option<Postgres>,
}

impl Setting {
    /// Brings it up.
    ///
    /// # Errors
    /// When anything of it cannot be had; the error says what.
    pub async fn bring_up(world: &World, plan: &DemoPlan, display: &mut Display) -> anyhow::Result<Self> {
        let digest = artifacts(world)?;
        let spec = world.path("upgrade.yaml");
        std::fs::write(&spec, config::spec(plan, &digest)).context("could not write the spec")?;

        display.note(&format!("seeding a catalogue of {} rows", plan.rows));
        let postgres = if plan.real { Some(postgres::start(world).await?) } else { None };
        let database = match &postgres {
            Some(server) => server.url(),
            None => format!("sqlite:{}", world.path("pantry.db").display()),
        };
        pantry::seed(world, &database, plan.rows).await?;
        display.note("measuring alone what the ideal is made of: a fill, a stop, a start");
        let alone = alone::measure(world, postgres.as_ref(), plan.rows).await?;
        display.note(&alone.to_string());

        let etcd = if plan.real { Some(etcd::start(world, 3).await?) } else { None };
        let (coordinator, store) = coordinator(world, etcd.as_ref(), &database).await?;
        display.note(&format!("a coordinator leads over {}", coordinator.plan.store));
        let operator = Operator::connect(coordinator.plan.grpc).await?;

        let nodes = nodes(plan.instances)?;
        let balancer = match plan.real {
            true => haproxy::start(world, &nodes).await?,
            false => balancer::start(world, &nodes).await?,
        };
        let agents =
            agents(world, plan, &nodes, &Surroundings { database: &database, store, balancer: &balancer })?;
        let mut setting = Self { operator, balancer, spec, alone, coordinator, agents, etcd, postgres };
        display.note(&format!("{} agents stage and start version 1", plan.instances));
        let in_service = setting.operator.fleet_in_service(plan.instances).await;
        setting.must_run()?;
        in_service.map(|()| setting)
    }

    /// An error if a process has ended that must not.
    ///
    /// # Errors
    /// The first such process with its last words.
    pub fn must_run(&mut self) -> anyhow::Result<()> {
        self.coordinator.process.must_run()?;
        self.balancer.process.must_run()?;
        for agent in &mut self.agents {
            agent.process.must_run()?;
        }
        for (member, _) in self.etcd.iter_mut().flat_map(|etcd| &mut etcd.members) {
            member.must_run()?;
        }
        Ok(())
    }

    /// What stores, databases and balancers are in use, in words.
    pub fn in_words(&self) -> String {
        let (store, database, balancer) = match (&self.etcd, &self.postgres) {
            (Some(_), Some(_)) => ("three members of etcd", "PostgreSQL", "HAProxy"),
            _ => ("the embedded store", "SQLite", "the built-in balancer"),
        };
        format!("{store}, {database}, {balancer}")
    }
}

/// Puts each release where an operator would: `artifacts/<tag>/pantry`. Answers the sha256 of the new one.
fn artifacts(world: &World) -> anyhow::Result<String> {
    for (tag, built) in [(OLD, "pantry-v1"), (NEW, "pantry-v2")] {
        let (from, dir) = (program::own(built)?, world.path("artifacts").join(tag));
        std::fs::create_dir_all(&dir).context("could not make the directory of artifacts")?;
        let to = dir.join(PROGRAM);
        // A link costs nothing; another file system needs a copy.
        if std::fs::hard_link(&from, &to).is_err() {
            std::fs::copy(&from, &to).context("could not copy an artifact")?;
        }
    }
    let new = world.path("artifacts").join(NEW).join(PROGRAM);
    let mut hash = Sha256::new();
    let mut file = std::fs::File::open(&new).context("could not read an artifact")?;
    std::io::copy(&mut file, &mut hash).context("could not read an artifact")?;
    Ok(hex::encode(hash.finalize()))
}

/// Starts the coordinator; answers it and the store's addresses for agents.
async fn coordinator(
    world: &World,
    etcd: Option<&Etcd>,
    database: &str,
) -> anyhow::Result<(Coordinator, Vec<String>)> {
    let listen = port::free()?;
    let (store, store_listen, endpoints) = match etcd {
        Some(etcd) => (etcd.store_argument(), None, etcd.endpoints()),
        None => {
            let dir = world.path("store");
            (format!("embedded:{}", dir.display()), Some(listen), vec![format!("http://{listen}")])
        }
    };
    let plan = CoordinatorPlan {
        store_listen,
        env: vec![(DATABASE_VARIABLE.to_owned(), database.to_owned())],
        args: vec!["--migrations".to_owned(), schema::write(world)?.display().to_string()],
        ..CoordinatorPlan::new("coordinator", store)?
    };
    Ok((Coordinator::start(world, plan).await?, endpoints))
}

fn nodes(count: u32) -> anyhow::Result<Vec<(String, SocketAddr)>> {
    (1..=count).map(|n| Ok((format!("node-{n}"), port::free()?))).collect()
}

struct Surroundings<'a> {
    database: &'a str,
    store: Vec<String>,
    balancer: &'a RunningBalancer,
}

fn agents(
    world: &World,
    plan: &DemoPlan,
    nodes: &[(String, SocketAddr)],
    around: &Surroundings<'_>,
) -> anyhow::Result<Vec<Agent>> {
    let artifacts = world.path("artifacts");
    let one = |(node, address): &(String, SocketAddr)| {
        let config = NodeConfig {
            node,
            home: world.path("nodes").join(node),
            address: *address,
            database: around.database,
            store: &around.store,
            balancer: &around.balancer.stats_socket,
            artifacts: &artifacts,
            broken: plan.break_at.map(|at| (at, world.path("starts-of-version-2"))),
        };
        for dir in ["state", "run"] {
            std::fs::create_dir_all(config.home.join(dir)).context("could not make a node's directory")?;
        }
        Ok(Agent::start(world, node, &config.toml())?)
    };
    nodes.iter().map(one).collect()
}
