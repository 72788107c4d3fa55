//! The upgrade with the service down, as an operator does it who may have a pause: the base is stopped, the schema is
//! expanded, and the target starts with the base's configuration.

use anyhow::Context;

use crate::gate::drive::Survived;
use crate::gate::file::{Command, Gate, Version};
use crate::gate::ground::{self, Databases};
use crate::gate::launcher::{self, Data, Places};
use crate::gate::mixed::Instances;
use crate::world::World;

/// The name of its databases and directories.
const NAME: &str = "offline";

/// What it showed.
#[derive(Debug)]
pub struct Offline {
    /// Whether the target became ready with the base's environment.
    pub started: Result<(), String>,
    /// The survival checks.
    pub survival: Vec<Survived>,
}

/// Upgrades one instance so.
///
/// # Errors
/// When the database, the base or the resources cannot be had; that the target does not start is a result.
pub async fn offline(world: &World, gate: &Gate, databases: &Databases) -> anyhow::Result<Offline> {
    let data = databases.fresh(world, gate, NAME).await?;
    let mut survival = Vec::new();
    if gate.survival.is_some() {
        let base = Instances::start(world, gate, NAME, &data, &[&gate.service.base]).await?;
        let mut checks = Checks { world, gate, data: &data, survival: &mut survival };
        checks.create(&base).await?;
        base.stop(gate).await?;
        checks.down().await;
    }
    ground::expand(world, gate, NAME, &data).await?;
    let version = Version { env: gate.service.base.env.clone(), ..gate.service.target.clone() };
    let started = match Instances::start(world, gate, &format!("{NAME}-after"), &data, &[&version]).await {
        Ok(target) => {
            let mut checks = Checks { world, gate, data: &data, survival: &mut survival };
            checks.verify(&target).await;
            checks.destroy(&target).await;
            target.stop(gate).await?;
            Ok(())
        }
        Err(error) => Err(format!("{error:#}")),
    };
    Ok(Offline { started, survival })
}

struct Checks<'a> {
    world: &'a World,
    gate: &'a Gate,
    data: &'a Data,
    survival: &'a mut Vec<Survived>,
}

impl Checks<'_> {
    async fn create(&self, beside: &Instances) -> anyhow::Result<()> {
        let Some(commands) = &self.gate.survival else { return Ok(()) };
        let made = self.run("create", &commands.create, Some(beside)).await;
        made.context("resources that are to survive could not be made")
    }

    /// While no instance runs.
    async fn down(&mut self) {
        if let Some(command) = self.gate.survival.as_ref().and_then(|commands| commands.down.as_ref()) {
            let wrong = self.run("down", command, None).await.err();
            self.note("while no instance runs", wrong);
        }
    }

    async fn verify(&mut self, beside: &Instances) {
        if let Some(commands) = &self.gate.survival {
            let wrong = self.run("verify", &commands.verify, Some(beside)).await.err();
            self.note("after an upgrade with the service down", wrong);
        }
    }

    async fn destroy(&mut self, beside: &Instances) {
        if let Some(command) = self.gate.survival.as_ref().and_then(|commands| commands.destroy.as_ref())
            && let Err(wrong) = self.run("destroy", command, Some(beside)).await
        {
            self.note("destroyed after an upgrade with the service down", Some(wrong));
        }
    }

    fn note(&mut self, stage: &'static str, wrong: Option<anyhow::Error>) {
        self.survival.push(Survived { stage, wrong: wrong.map(|error| format!("{error:#}")) });
    }

    async fn run(&self, name: &str, command: &Command, beside: Option<&Instances>) -> anyhow::Result<()> {
        let mut places = Places::of(self.world, self.gate, self.data)?;
        if let Some(address) = beside.and_then(Instances::first) {
            places = places.behind(address);
        }
        launcher::run(self.world, self.gate, &format!("{NAME}-{name}"), command, &places).await
    }
}
