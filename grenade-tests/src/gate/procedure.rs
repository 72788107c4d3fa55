//! An upgrade by a command instead of Tidegate: it reads where the instances are from a file. Load, judge and reports are
//! the same, so that two ways can be compared on one kind of ledger.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};

use crate::gate::drive::Ended;
use crate::gate::file::{Command, Gate, Schema};
use crate::gate::ground;
use crate::gate::launcher::{self, Data, Node, Places};
use crate::gate::spectator::Spectator;
use crate::gate::steps;
use crate::world::balancer::RunningBalancer;
use crate::world::executed::Executions;
use crate::world::{Process, World, WorldError};

/// From one look at the command to the next.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Instances at the base version behind a balancer, without agents.
#[derive(Debug)]
pub struct Fleet {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// What clients speak to.
    pub balancer: RunningBalancer,
    /// The database.
    pub data: Data,
    /// What was executed for the upgrade.
    pub executed: Executions,
    /// What the command reads.
    file: PathBuf,
    processes: Vec<Process>,
}

impl Fleet {
    /// Brings it up.
    ///
    /// # Errors
    /// When an instance or the balancer does not start.
    pub async fn bring_up(world: &World, gate: &Gate, data: Data) -> anyhow::Result<Self> {
        let places = Places::of(world, gate, &data)?;
        let scripts = [&gate.service.base, &gate.service.target]
            .map(|version| places.release(version, &world.path(&format!("version-{}", version.number))));
        let [base, target] = scripts;
        let (base, target) = (base?, target?);
        let nodes = ground::nodes(world, gate)?;
        let balancer = ground::balance(world, gate, &nodes).await?;
        let (mut processes, mut described) = (Vec::new(), Vec::new());
        for node in &nodes {
            let process = node.start(world, gate, &base).await?;
            let start = |script: &PathBuf| -> Vec<String> {
                std::iter::once(script.display().to_string()).chain(node.arguments()).collect()
            };
            described.push(json!({
                "name": node.name,
                "address": node.address,
                "directory": node.home,
                "disable_file": node.disable_file(),
                "pid": process.pid(),
                "start_base": start(&base),
                "start_target": start(&target),
            }));
            processes.push(process);
        }
        for node in &nodes {
            balancer.wait_for_status(&node.name, "UP", gate.service.start_timeout).await?;
        }
        let file = world.path("fleet.json");
        let fleet = fleet(gate, &balancer, described);
        std::fs::write(&file, serde_json::to_string_pretty(&fleet)?).context("could not write fleet.json")?;
        Ok(Self { nodes, balancer, data, file, executed: Executions::default(), processes })
    }

    /// Runs the command to its end, the schema's commands before and after it.
    ///
    /// # Errors
    /// When it could not be run; that it fails is a result.
    pub async fn drive(
        &mut self,
        world: &World,
        gate: &Gate,
        command: &Command,
        spectator: &dyn Spectator,
    ) -> anyhow::Result<Ended> {
        let began = Instant::now();
        if let Some(Schema::Commands { before, .. }) = &gate.schema {
            let places = Places::of(world, gate, &self.data)?;
            steps::execute(&self.executed, (world, gate), "upgrade-schema", before, &places).await?;
        }
        let places = Places::of(world, gate, &self.data)?.behind(self.balancer.address).fleet(&self.file);
        let (words, typed_at) = (places.words(command)?, tokio::time::Instant::now());
        spectator.say("the procedure of the gate file");
        let mut process = launcher::begin(world, gate, "procedure", command, &places)?;
        let status = loop {
            // What the command has ended is gone only when its parent, who is this program, has seen it.
            for process in &mut self.processes {
                let _ = process.ended();
            }
            match process.wait(LOOK_EVERY).await {
                Ok(status) => break status,
                Err(WorldError::Late { .. }) => self.balancer.process.must_run()?,
                Err(error) => return Err(error.into()),
            }
        };
        let phases = vec![("procedure".to_owned(), began.elapsed().as_secs_f64())];
        let (word, because) = match status.success() {
            true => ("completed", None),
            false => ("failed", Some(format!("the procedure ended with {status}: {}", process.tail()))),
        };
        self.executed.record(typed_at, &words, because.clone());
        Ok(Ended { word: word.to_owned(), because, phases, ..Ended::default() })
    }
}

/// The input of the command.
fn fleet(gate: &Gate, balancer: &RunningBalancer, nodes: Vec<Value>) -> Value {
    json!({
        "service": gate.service.name,
        "from": gate.service.base.number,
        "to": gate.service.target.number,
        "ready": gate.service.ready,
        "health": gate.service.health,
        "balancer": format!("http://{}", balancer.address),
        "balancer_stats": balancer.stats_socket,
        "nodes": nodes,
    })
}
