//! `make demo`: what a newcomer sees first. A whole rolling upgrade on real processes under an honest load, shown while
//! it happens and judged when it is over: the gate file `gates/demo.yaml`, and a picture of it.
//!
//! The runner is a spectator with an operator's hands: it writes configurations, types `tidegate` commands and looks.

pub mod alone;
pub mod arguments;
pub mod display;
pub mod frame;
pub mod gate;
pub mod lines;
pub mod report;
pub mod summary;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};

use crate::demo::alone::Alone;
use crate::demo::arguments::DemoPlan;
use crate::demo::display::{Display, say};
use crate::demo::report::DemoReport;
use crate::gate::course::Course;
use crate::gate::databases::Databases;
use crate::gate::installed::installed;
use crate::gate::spectator::Spectator;
use crate::gate::upgrade::{Upgraded, upgrade};
use crate::world::interrupt::Interrupt;
use crate::world::place::{self, Place};
use crate::world::{World, WorldError};

/// What stays after a run that ended as it should: what can be read. Databases, stores and programs go.
const READABLE: [&str; 7] = [".log", ".toml", ".yaml", ".json", ".csv", ".cfg", place::MARK];
/// An upgrade of six instances takes well below a minute: one that takes this long will not end.
const LONGEST: Duration = Duration::from_secs(240);

/// Runs the demo; answers whether it ended as the arguments call for, with no failed request.
///
/// # Errors
/// When it could not be run to a verdict, or was interrupted. Every process was ended then, as always.
pub async fn run(plan: DemoPlan) -> anyhow::Result<bool> {
    let mut interrupt = Interrupt::listen()?;
    let dir = match &plan.dir {
        Some(dir) => dir.clone(),
        None => place::default_dir()?,
    };
    let place = Place::fresh(&dir)?;
    let world = World::alone(place.dir())?;
    let display = Display::new(plan.plain);
    let played = tokio::select! {
        played = play(&world, &plan, &display) => played,
        signal = interrupt.interrupted() => Err(signal.into()),
    };
    display.end();
    world.sweep();
    if played.as_ref().is_err_and(|error| !is_interrupt(error)) {
        let report = DemoReport::of_nothing(plan.instances);
        report.write(&world.path("report.json")).context("could not write report.json")?;
    }
    let good = played?;
    if good && !plan.keep {
        place.clear(|name| !READABLE.iter().any(|end| name.ends_with(end)))?;
    }
    Ok(good)
}

/// Whether a run ended by a signal: then there is no report, for nothing was judged.
pub fn is_interrupt(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(WorldError::Interrupted(_)))
}

async fn play(world: &World, plan: &DemoPlan, display: &Display) -> anyhow::Result<bool> {
    let gate = gate::gate(world, plan)?;
    installed(&gate)?;
    let over = match plan.real {
        true => "three members of etcd, PostgreSQL, HAProxy",
        false => "the embedded store, SQLite, the built-in balancer",
    };
    display.say(&format!("{} instances over {over}, {} rows to migrate", plan.instances, plan.rows));
    let databases = Databases::start(world, &gate).await?;
    display.say("measuring alone what the ideal is made of: a fill, a stop, a start");
    let alone = alone::measure(world, &gate, &databases).await?;
    display.say(&alone.to_string());
    let upgraded = upgrade(world, &gate, &databases, display, Course::Through);
    let upgraded = tokio::time::timeout(LONGEST, upgraded).await;
    let upgraded = upgraded.map_err(|_| {
        anyhow!("the upgrade was not over after {LONGEST:?}, waiting on: {}", display.waits().join("; "))
    })??;
    display.end();
    verdict(world.dir(), plan, &alone, &gate, &upgraded)
}

/// Reports; answers whether it ended as the arguments call for, with no failed request.
fn verdict(
    dir: &Path,
    plan: &DemoPlan,
    alone: &Alone,
    gate: &crate::gate::file::Gate,
    upgraded: &Upgraded,
) -> anyhow::Result<bool> {
    let ideal = summary::ideal_of(plan, alone, gate, upgraded)?;
    let report = summary::report(plan, upgraded, &ideal);
    report.write(&dir.join("report.json")).context("could not write report.json")?;
    let good = summary::is_good(plan, upgraded, &report);
    say(&summary::text(plan, upgraded, &report, &ideal, dir));
    Ok(good)
}
