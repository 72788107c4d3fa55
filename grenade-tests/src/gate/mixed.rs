//! Each version alone, and frozen mixes of both: instances without any upgrade around them, spoken to directly, so that it
//! is known which of them answered.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use serde::Serialize;

use crate::gate::beside::Beside;
use crate::gate::by_command::{ByCommand, Zero};
use crate::gate::databases::Databases;
use crate::gate::deaths::Death;
use crate::gate::file::{Gate, Version};
use crate::gate::ground;
use crate::gate::host::{HostSeen, Machine};
use crate::gate::launcher::{Data, Node, Places, last_lines};
use crate::gate::processes;
use crate::gate::watch::Probe;
use crate::gate::written::Arrangement;
use crate::load::Load;
use crate::load::entry::{self, Entry};
use crate::load::plan::Pace;
use crate::load::requests::{Direct, Requests, Target};
use crate::world::wait::{get, wait_for};
use crate::world::{Process, World};

/// The base alone is sent requests for so long.
const ALONE: std::time::Duration = std::time::Duration::from_secs(2);
/// How long a health check may take to follow the disable-file.
const FOLLOWS: std::time::Duration = std::time::Duration::from_secs(5);

/// What a frozen mix showed.
#[derive(Debug)]
pub struct Mixed {
    /// How many instances at each version.
    pub arrangement: Arrangement,
    /// Its ledger.
    pub entries: Vec<Entry>,
    /// The requests to its companions.
    pub beside: Vec<Entry>,
    /// The memory of each instance.
    pub memory: Vec<Memory>,
    /// Instances that ended under the load.
    pub deaths: Vec<Death>,
    /// The machine while it ran.
    pub host: HostSeen,
}

/// The resident memory of an instance before and after a load, in KiB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Its node.
    pub node: String,
    /// Its version.
    pub version: u32,
    /// Before it was sent anything.
    pub before: u64,
    /// At the end.
    pub after: u64,
}

/// Instances that run, at known versions.
pub(super) struct Instances {
    direct: Vec<Direct>,
    homes: Vec<PathBuf>,
    processes: Vec<Process>,
}

impl Instances {
    pub(super) async fn start(
        world: &World,
        gate: &Gate,
        name: &str,
        data: &Data,
        versions: &[&Version],
    ) -> anyhow::Result<Self> {
        let (places, home) = (Places::of(world, gate, data)?, world.path(name));
        let (mut direct, mut homes, mut processes) = (Vec::new(), Vec::new(), Vec::new());
        for (n, version) in versions.iter().enumerate() {
            let script = places.release(version, &home.join(format!("version-{}", version.number)))?;
            let node = Node::make(&format!("{name}-{}", n + 1), &home)?;
            processes.push(start(world, gate, &node, version, &script).await?);
            homes.push(node.home);
            direct.push(Direct { node: node.name, address: node.address, version: version.number.get() });
        }
        Ok(Self { direct, homes, processes })
    }

    /// Where the first one listens.
    pub(super) fn first(&self) -> Option<SocketAddr> {
        self.direct.first().map(|direct| direct.address)
    }

    /// All of them.
    pub(super) fn target(&self) -> Target {
        Target::Instances(self.direct.clone())
    }

    /// The resident memory of each, in KiB.
    fn memory(&self) -> Vec<u64> {
        processes::running(&self.homes).iter().map(|versions| versions.values().sum()).collect()
    }

    /// Those that have ended; nothing has asked them to.
    fn deaths(&mut self) -> Vec<Death> {
        let each = self.direct.iter().zip(&mut self.processes);
        each.filter_map(|(at, process)| Death::of(process, &at.node, at.version)).collect()
    }

    /// Whether the health check of the first one follows the disable-file; `None` where the agent serves it.
    async fn health(&self, world: &World, gate: &Gate, name: &str) -> anyhow::Result<Option<Health>> {
        let (Some(node), Some(path)) = (self.direct.first(), &gate.service.health) else { return Ok(None) };
        let disable_file = world.path(name).join(&node.node).join("disable");
        let followed = follows(node, path, &disable_file).await;
        let _ = std::fs::remove_file(&disable_file);
        let (version, node, path) = (node.version, node.node.clone(), path.clone());
        Ok(Some(Health { version, node, path, wrong: followed.err().map(|error| format!("{error:#}")) }))
    }

