//! Drives an upgrade with the commands that an operator types, until it is over.

use std::time::Duration;

use anyhow::{Context, anyhow};
use serde::Serialize;
use tidegate_proto::wire::v1::UpgradeStatusReply;
use tokio::time::Instant;

use crate::demo::operator::Operator;
use crate::demo::picture::{UpgradeSeen, waits};
use crate::gate::file::{Command, Gate, Schema, Survival};
use crate::gate::ground::Ground;
use crate::gate::launcher::{self, Places};
use crate::gate::report::progress::Progress;
use crate::gate::written::TurningPoint;
use crate::load::LoadHandle;
use crate::world::World;

/// From one look at the upgrade to the next.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long the coordinator may give no answer.
const SILENCE: Duration = Duration::from_secs(15);
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

    /// As a name of databases and directories.
    pub fn name(self) -> String {
        match self {
            Self::Through => "upgrade".to_owned(),
            Self::BackFrom(point) => format!("rollback_{}", point.word()),
        }
    }
}

/// Runs the survival check once.
pub async fn verify(
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

/// One upgrade, and who drives it.
pub struct Drive<'a> {
    /// Where processes are started.
    pub world: &'a World,
    /// What is run.
    pub gate: &'a Gate,
    /// The fleet.
    pub ground: &'a mut Ground,
    /// Speaks of this upgrade.
    pub operator: Operator,
    /// What the places of commands mean.
    pub places: &'a Places,
    /// Who is told how it goes.
    pub progress: &'a Progress,
    /// The load beside it.
    pub load: &'a LoadHandle,
    /// Where it goes.
    pub course: Course,
    /// What is verified in the middle of it.
    pub survival: Option<&'a Survival>,
}

impl Drive<'_> {
    /// Starts the upgrade, and does what an operator does until it is over.
    ///
    /// # Errors
    /// When it was refused, or nobody answers any more.
    pub async fn drive(&mut self, survival: &mut Vec<Survived>) -> anyhow::Result<Ended> {
        let operator = self.operator.clone();
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
                        if let Some(commands) = self.survival {
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
            self.operator.approve(self.world, point, "by a gate job").await?;
            approved.push(point.to_owned());
        }
        Ok(())
    }
}
