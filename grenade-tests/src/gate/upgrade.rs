//! The whole upgrade under load: before it, while it goes on, after it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::gate::beside::Beside;
use crate::gate::course::Course;
use crate::gate::databases::Databases;
use crate::gate::deaths::{Death, DeathWatch};
use crate::gate::drive::{Drive, Ended};
use crate::gate::file::{Gate, Schema};
use crate::gate::fleet::Fleet;
use crate::gate::host::{HostSeen, Machine};
use crate::gate::late::Wrong;
use crate::gate::launcher::{Data, Node, Places};
use crate::gate::load::FleetLoad;
use crate::gate::processes::{Overlap, ProcessWatch};
use crate::gate::spectator::Spectator;
use crate::gate::steps::{self, Step};
use crate::gate::survival::{Survived, Survivors};
use crate::gate::watch::{Change, Watch};
use crate::load::entry::Entry;
use crate::load::requests::Versions;
use crate::load::sweep::Sweep;
use crate::load::{LoadReport, Watched};
use crate::world::World;

/// What became of an upgrade.
#[derive(Debug)]
pub struct Upgraded {
    /// How it ended, by its own account.
    pub ended: Ended,
    /// The commands that were executed for it, in order.
    pub steps: Vec<Step>,
    /// The version that every instance is at before it begins.
    pub from: u32,
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
    /// Processes of the service that ended without having been asked to.
    pub deaths: Vec<Death>,
    /// The objects of the load, read again afterwards; absent: the load has no steps, and so no objects.
    pub sweep: Option<Sweep>,
    /// The longest time in the upgrade in which the command of the load sent nothing, in milliseconds since the load's
    /// start; absent: there is no command.
    pub silence: Option<(f64, f64)>,
    /// The survival checks.
    pub survival: Vec<Survived>,
    /// The machine while it ran, until the objects had been read again.
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

/// What sends, in words.
fn sends(gate: &Gate) -> String {
    let steps = gate.script.as_ref().map(|_| format!("{} requests a second", gate.pace.rate));
    let command = gate.load_command.as_ref().map(|_| "the load's command".to_owned());
    steps.into_iter().chain(command).collect::<Vec<_>>().join(" and ")
}

/// What looks at the instances from outside.
struct Watches {
    changes: Watch,
    processes: ProcessWatch,
    deaths: DeathWatch,
}

impl Watches {
    fn start(world: &World, gate: &Gate, nodes: &[Node], load: &FleetLoad, versions: &Versions) -> Self {
        let began = load.began();
        Self {
            changes: Watch::start(gate, nodes, began, versions),
            processes: ProcessWatch::start(nodes, began),
            deaths: DeathWatch::start(world, gate.service.name.as_str(), nodes, began),
        }
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
    let mut data = databases.fresh(world, gate, &course.name()).await?;
    let beside = Beside::start(world, gate, databases, &mut data, &course.name()).await?;
    spectator.say(&format!("{} instances start at version {}", gate.instances, gate.service.base.number));
    let mut fleet = Fleet::bring_up(world, gate, data.clone(), course).await?;
    let places = Places::of(world, gate, &data)?.behind(fleet.balancer());
    let machine = Machine::watch();
    let mut survivors = Survivors::begin(world, gate, places.clone(), fleet.balancer()).await?;
    let versions = Versions::default();
    let mut load = FleetLoad::start(world, gate, &places, (fleet.balancer(), beside.targets()), &versions)?;
    let watched = load.watched();
    let watches = Watches::start(world, gate, fleet.nodes(), &load, &versions);
    let doing = format!("{}, before anything is upgraded", sends(gate));
    fleet.hold(&watched, spectator, &doing, gate.pace.before).await?;
    load.must_run()?;
    load.set_aside();
    let (load_began, began) = (load.began(), load.began().elapsed());
    let drives = Driver { world, gate, places: &places, spectator, load: watched.clone(), course };
    let mut ended = drives.drive(&mut fleet, survivors.as_mut()).await?;
    let over = load.began().elapsed();
    if ended.word == "completed" {
        ended.contract = contract(&fleet, world, gate, &data).await?;
    }
    let doing = format!("the upgrade is over: {}; the load goes on", ended.word);
    fleet.hold(&watched, spectator, &doing, gate.pace.after).await?;
    spectator.say("waiting for the last answers");
    let sent = load.stop(gate, || watches.changes.changes()).await?;
    if let Some(survivors) = &mut survivors {
        survivors.end(ended.word == "completed").await;
    }
    spectator.say("reading again what the load made");
    let sweep = sent.sweep().await;
    fleet.must_run()?;
    beside.stop(gate).await?;
    let steps = Step::all(fleet.executed(), load_began);
    let certificate = certificate(world, gate, &fleet, &ended).await;
    let ms = |span: Duration| span.as_micros() as f64 / 1e3;
    let span_ms = (ms(began), ms(over));
    let changes = watches.changes.changes();
    Ok(Upgraded {
        ended,
        steps,
        from: gate.service.base.number.get(),
        to: gate.service.target.number.get(),
        span_ms,
        silence: sent.silence(span_ms),
        load: sent.report,
        certificate,
        host: sent.host.worse(machine.seen(&[])),
        entries: sent.entries,
        deaths: watches.deaths.unasked(&changes),
        changes,
        overlaps: watches.processes.overlaps(),
        sweep,
        survival: survivors.map(Survivors::seen).unwrap_or_default(),
    })
}

/// Drives a fleet: by an operator's commands, or by the procedure of the gate file.
struct Driver<'a> {
    world: &'a World,
    gate: &'a Gate,
    places: &'a Places,
    spectator: &'a dyn Spectator,
    load: Watched,
    course: Course<'a>,
}

impl Driver<'_> {
    async fn drive<'s>(
        self,
        fleet: &mut Fleet<'_>,
        survivors: Option<&mut Survivors<'s>>,
    ) -> anyhow::Result<Ended> {
        let Self { world, gate, places, spectator, load, course } = self;
        match fleet {
            Fleet::Tidegate(ground) => {
                let mut drive = Drive { world, gate, ground, places, spectator, load, course, survivors };
                drive.drive().await
            }
            Fleet::By(command, fleet) => fleet.drive(world, gate, command, spectator).await,
        }
    }
}

/// Contracts by the service's own commands; answers why they failed.
async fn contract(
    fleet: &Fleet<'_>,
    world: &World,
    gate: &Gate,
    data: &Data,
) -> anyhow::Result<Option<Wrong>> {
    let Some(Schema::Commands { contract, .. }) = &gate.schema else { return Ok(None) };
    let places = Places::of(world, gate, data)?;
    Wrong::of_contract(steps::execute(fleet.executed(), (world, gate), "contract", contract, &places).await)
}

/// The certificate of an upgrade that contracted, where Tidegate did that.
async fn certificate(
    world: &World,
    gate: &Gate,
    fleet: &Fleet<'_>,
    ended: &Ended,
) -> Option<Result<String, String>> {
    match (fleet, &gate.schema) {
        (Fleet::Tidegate(ground), Some(Schema::Migrations(_))) if ended.word == "completed" => {
            let made = ground.operator.certificate(world, &world.path("certificate.json")).await;
            Some(made.map_err(|error| format!("{error:#}")))
        }
        _ => None,
    }
}