    pub(super) async fn stop(mut self, gate: &Gate) -> anyhow::Result<()> {
        let limit = std::time::Duration::from_millis(gate.service.stop_timeout.as_millis());
        // The pid of one that has ended may be another's by now.
        self.processes.retain_mut(|process| process.ended().is_none());
        // All at once: one that waits for its limit does not make the others wait.
        for process in &self.processes {
            process.signal(rustix::process::Signal::TERM)?;
        }
        for process in self.processes {
            process.stop(rustix::process::Signal::TERM, limit).await?;
        }
        Ok(())
    }
}

/// Starts one, and is sure that it is what it should be.
async fn start(
    world: &World,
    gate: &Gate,
    node: &Node,
    version: &Version,
    script: &Path,
) -> anyhow::Result<Process> {
    let command = version.command.field();
    let process = node.start(world, gate, script).await.with_context(|| gate.origin.at(command))?;
    let said = Probe::of(&gate.service.version).ask(node.address).await.map_err(anyhow::Error::msg);
    let said = said.with_context(|| gate.origin.at("service.version"))?;
    ensure!(
        said == version.number.get(),
        "{}: the command of version {} starts one that says it is version {said}",
        gate.origin.at(&command.replace(".command", ".number")),
        version.number
    );
    Ok(process)
}

/// Whether the health check of a version follows the disable-file.
#[derive(Debug, Clone)]
pub struct Health {
    /// The version.
    pub version: u32,
    /// The node of the instance that was asked.
    pub node: String,
    /// The path that it was asked at.
    pub path: String,
    /// Why it does not: the first answer that was wrong, and what was there in the end.
    pub wrong: Option<String>,
}

/// Each version alone: it starts, says its number, and no step of the load fails against the base. Answers what was seen of
/// the health checks, where the service has its own.
///
/// # Errors
/// The first of these that does not hold: nothing was upgraded then.
pub async fn alone(world: &World, gate: &Gate, databases: &Databases) -> anyhow::Result<Vec<Health>> {
    let mut data = databases.fresh(world, gate, "alone").await?;
    let beside = Beside::start(world, gate, databases, &mut data, "alone").await?;
    let base = &gate.service.base;
    let instances = Instances::start(world, gate, "base", &data, &[base]).await.context("the base alone")?;
    let mut health = Vec::new();
    health.extend(instances.health(world, gate, "base").await?);
    if let Some(script) = &gate.script {
        let requests = Requests::beside(Arc::clone(script), instances.target(), beside.targets());
        none_fails(gate, &load(world, gate, requests, "alone", ALONE).await?.0, &instances)?;
    }
    if let (Some(command), Some(at)) = (&gate.load_command, instances.first()) {
        let places = Places::of(world, gate, &data)?;
        let load = ByCommand::start(world, gate, command, places, at, Zero::now(), "command-alone")?;
        let span = ALONE.max(gate.pace.before);
        tokio::time::sleep(span).await;
        let entries = load.stop(gate).await?;
        ensure!(
            !entries.is_empty(),
            "{} sent no request to the base alone in {span:?}; `load.before` must be longer than it takes to begin",
            gate.origin.at(command.field())
        );
        none_fails(gate, &entries, &instances)?;
    }
    instances.stop(gate).await?;
    ground::expand(world, gate, "alone", &data).await?;
    let target = Instances::start(world, gate, "target", &data, &[&gate.service.target])
        .await
        .context("the target alone")?;
    health.extend(target.health(world, gate, "target").await?);
    target.stop(gate).await?;
    beside.stop(gate).await?;
    Ok(health)
}

/// A load that fails against the base alone shows nothing of an upgrade.
fn none_fails(gate: &Gate, entries: &[Entry], instances: &Instances) -> anyhow::Result<()> {
    let mut failed = entries.iter().filter(|entry| entry.is_failed());
    let Some(first) = failed.next() else {
        let is_known = entries.is_empty() || entries.iter().any(Entry::is_ok);
        ensure!(
            is_known,
            "none of {} requests to the base alone was sent in time: the machine is busy",
            entries.len()
        );
        return Ok(());
    };
    let mut steps = gate.script.iter().flat_map(|script| &script.steps);
    let field = match steps.position(|step| step.name == first.kind) {
        Some(n) => format!("load.steps[{n}]"),
        None => "load".to_owned(),
    };
    bail!(
        "{}: the load fails against the base alone, so it could show nothing about an upgrade: {} of {} requests; the first: {} {}: \
         {}{}",
        gate.origin.at(&field),
        failed.count() + 1,
        entries.len(),
        first.kind,
        first.seq,
        first.reason,
        instances.processes.first().map(last_lines).unwrap_or_default()
    )
}

