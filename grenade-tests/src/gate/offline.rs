//! The upgrade with the service down, as an operator does it who may have a pause: the base is stopped, the schema is
//! expanded, and the target starts with the base's configuration.

use crate::gate::beside::Beside;
use crate::gate::databases::Databases;
use crate::gate::file::{Gate, Version};
use crate::gate::ground;
use crate::gate::host::{HostSeen, Machine};
use crate::gate::late::Wrong;
use crate::gate::launcher::Places;
use crate::gate::mixed::Instances;
use crate::gate::survival::{Survived, Survivors};
use crate::world::World;

/// The name of its databases and directories.
const NAME: &str = "offline";

/// What it showed.
#[derive(Debug)]
pub struct Offline {
    /// Whether the target became ready with the base's environment.
    pub started: Result<(), Wrong>,
    /// The survival checks.
    pub survival: Vec<Survived>,
    /// The machine meanwhile; no load is sent.
    pub host: HostSeen,
}

/// Upgrades one instance so.
///
/// # Errors
/// When the database, the base or the resources cannot be had; that the target does not start is a result.
pub async fn offline(world: &World, gate: &Gate, databases: &Databases) -> anyhow::Result<Offline> {
    let mut data = databases.fresh(world, gate, NAME).await?;
    let beside = Beside::start(world, gate, databases, &mut data, NAME).await?;
    let places = Places::of(world, gate, &data)?;
    let machine = Machine::watch();
    let mut survivors = Survivors::of(world, gate, places, "offline-survival");
    if let Some(survivors) = &mut survivors {
        let base = Instances::start(world, gate, NAME, &data, &[&gate.service.base]).await?;
        survivors.reach(base.first());
        survivors.create().await?;
        base.stop(gate).await?;
        survivors.reach(None);
        survivors.down("while no instance runs").await;
    }
    ground::expand(world, gate, NAME, &data).await?;
    let version = Version { env: gate.service.base.env.clone(), ..gate.service.target.clone() };
    let started = match Instances::start(world, gate, &format!("{NAME}-after"), &data, &[&version]).await {
        Ok(target) => {
            if let Some(survivors) = &mut survivors {
                survivors.reach(target.first());
                survivors.verify_after("after an upgrade with the service down").await;
                survivors.destroy("destroyed after an upgrade with the service down").await;
            }
            target.stop(gate).await?;
            Ok(())
        }
        Err(error) => Err(Wrong::of(&error)),
    };
    beside.stop(gate).await?;
    let survival = survivors.map(Survivors::seen).unwrap_or_default();
    Ok(Offline { started, survival, host: machine.seen(&[]) })
}
