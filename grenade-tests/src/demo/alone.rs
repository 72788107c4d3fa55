//! What the ideal is made of, measured before anything else runs: on a catalogue of its own, one thing at a time.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::fixture::pantry::{PantryPlan, measure_restart};
use crate::gate::by_hand::ByHand;
use crate::gate::databases::Databases;
use crate::gate::file::{Gate, Schema};
use crate::world::{World, port};

/// The measured terms.
#[derive(Debug, Clone, Copy)]
pub struct Alone {
    /// The whole fill.
    pub fill: Duration,
    /// From SIGTERM to the end of version 1.
    pub stop: Duration,
    /// From the start of version 2 to ready.
    pub start_to_ready: Duration,
}

impl fmt::Display for Alone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |span: Duration| span.as_millis();
        let (fill, stop, start) = (ms(self.fill), ms(self.stop), ms(self.start_to_ready));
        write!(f, "alone: the fill takes {fill} ms, a stop {stop} ms, a start {start} ms")
    }
}

/// Measures.
///
/// # Errors
/// When the second catalogue cannot be made, filled or served.
pub async fn measure(world: &World, gate: &Gate, databases: &Databases) -> anyhow::Result<Alone> {
    let database = databases.fresh(world, gate, "alone").await?.url;
    let old = measure_restart(world, plan(world, &database, 1)?).await?;
    let Some(Schema::Migrations(migrations)) = &gate.schema else {
        anyhow::bail!("the demo's gate file has no migrations");
    };
    let by_hand = ByHand::on(&database, migrations).await?;
    by_hand.expand().await.context("could not expand the second catalogue")?;
    let began = Instant::now();
    by_hand.migrate().await.context("could not fill the second catalogue")?;
    let fill = began.elapsed();
    let new = measure_restart(world, plan(world, &database, 2)?).await?;
    Ok(Alone { fill, stop: old.stop, start_to_ready: new.start_to_ready })
}

fn plan(world: &World, database: &str, version: u32) -> anyhow::Result<PantryPlan> {
    Ok(PantryPlan {
        version,
        node: "alone".to_owned(),
        address: port::free()?,
        database: database.to_owned(),
        disable_file: world.path("alone.disable"),
    })
}
