//! The companions of a service at their base version, one instance of each, while the service alone is tried or upgraded.

use std::collections::BTreeMap;

use anyhow::Context;

use crate::gate::databases::Databases;
use crate::gate::file::Gate;
use crate::gate::launcher::Data;
use crate::gate::mixed::Instances;
use crate::load::requests::Target;
use crate::world::World;

/// The companions of one part of a run.
#[derive(Default)]
pub struct Beside(Vec<(String, Instances)>);

impl Beside {
    /// Starts them; `data` then has their addresses. `name` is that of the part.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn start(
        world: &World,
        gate: &Gate,
        databases: &Databases,
        data: &mut Data,
        name: &str,
    ) -> anyhow::Result<Self> {
        let mut started = Vec::new();
        for companion in &gate.companions {
            let service = companion.service.name.as_str();
            let own = of_companion(world, companion, databases, data, name).await?;
            let (name, versions) = (format!("{name}-{service}"), [&companion.service.base]);
            let instances = Instances::start(world, companion, &name, &own, &versions).await;
            let instances =
                instances.with_context(|| format!("the base of the companion {service} alone"))?;
            let address = instances.first().context("one instance was started")?;
            data.companions.push((service.to_owned(), address));
            started.push((service.to_owned(), instances));
        }
        Ok(Self(started))
    }

    /// Where the steps of each go.
    pub fn targets(&self) -> BTreeMap<String, Target> {
        self.0.iter().map(|(service, instances)| (service.clone(), instances.target())).collect()
    }

    /// Ends them.
    ///
    /// # Errors
    /// When one does not end.
    pub async fn stop(self, gate: &Gate) -> anyhow::Result<()> {
        for (_, instances) in self.0 {
            instances.stop(gate).await?;
        }
        Ok(())
    }
}

/// The database of a companion: its own, or the one that it shares.
///
/// # Errors
/// When its own cannot be made or filled.
pub async fn of_companion(
    world: &World,
    companion: &Gate,
    databases: &Databases,
    shared: &Data,
    name: &str,
) -> anyhow::Result<Data> {
    match companion.database {
        None => Ok(Data { companions: Vec::new(), ..shared.clone() }),
        Some(_) => {
            let name = format!("{name}_{}", companion.service.name.as_str().replace('-', "_"));
            databases.fresh(world, companion, &name).await
        }
    }
}