async fn follows(node: &Direct, health: &str, disable_file: &Path) -> anyhow::Result<()> {
    for (there, right) in [(false, 200), (true, 503), (false, 200)] {
        match there {
            true => std::fs::write(disable_file, "").context("could not write the disable-file")?,
            // It may not be there yet.
            false => drop(std::fs::remove_file(disable_file)),
        }
        let state = if there { "with" } else { "without" };
        let what = format!("{health} to answer {right} {state} the disable-file");
        let (set, first) = (std::time::Instant::now(), std::sync::OnceLock::new());
        let followed = wait_for(&what, FOLLOWS, || async {
            let wrong = match get(node.address, health).await {
                Ok((status, _)) if status == right => return Ok(()),
                Ok((status, _)) => format!("status {status}"),
                Err(e) => e,
            };
            first.get_or_init(|| format!("{wrong}, {} ms later", set.elapsed().as_millis()));
            Err(wrong)
        });
        followed.await.with_context(|| {
            let first = first.get().map_or("there was none", String::as_str);
            format!(
                "asked GET {health} {state} the disable-file; the first answer: {first}; {right} is right"
            )
        })?;
    }
    Ok(())
}

/// Runs a load for a while; answers its ledger and what was seen of the machine.
async fn load(
    world: &World,
    gate: &Gate,
    requests: Requests,
    name: &str,
    span: std::time::Duration,
) -> anyhow::Result<(Vec<Entry>, HostSeen)> {
    let ledger = world.path(&format!("requests-{name}.csv"));
    let pace = Pace { rate: gate.pace.rate, seed: gate.pace.seed, jitter: None, ledger: ledger.clone() };
    let machine = Machine::watch();
    let load = Load::of(pace, Arc::new(requests))?;
    tokio::time::sleep(span).await;
    load.stop().await?;
    let entries = entry::read(&ledger)?;
    let host = machine.seen(&entries);
    Ok((entries, host))
}

/// A frozen mix under load.
///
/// # Errors
/// When an instance does not start; what fails under load is a result.
pub async fn mixed(
    world: &World,
    gate: &Gate,
    databases: &Databases,
    arrangement: Arrangement,
) -> anyhow::Result<Mixed> {
    let name = format!("mix_{}_{}", arrangement.base, arrangement.target);
    let mut data = databases.fresh(world, gate, &name).await?;
    let beside = Beside::start(world, gate, databases, &mut data, &name).await?;
    ground::expand(world, gate, &name, &data).await?;
    let Arrangement { base, target } = arrangement;
    let versions: Vec<&Version> = std::iter::repeat_n(&gate.service.base, base as usize)
        .chain(std::iter::repeat_n(&gate.service.target, target as usize))
        .collect();
    let mut instances = Instances::start(world, gate, &name, &data, &versions).await?;
    let before = instances.memory();
    let script = gate.script.as_ref().context("a frozen mix needs `load.steps`")?;
    let requests = Requests::beside(Arc::clone(script), instances.target(), beside.targets());
    let (entries, host) = load(world, gate, requests, &name, gate.pace.mixed).await?;
    let is_beside =
        |entry: &Entry| script.steps.iter().any(|step| step.to.is_some() && step.name == entry.kind);
    let (beside_it, entries) = entries.into_iter().partition(is_beside);
    let grown = instances.direct.iter().zip(before.iter().zip(instances.memory()));
    let memory = grown
        .map(|(at, (before, after))| Memory {
            node: at.node.clone(),
            version: at.version,
            before: *before,
            after,
        })
        .collect();
    let deaths = instances.deaths();
    instances.stop(gate).await?;
    beside.stop(gate).await?;
    Ok(Mixed { arrangement, entries, beside: beside_it, memory, deaths, host })
}
