//! `make demo`: what a newcomer sees first. A whole rolling upgrade on real processes under an honest load, shown while
//! it happens and judged when it is over.
//!
//! The demo is a spectator with an operator's hands: it writes configurations, types `tidegate` commands and looks. It
//! never touches a node, the store or the catalogue once the load runs, and it never judges by what it wished for.

pub mod alone;
pub mod arguments;
pub mod config;
pub mod display;
pub mod drive;
pub mod lines;
pub mod operator;
pub mod picture;
pub mod place;
pub mod report;
pub mod schema;
pub mod screen;
pub mod setting;
pub mod summary;

use anyhow::Context;

use crate::demo::arguments::DemoPlan;
use crate::demo::display::{Display, say};
use crate::demo::place::Place;
use crate::demo::report::DemoReport;
use crate::demo::setting::Setting;
use crate::world::interrupt::Interrupt;
use crate::world::{World, WorldError, program};

/// What stays after a run that ended as it should: what can be read. Databases, stores and programs go.
const READABLE: [&str; 7] = [".log", ".toml", ".yaml", ".json", ".csv", ".cfg", place::MARK];

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
    let mut display = Display::new(plan.plain);
    let played = tokio::select! {
        played = play(&world, &plan, &mut display) => played,
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

/// Everything that `--real` needs must be installed before anything is begun.
fn installed(plan: &DemoPlan) -> Result<(), WorldError> {
    if !plan.real {
        return Ok(());
    }
    program::outside("etcd")?;
    program::outside("haproxy")?;
    program::postgresql("initdb")?;
    program::postgresql("postgres").map(|_| ())
}

async fn play(world: &World, plan: &DemoPlan, display: &mut Display) -> anyhow::Result<bool> {
    installed(plan)?;
    let mut setting = Setting::bring_up(world, plan, display).await?;
    display.note(&format!("{} instances in rotation, over {}", plan.instances, setting.in_words()));
    let driven = drive::drive(world, plan, &mut setting, display).await?;
    let ideal = summary::ideal_of(plan, &setting.alone, &driven);
    let report = summary::report(plan, &driven, &ideal);
    report.write(&world.path("report.json")).context("could not write report.json")?;
    say(&summary::text(plan, &driven, &report, &ideal, world.dir()));
    Ok(report.is_good(plan.called_for()))
}
