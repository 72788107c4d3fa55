//! What an upgrade takes beyond what its hooks take: real agents with the `command` driver, a real coordinator, a real
//! etcd; beside it, in turn, a shell loop that does the same to a fleet of the same kind, on the same evidence.
//!
//! The specs ask for nothing to be waited for: `min_healthy_time` and `settle` are 0 and no balancer is configured. So
//! the ideal is the hooks' own time, once for each turn in which as many go through as may be out. The wall is seen from
//! outside, by a watcher of etcd: from the roll being entered until the last instance is seen in rotation.

mod fleets;
pub mod service;
mod strategy;
mod watcher;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use etcd_client::Client;

use crate::bench::figure::Figure;
use crate::bench::median::median;
use crate::bench::proc;
use crate::fixture::node::SERVICE;
use crate::world::agent::Agent;
use crate::world::coordinator::{Coordinator, CoordinatorPlan};
use crate::world::etcd::{self, Etcd};
use crate::world::operator::Operator;
use crate::world::{Spawn, World};
use fleets::{Fleets, Place};
use strategy::Plan;

/// How many nodes each fleet has.
const NODES: u32 = 50;
/// How long agents and coordinator are measured at rest, before the first upgrade.
const REST: Duration = Duration::from_secs(10);
/// How long one run of either side may take.
const LIMIT: Duration = Duration::from_secs(300);

/// Measures, each strategy `repeat` times in turn with the shell loop.
///
/// # Errors
/// When a program cannot be started or an upgrade does not come to its end.
pub async fn measure(dir: &Path, repeat: u32) -> anyhow::Result<Vec<Figure>> {
    let room = tempfile::Builder::new().prefix("overhead").tempdir_in(dir)?;
    let world = World::alone(room.path())?;
    let plans = Plan::all(NODES);
    let mut bench = Bench::build(&world, 1 + repeat * plans.len() as u32).await?;
    let mut figures = Vec::new();
    for plan in plans {
        let mut runs = Vec::new();
        for _ in 0..repeat {
            let ours = bench.upgrade(&plan).await?;
            runs.push((ours, bench.by_shell(&plan).await?));
        }
        figures.extend(figures_of(&plan, &runs));
    }
    Ok(figures)
}

/// One upgrade by Tidegate.
struct Ours {
    wall: f64,
    whole: f64,
    coordinator_cpu: f64,
    agents_cpu: f64,
}

fn figures_of(plan: &Plan, runs: &[(Ours, f64)]) -> Vec<Figure> {
    let middle = |of: &dyn Fn(&(Ours, f64)) -> f64| median(&runs.iter().map(of).collect::<Vec<_>>());
    let (ideal, turns) = (plan.ideal(), plan.turns() as f64);
    let (wall, shell) = (middle(&|run| run.0.wall), middle(&|run| run.1));
    let word = plan.word;
    let above = |wall: f64| (wall - ideal) * 1e3 / turns;
    let medians = format!("median of {} in turn", runs.len());
    let over_ideal = format!("{wall:.2} s over {turns} turns of {:.1} s, {medians}", ideal / turns);
    let over_shell =
        format!("{wall:.2} s over {shell:.2} s, {medians}; the loop itself {:.3}", shell / ideal);
    let cpu = format!("user and system, hooks not counted, over the whole upgrade; {medians}");
    let above_rest = format!("{cpu}; its own rest taken off");
    vec![
        Figure::limited(format!("overhead {word}, wall over ideal"), wall / ideal, "x", 1.10, over_ideal),
        Figure::limited(format!("overhead {word}, over the shell loop"), wall / shell, "x", 1.0, over_shell),
        Figure::unlimited(format!("overhead {word}, a turn above ideal"), above(wall), "ms", {
            format!("the shell loop {:.1} ms", above(shell))
        }),
        Figure::unlimited(
            format!("overhead {word}, asked to completed"),
            middle(&|run| run.0.whole),
            "s",
            "all phases",
        ),
        Figure::limited(
            format!("overhead {word}, CPU a node, coordinator"),
            middle(&|run| run.0.coordinator_cpu),
            "s",
            0.02,
            cpu,
        ),
        Figure::limited(
            format!("overhead {word}, CPU a node, agent above rest"),
            middle(&|run| run.0.agents_cpu),
            "s",
            0.02,
            above_rest,
        ),
    ]
}

/// Both fleets, standing.
struct Bench<'a> {
    world: &'a World,
    client: Client,
    operator: Operator,
    coordinator: Coordinator,
    agents: Vec<Agent>,
    places: Vec<Place>,
    shell_places: Vec<Place>,
    shell_loop: PathBuf,
    /// What each fleet carries.
    version: u32,
    shell_version: u32,
    /// Of a core, all agents together.
    rest: f64,
    /// Lives as long as the fleet does.
    _etcd: Etcd,
}

