//! The whole upgrade under load: before it, while it goes on, after it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use crate::gate::drive::{Course, Drive, Ended, Survived, verify};
use crate::gate::file::Gate;
use crate::gate::fleet::Fleet;
use crate::gate::ground::{self, Databases};
use crate::gate::host::{HostSeen, Reading};
use crate::gate::launcher::{self, Places};
use crate::gate::processes::{Overlap, ProcessWatch};
use crate::gate::report::progress::Progress;
use crate::gate::requests::{Requests, Target, Versions};
use crate::gate::watch::{Change, Watch};
use crate::load::Load;
use crate::load::entry::{self, Entry};
use crate::load::plan::Pace;
use crate::world::World;

/// The most objects of the load that are read again afterwards.
const SWEEP: usize = 5_000;

/// The most objects of a kind that are left alone from the upgrade's start until they are read again.
const SET_ASIDE: usize = 100;

/// What became of an upgrade.
#[derive(Debug)]
pub struct Upgraded {
    /// How it ended, by its own account.
    pub ended: Ended,
    /// The version that it goes to.
    pub to: u32,
    /// When the upgrade began and ended, in milliseconds since the load's start.
    pub span_ms: (f64, f64),
    /// The ledger.
    pub entries: Vec<Entry>,
    /// What was seen of the instances.
    pub changes: Vec<Change>,
    /// Where two versions ran at one place at the same time; absent: processes could not be seen.
    pub overlaps: Option<Vec<Overlap>>,
    /// How many objects of the load were read again afterwards, and what was wrong with some.
    pub sweep: (usize, Vec<String>),
    /// The survival checks.
    pub survival: Vec<Survived>,
    /// The machine while it ran.
    pub host: HostSeen,
}

/// Upgrades the service under load.
///
/// # Errors
/// When it could not be run to an end; an upgrade that fails is a result.
pub async fn upgrade(
    world: &World,
    gate: &Gate,
    databases: &Databases,
    progress: &Progress,
    course: Course<'_>,
) -> anyhow::Result<Upgraded> {
    let data = databases.fresh(world, gate, &course.name()).await?;
    progress.say(&format!("{} instances at version {}", gate.instances, gate.service.base.number));
    let mut fleet = Fleet::bring_up(world, gate, data.clone(), course).await?;
    let places = Places::of(world, gate, &data)?.behind(fleet.balancer());
    let mut survival = Vec::new();
    if let Some(commands) = &gate.survival {
        launcher::run(world, gate, "survival-create", &commands.create, &places)
            .await
            .context("resources that are to survive could not be made")?;
        verify(world, gate, commands, &places, "before the upgrade", &mut survival).await;
    }
    let versions = Versions::default();
    let target = Target::Balancer(fleet.balancer(), versions.clone());
    let requests = Arc::new(Requests::new(Arc::clone(&gate.script), target));
    let ledger = world.path("requests.csv");
    let pace = Pace { rate: gate.pace.rate, seed: gate.pace.seed, jitter: None, ledger: ledger.clone() };
    let before = Reading::take();
    let load = Load::of(pace, Arc::clone(&requests))?;
    let watch = Watch::start(gate, fleet.nodes(), load.began(), &versions);
    let processes = ProcessWatch::start(fleet.nodes(), load.began());
    progress.say(&format!("{} requests a second, before anything is upgraded", gate.pace.rate));
    tokio::time::sleep(gate.pace.before).await;
    requests.set_aside(SET_ASIDE);
    let began = load.began().elapsed();
    let ended = match &mut fleet {
        Fleet::Tidegate(ground) => {
            let operator = ground.operator.clone();
            let (places, load, survives) = (&places, &load, gate.survival.as_ref());
            let mut drive =
                Drive { world, gate, ground, operator, places, progress, load, course, survival: survives };
            drive.drive(&mut survival).await?
        }
        Fleet::By(command, fleet) => fleet.drive(world, gate, command, progress).await?,
    };
    let over = load.began().elapsed();
    if ended.word == "completed" {
        ground::contract(world, gate, &data).await?;
    }
    progress.say(&format!("{}; the load goes on", ended.word));
    tokio::time::sleep(gate.pace.after).await;
    load.stop().await?;
    let after = Reading::take();
    if let Some(commands) = &gate.survival {
        verify(world, gate, commands, &places, "after the upgrade", &mut survival).await;
        if let Some(destroy) = &commands.destroy {
            let destroyed = launcher::run(world, gate, "survival-destroy", destroy, &places).await;
            let wrong = destroyed.err().map(|error| format!("{error:#}"));
            survival.push(Survived { stage: "destroyed at the end", wrong });
        }
    }
    progress.say("reading again what the load made");
    let sweep = requests.sweep(SWEEP).await;
    if let Fleet::Tidegate(ground) = &mut fleet {
        ground.must_run()?;
    }
    let entries = entry::read(&ledger)?;
    let ms = |span: Duration| span.as_micros() as f64 / 1e3;
    Ok(Upgraded {
        ended,
        to: gate.service.target.number.get(),
        span_ms: (ms(began), ms(over)),
        host: HostSeen::between(before, after, &entries),
        entries,
        changes: watch.changes(),
        overlaps: processes.overlaps(),
        sweep,
        survival,
    })
}
