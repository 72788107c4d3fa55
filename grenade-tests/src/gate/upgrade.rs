//! The whole upgrade under load: before it, while it goes on, after it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::gate::drive::{Course, Drive, Ended};
use crate::gate::file::{Gate, Schema};
use crate::gate::fleet::Fleet;
use crate::gate::ground::{self, Databases};
use crate::gate::host::{HostSeen, Reading};
use crate::gate::launcher::Places;
use crate::gate::processes::{Overlap, ProcessWatch};
use crate::gate::spectator::Spectator;
use crate::gate::survival::{Survived, Survivors};
use crate::gate::watch::{Change, Watch};
use crate::load::entry::{self, Entry};
use crate::load::plan::Pace;
use crate::load::requests::{Requests, Target, Versions};
use crate::load::{Load, LoadReport};
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
    /// What the load counted.
    pub load: LoadReport,
    /// The digest of the certificate on which contract ran, or why there is none that is true; absent: nothing was
    /// contracted by Tidegate.
    pub certificate: Option<Result<String, String>>,
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

impl Upgraded {
    /// How many instances were last seen at each version, by so many milliseconds after the load's start.
    pub fn spread_at(&self, ms: f64) -> BTreeMap<u32, u32> {
        let mut last = BTreeMap::new();
        for change in self.changes.iter().filter(|change| change.at_ms <= ms) {
            last.insert(change.node.as_str(), change.version);
        }
        let mut spread = BTreeMap::new();
        for version in last.into_values().flatten() {
            *spread.entry(version).or_insert(0) += 1;
        }
        spread
    }
}

/// Upgrades the service under load.
///
/// # Errors
/// When it could not be run to an end; an upgrade that fails is a result.
pub async fn upgrade(
    world: &World,
    gate: &Gate,
    databases: &Databases,
    spectator: &dyn Spectator,
    course: Course<'_>,
) -> anyhow::Result<Upgraded> {
    if gate.database.is_some() {
        spectator.say("a database of its own");
    }
    let data = databases.fresh(world, gate, &course.name()).await?;
    spectator.say(&format!("{} instances start at version {}", gate.instances, gate.service.base.number));
    let mut fleet = Fleet::bring_up(world, gate, data.clone(), course).await?;
    let places = Places::of(world, gate, &data)?.behind(fleet.balancer());
    let mut survivors = Survivors::of(world, gate, places.clone(), "survival");
    if let Some(survivors) = &mut survivors {
        survivors.reach(Some(fleet.balancer()));
        survivors.create().await?;
        survivors.verify("before the upgrade").await;
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
    let doing = format!("{} requests a second, before anything is upgraded", gate.pace.rate);
    fleet.hold(&load, spectator, &doing, gate.pace.before).await?;
    requests.set_aside(SET_ASIDE);
    let began = load.began().elapsed();
    let ended = match &mut fleet {
        Fleet::Tidegate(ground) => {
            let operator = ground.operator.clone();
            let (places, load, survivors) = (&places, &load, survivors.as_mut());
            let mut drive =
                Drive { world, gate, ground, operator, places, spectator, load, course, survivors };
            drive.drive().await?
        }
        Fleet::By(command, fleet) => fleet.drive(world, gate, command, spectator).await?,
    };
    let over = load.began().elapsed();
    if ended.word == "completed" {
        ground::contract(world, gate, &data).await?;
    }
    let doing = format!("the upgrade is over: {}; the load goes on", ended.word);
    fleet.hold(&load, spectator, &doing, gate.pace.after).await?;
    spectator.say("waiting for the last answers");
    let load = load.stop().await?;
    let after = Reading::take();
    if let Some(survivors) = &mut survivors {
        match ended.word.as_str() {
            "completed" => survivors.verify_after("after the upgrade").await,
            _ => survivors.verify("after the upgrade").await,
        }
        survivors.destroy("destroyed at the end").await;
    }
    spectator.say("reading again what the load made");
    let sweep = requests.sweep(SWEEP).await;
    fleet.must_run()?;
    let certificate = match (&fleet, &gate.schema) {
        (Fleet::Tidegate(ground), Some(Schema::Migrations(_))) if ended.word == "completed" => {
            let made = ground.operator.certificate(world, &world.path("certificate.json")).await;
            Some(made.map_err(|error| format!("{error:#}")))
        }
        _ => None,
    };
    let entries = entry::read(&ledger)?;
    let ms = |span: Duration| span.as_micros() as f64 / 1e3;
    Ok(Upgraded {
        ended,
        to: gate.service.target.number.get(),
        span_ms: (ms(began), ms(over)),
        load,
        certificate,
        host: HostSeen::between(before, after, &entries),
        entries,
        changes: watch.changes(),
        overlaps: processes.overlaps(),
        sweep,
        survival: survivors.map(Survivors::seen).unwrap_or_default(),
    })
}