impl<'a> Bench<'a> {
    async fn build(world: &'a World, versions: u32) -> anyhow::Result<Self> {
        let etcd = etcd::start(world, 1).await?;
        let fleets = Fleets::build(world, versions)?;
        let (places, shell_places) =
            (Fleets::places(world, "node", NODES)?, Fleets::places(world, "shell", NODES)?);
        let coordinator =
            Coordinator::start(world, CoordinatorPlan::new("coordinator", etcd.store_argument())?).await?;
        let store = etcd.endpoints();
        let agents = places
            .iter()
            .map(|place| Agent::start(world, &place.node, &fleets.agent(place, &store)))
            .collect::<Result<Vec<_>, _>>()?;
        launch(world, &fleets, &shell_places).await?;
        let operator = Operator::of(coordinator.plan.grpc, SERVICE, "bench").await?;
        operator.fleet_at(NODES, 1).await?;
        let mut bench = Self {
            world,
            client: Client::connect(etcd.endpoints(), None).await?,
            operator,
            coordinator,
            agents,
            shell_loop: fleets.shell_loop(world, &shell_places)?,
            places,
            shell_places,
            version: 1,
            shell_version: 1,
            rest: f64::NAN,
            _etcd: etcd,
        };
        let (before, began) = (bench.agents_cpu()?, Instant::now());
        tokio::time::sleep(REST).await;
        bench.rest = (bench.agents_cpu()? - before) / began.elapsed().as_secs_f64();
        Ok(bench)
    }

    /// One hop by Tidegate, and what was seen of it from outside.
    async fn upgrade(&mut self, plan: &Plan) -> anyhow::Result<Ours> {
        let (from, to) = (self.version, self.version + 1);
        let word: Vec<&str> =
            plan.word.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
        let id = format!("{}-{to}", word.join("-"));
        let spec = self.world.path(&format!("{id}.yaml"));
        std::fs::write(&spec, plan.spec(from, to)).context("could not write the spec")?;
        let coordinator = self.coordinator.process.pid();
        let (agents_before, coordinator_before) = (self.agents_cpu()?, seconds(coordinator)?);
        let seen = watcher::watch(&mut self.client, &id, to, NODES as usize).await?;
        self.operator.start_as(self.world, &spec, &id).await?;
        let seen = tokio::time::timeout(LIMIT, seen.end())
            .await
            .with_context(|| format!("upgrade {id} did not end within {} s", LIMIT.as_secs()))??;
        let whole = seen.whole();
        let agents = self.agents_cpu()? - agents_before - self.rest * whole;
        let coordinator = seconds(coordinator)? - coordinator_before;
        fleets::all_carry(&self.places, to).await?;
        ensure!(seen.waves == plan.waves, "the waves were {:?}, not {:?}", seen.waves, plan.waves);
        self.version = to;
        let node = f64::from(NODES);
        Ok(Ours { wall: seen.wall(), whole, coordinator_cpu: coordinator / node, agents_cpu: agents / node })
    }

    /// One hop by the shell loop: the seconds that it took.
    async fn by_shell(&mut self, plan: &Plan) -> anyhow::Result<f64> {
        let to = self.shell_version + 1;
        let batches = plan.batches().into_iter().map(|size| size.to_string());
        let spawn = Spawn::new("shell-loop", Path::new("/bin/sh"))
            .arg(&self.shell_loop)
            .arg(to.to_string())
            .args(batches);
        let mut process = self.world.spawn(spawn)?;
        let status = process.wait(LIMIT).await?;
        ensure!(status.success(), "the shell loop ended with {status}: {}", process.tail());
        fleets::all_carry(&self.shell_places, to).await?;
        self.shell_version = to;
        fleets::took(&process.tail())
    }

    /// CPU seconds of all agents so far, without what their hooks used.
    fn agents_cpu(&self) -> anyhow::Result<f64> {
        self.agents.iter().map(|agent| seconds(agent.process.pid())).sum()
    }
}

fn seconds(pid: u32) -> anyhow::Result<f64> {
    Ok(proc::cpu(pid, false)?.as_secs_f64())
}

/// Starts the instances that no agent looks after.
async fn launch(world: &World, fleets: &Fleets, places: &[Place]) -> anyhow::Result<()> {
    let start = |place: &Place| {
        let spawn = Spawn::new(&format!("launch-{}", place.node), Path::new("/bin/sh"));
        world.spawn(spawn.args(fleets.launch(place)))
    };
    let started = places.iter().map(start).collect::<Result<Vec<_>, _>>()?;
    for mut process in started {
        let status = process.wait(LIMIT).await?;
        ensure!(status.success(), "{} ended with {status}: {}", process.name(), process.tail());
    }
    fleets::all_carry(places, 1).await
}
