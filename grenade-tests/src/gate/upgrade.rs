//! The whole upgrade under load, driven with the commands that an operator types.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use serde::Serialize;
use tidegate_proto::wire::v1::UpgradeStatusReply;
use tokio::time::Instant;

use crate::demo::picture::{UpgradeSeen, waits};
use crate::gate::file::{Command, Gate, Schema, Survival};
use crate::gate::ground::{self, Databases, Ground};
use crate::gate::host::{HostSeen, Reading};
use crate::gate::launcher::{self, Data, Node, Places};
use crate::gate::procedure;
use crate::gate::report::progress::Progress;
use crate::gate::requests::{Requests, Target, Versions};
use crate::gate::watch::{Change, Watch};
use crate::gate::written::TurningPoint;
use crate::load::entry::{self, Entry};
use crate::load::plan::Pace;
use crate::load::{Load, LoadHandle};
use crate::world::World;

/// From one look at the upgrade to the next.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long the coordinator may give no answer.
const SILENCE: Duration = Duration::from_secs(15);
/// The most objects of the load that are read again afterwards.
const SWEEP: usize = 5_000;

/// The most objects of a kind that are left alone from the upgrade's start until they are read again.
const SET_ASIDE: usize = 100;

/// One check of resources that must survive.
#[derive(Debug, Clone, Serialize)]
pub struct Survived {
    /// When it was done.
    pub stage: &'static str,
    /// Why it did not hold.
    pub wrong: Option<String>,
}

/// How an upgrade ended.
#[derive(Debug)]
pub struct Ended {
    /// `completed`, `rolled-back`, `failed` or `paused`.
    pub word: String,
    /// Why, where it did not complete.
    pub because: Option<String>,
    /// Each phase that was left, with seconds.
    pub phases: Vec<(String, f64)>,
}

/// The fleet that is upgraded, and by whom.
enum Fleet<'a> {
    Tidegate(Box<Ground>),
    By(&'a Command, Box<procedure::Fleet>),
}

impl<'a> Fleet<'a> {
    async fn bring_up(world: &World, gate: &'a Gate, data: Data, course: Course) -> anyhow::Result<Self> {
        Ok(match &gate.procedure {
            None => Self::Tidegate(Box::new(Ground::bring_up(world, gate, data, course).await?)),
            Some(command) => {
                Self::By(command, Box::new(procedure::Fleet::bring_up(world, gate, data).await?))
            }
        })
    }

    fn nodes(&self) -> &[Node] {
        match self {
            Self::Tidegate(ground) => &ground.nodes,
            Self::By(_, fleet) => &fleet.nodes,
        }
    }

    fn balancer(&self) -> SocketAddr {
        match self {
            Self::Tidegate(ground) => ground.balancer.address,
            Self::By(_, fleet) => fleet.balancer.address,
        }
    }
}

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
    /// How many objects of the load were read again afterwards, and what was wrong with some.
    pub sweep: (usize, Vec<String>),
    /// The survival checks.
    pub survival: Vec<Survived>,
    /// The machine while it ran.
    pub host: HostSeen,
}

/// Where an upgrade goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Course {
    /// To its end.
    Through,
    /// Back to the base, from here.
    BackFrom(TurningPoint),
}

impl Course {
    /// The phase before which it must wait, so that it can be turned back there.
    pub fn waits_before(self) -> Option<&'static str> {
        match self {
            Self::Through | Self::BackFrom(TurningPoint::Roll) => None,
            Self::BackFrom(point) => Some(point.word()),
        }
    }

    fn name(self) -> String {
        match self {
            Self::Through => "upgrade".to_owned(),
            Self::BackFrom(point) => format!("rollback_{}", point.word()),
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
    progress: &Progress,
    course: Course,
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
    let pace = Pace { rate: gate.pace.rate, seed: gate.pace.seed, ledger: ledger.clone() };
    let before = Reading::take();
    let load = Load::of(pace, Arc::clone(&requests))?;
    let watch = Watch::start(gate, fleet.nodes(), load.began(), &versions);
    progress.say(&format!("{} requests a second, before anything is upgraded", gate.pace.rate));
    tokio::time::sleep(gate.pace.before).await;
    requests.set_aside(SET_ASIDE);
    let began = load.began().elapsed();
    let ended = match &mut fleet {
        Fleet::Tidegate(ground) => {
            let mut drive = Drive { world, gate, ground, places: &places, progress, load: &load, course };
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
        sweep,
        survival,
    })
}

async fn verify(
    world: &World,
    gate: &Gate,
    commands: &Survival,
    places: &Places,
    stage: &'static str,
    survival: &mut Vec<Survived>,
) {
    let name = format!("survival-verify-{}", survival.len());
    let verified = launcher::run(world, gate, &name, &commands.verify, places).await;
    survival.push(Survived { stage, wrong: verified.err().map(|error| format!("{error:#}")) });
}

/// The phases that wait for an approval.
fn points(status: &UpgradeStatusReply) -> impl Iterator<Item = &str> {
    let asked = status.waiting.iter().filter(|wait| wait.kind == "approval");
    // `tidegate upgrade approve ID PHASE`
    asked.filter_map(|wait| wait.next_step.as_deref()?.rsplit(' ').next())
}

struct Drive<'a> {
    world: &'a World,
    gate: &'a Gate,
    ground: &'a mut Ground,
    places: &'a Places,
    progress: &'a Progress,
    load: &'a LoadHandle,
    course: Course,
}

