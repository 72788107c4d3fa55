//! What an agent costs while nothing is to be done, and that a fleet at rest writes nothing, also under load: three real
//! agents with three processes of the sample service behind a balancer, a real etcd, a coordinator.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use etcd_client::Client;

use crate::bench::figure::Figure;
use crate::bench::proc;
use crate::fixture::load::SampleLoad;
use crate::fixture::node::{NEW, NodeConfig, OLD, PROGRAM, SERVICE};
use crate::fixture::pantry;
use crate::world::agent::Agent;
use crate::world::balancer::RunningBalancer;
use crate::world::coordinator::{Coordinator, CoordinatorPlan};
use crate::world::etcd::Etcd;
use crate::world::operator::Operator;
use crate::world::{World, balancer, etcd, port, program};

/// How many nodes.
const NODES: u32 = 3;
/// How long is measured.
const TIME: Duration = Duration::from_secs(60);
/// Requests a second meanwhile.
const RATE: u32 = 100;
/// Rows in the catalogue.
const ROWS: u32 = 5_000;
/// What the fleet may take after it is in service: its last reports, elections, the first requests.
const SETTLE: Duration = Duration::from_secs(5);

/// Measures.
///
/// # Errors
/// When the fleet cannot be brought up.
pub async fn measure(dir: &Path) -> anyhow::Result<Vec<Figure>> {
    let room = tempfile::Builder::new().prefix("rest").tempdir_in(dir)?;
    let world = World::alone(room.path())?;
    let etcd = etcd::start(&world, 1).await?;
    let database = format!("sqlite:{}", world.path("pantry.db").display());
    pantry::seed(&world, &database, ROWS).await?;
    let plan = CoordinatorPlan::new("coordinator", etcd.store_argument())?;
    let coordinator = Coordinator::start(&world, plan).await?;
    let nodes: Vec<(String, SocketAddr)> =
        (1..=NODES).map(|n| Ok((format!("node-{n}"), port::free()?))).collect::<anyhow::Result<_>>()?;
    let balancer = balancer::start(&world, &nodes).await?;
    let agents = agents(&world, &nodes, &database, &etcd, &balancer)?;
    Operator::of(coordinator.plan.grpc, SERVICE, "bench").await?.fleet_at(NODES, 1).await?;
    let load = SampleLoad::new(balancer.address, RATE, ROWS, world.path("requests.csv")).start()?;
    tokio::time::sleep(SETTLE).await;
    let found = observe(&etcd, &agents, coordinator.process.pid()).await?;
    let load = load.stop().await?;
    ensure!(
        load.ok == load.sent,
        "{} of {} requests failed or were not sent in time: {:?}",
        load.sent - load.ok,
        load.sent,
        load.first_failures
    );
    Ok(figures(&found, load.sent))
}

struct Found {
    written: i64,
    coordinator_share: f64,
    shares: Vec<f64>,
    resident_mib: Vec<f64>,
}

async fn observe(etcd: &Etcd, agents: &[Agent], coordinator: u32) -> anyhow::Result<Found> {
    let mut client = Client::connect(etcd.endpoints(), None).await?;
    let pids: Vec<u32> = agents.iter().map(|agent| agent.process.pid()).chain([coordinator]).collect();
    let cpu = || pids.iter().map(|pid| proc::cpu(*pid, true)).collect::<anyhow::Result<Vec<_>>>();
    let (before, revision) = (cpu()?, revision(&mut client).await?);
    let began = tokio::time::Instant::now();
    tokio::time::sleep(TIME).await;
    let (after, passed) = (cpu()?, began.elapsed());
    let written = self::revision(&mut client).await? - revision;
    let mut shares: Vec<f64> =
        after.iter().zip(&before).map(|(a, b)| (*a - *b).as_secs_f64() / passed.as_secs_f64()).collect();
    let coordinator_share = shares.pop().context("the coordinator is measured last")?;
    let resident = agents.iter().map(|agent| proc::resident_mib(agent.process.pid()));
    Ok(Found { written, coordinator_share, shares, resident_mib: resident.collect::<anyhow::Result<_>>()? })
}

async fn revision(client: &mut Client) -> anyhow::Result<i64> {
    let answer = client.get("/", None).await.context("could not ask etcd for its revision")?;
    answer.header().map(|header| header.revision()).context("etcd's answer has no revision")
}

fn figures(found: &Found, sent: u64) -> Vec<Figure> {
    let worst = |values: &[f64]| values.iter().copied().fold(f64::NAN, f64::max);
    let how = format!("the worst of {NODES} agents, {} s, one service each", TIME.as_secs());
    let percent = 100.0 * worst(&found.shares);
    let written = format!("{sent} requests sent meanwhile, at {RATE} a second");
    vec![
        Figure::limited("agent at rest, resident", worst(&found.resident_mib), "MiB", 12.0, &how),
        Figure::limited("agent at rest, of a core", percent, "%", 0.1, &how),
        Figure::limited("revisions written by a steady fleet", found.written as f64, "", 0.0, written),
        Figure::unlimited(
            "coordinator at rest, of a core",
            100.0 * found.coordinator_share,
            "%",
            "for comparison",
        ),
    ]
}

fn agents(
    world: &World,
    nodes: &[(String, SocketAddr)],
    database: &str,
    etcd: &Etcd,
    balancer: &RunningBalancer,
) -> anyhow::Result<Vec<Agent>> {
    let artifacts = world.path("artifacts");
    for (tag, built) in [(OLD, "pantry-v1"), (NEW, "pantry-v2")] {
        std::fs::create_dir_all(artifacts.join(tag)).context("could not make the directory of artifacts")?;
        std::fs::copy(program::own(built)?, artifacts.join(tag).join(PROGRAM))
            .context("could not copy an artifact")?;
    }
    let store = etcd.endpoints();
    let one = |(node, address): &(String, SocketAddr)| {
        let config = NodeConfig {
            node,
            home: world.path("nodes").join(node),
            address: *address,
            database,
            store: &store,
            balancer: &balancer.stats_socket,
            artifacts: &artifacts,
            broken: None,
        };
        for dir in ["state", "run"] {
            std::fs::create_dir_all(config.home.join(dir)).context("could not make a node's directory")?;
        }
        Ok(Agent::start(world, node, &config.toml())?)
    };
    nodes.iter().map(one).collect()
}