impl Drive<'_> {
    /// Starts the upgrade, and does what an operator does until it is over.
    async fn drive(&mut self, survival: &mut Vec<Survived>) -> anyhow::Result<Ended> {
        let operator = self.ground.operator.clone();
        operator.start(self.world, &self.ground.spec).await.context("the upgrade was refused")?;
        let (mut answered, mut approved) = (Instant::now(), Vec::new());
        let (mut verified, mut accepted, mut turned) = (false, false, false);
        loop {
            self.ground.must_run()?;
            let next = Instant::now() + LOOK_EVERY;
            match operator.status().await {
                Ok(status) => {
                    answered = Instant::now();
                    let seen = UpgradeSeen::of(&status);
                    self.progress.upgrade(&seen, &waits(&status), self.load.progress());
                    if seen.over {
                        let because = status.because.clone();
                        return Ok(Ended { word: seen.phase, because, phases: seen.left });
                    }
                    // Nobody is there to resume it.
                    if let Some(paused) = status.waiting.iter().find(|wait| wait.kind == "paused") {
                        let because = Some(paused.blocked_on.clone());
                        return Ok(Ended { word: "paused".to_owned(), because, phases: seen.left });
                    }
                    if !accepted && status.waiting.iter().any(|wait| wait.kind == "acceptance") {
                        accepted = true;
                        operator.accept(self.world).await?;
                    }
                    if !turned && self.turns_here(&status) {
                        turned = true;
                        self.progress.say("the operator rolls back");
                        operator.roll_back(self.world, "a gate job tries the way back").await?;
                    } else if !turned {
                        self.approve(&status, &mut approved).await?;
                    }
                    if !verified && self.is_mixed(&status) {
                        verified = true;
                        if let Some(commands) = &self.gate.survival {
                            verify(self.world, self.gate, commands, self.places, "in mid-upgrade", survival)
                                .await;
                        }
                    }
                }
                Err(silence) if answered.elapsed() > SILENCE => {
                    return Err(anyhow!("the coordinator gave no answer for {SILENCE:?}: {silence}"));
                }
                Err(_) => {}
            }
            tokio::time::sleep_until(next).await;
        }
    }

    /// Whether this is where it is turned back.
    fn turns_here(&self, status: &UpgradeStatusReply) -> bool {
        match self.course {
            Course::Through => false,
            Course::BackFrom(TurningPoint::Roll) => self.is_mixed(status),
            Course::BackFrom(point) => points(status).any(|asked| asked == point.word()),
        }
    }

    fn is_mixed(&self, status: &UpgradeStatusReply) -> bool {
        let at = |number: u32| status.instances.iter().any(|instance| instance.version == Some(number));
        at(self.gate.service.base.number.get()) && at(self.gate.service.target.number.get())
    }

    /// Approves what waits for it, once each; before instances are rolled, changes the schema by the service's own
    /// commands.
    async fn approve(
        &mut self,
        status: &UpgradeStatusReply,
        approved: &mut Vec<String>,
    ) -> anyhow::Result<()> {
        for point in points(status) {
            if approved.iter().any(|known| known == point) {
                continue;
            }
            let own: &[Command] = match &self.gate.schema {
                Some(Schema::Commands { before, .. }) if point == "roll" => before,
                _ => &[],
            };
            for (n, command) in own.iter().enumerate() {
                self.progress.say("changing the schema by the service's own command");
                launcher::run(self.world, self.gate, &format!("schema-{n}"), command, self.places).await?;
            }
            self.ground.operator.approve(self.world, point, "by a gate job").await?;
            approved.push(point.to_owned());
        }
        Ok(())
    }
}
