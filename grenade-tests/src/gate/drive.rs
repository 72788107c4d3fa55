//! Drives an upgrade with the commands that an operator types, until it is over; and does what a plan says meanwhile.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tidegate_proto::Span;
use tidegate_proto::wire::v1::UpgradeStatusReply;
use tokio::time::Instant;

use crate::gate::course::Course;
use crate::gate::file::{Command, Gate, Schema};
use crate::gate::ground::Ground;
use crate::gate::late::Wrong;
use crate::gate::launcher::Places;
use crate::gate::picture::{Picture, UpgradeSeen};
use crate::gate::plan::{Event, PlanStep, When};
use crate::gate::spectator::Spectator;
use crate::gate::steps;
use crate::gate::survival::Survivors;
use crate::gate::written::TurningPoint;
use crate::load::Watched;
use crate::world::World;
use crate::world::wait::wait_for;

/// From one look at the upgrade to the next.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long the coordinator may give no answer.
const SILENCE: Duration = Duration::from_secs(15);
/// How long a command of the operator may take to be seen in the status.
const SEEN: Duration = Duration::from_secs(10);
/// How long an agent is stalled.
const STALL: Duration = Duration::from_secs(2);

/// How an upgrade ended.
#[derive(Debug, Default)]
pub struct Ended {
    /// `completed`, `rolled-back`, `failed` or `paused`.
    pub word: String,
    /// Why, where it did not complete.
    pub because: Option<String>,
    /// Why a command of `schema.contract` failed; they are run where it completed.
    pub contract: Option<Wrong>,
    /// Each phase that was left, with seconds.
    pub phases: Vec<(String, f64)>,
    /// The size of each wave, as they were seen while they were rolled.
    pub waves: Vec<u32>,
    /// How long a person was given to read what they accept.
    pub read: Duration,
    /// Steps of the plan that were not reached, or refused.
    pub left_out: Vec<String>,
}

/// Lets the spectator see one instant. Before the start there is no status.
async fn show(
    ground: &Ground,
    load: &Watched,
    spectator: &dyn Spectator,
    doing: &str,
    status: Option<&UpgradeStatusReply>,
) {
    let (mut instances, mut balancer) = (Vec::new(), None);
    if spectator.sees_instances() {
        balancer = ground.balancer.show_stat().await.ok();
        instances = match status {
            Some(status) => status.instances.clone(),
            None => ground.operator.instances().await.unwrap_or_default(),
        };
    }
    spectator.look(&Picture::of(doing, status, &instances, balancer.as_ref(), load.progress()));
}

/// Only looks, for a while; after an upgrade also at its status.
///
/// # Errors
/// When a process has ended that must not.
pub async fn hold(
    ground: &mut Ground,
    load: &Watched,
    spectator: &dyn Spectator,
    doing: &str,
    span: Duration,
) -> anyhow::Result<()> {
    let end = Instant::now() + span;
    while Instant::now() < end {
        let next = (Instant::now() + LOOK_EVERY).min(end);
        ground.must_run()?;
        let status = ground.operator.status().await.ok();
        show(ground, load, spectator, doing, status.as_ref()).await;
        tokio::time::sleep_until(next).await;
    }
    Ok(())
}

/// The phases that wait for an approval.
fn points(status: &UpgradeStatusReply) -> impl Iterator<Item = &str> {
    let asked = status.waiting.iter().filter(|wait| wait.kind == "approval");
    // `tidegate upgrade approve ID PHASE`
    asked.filter_map(|wait| wait.next_step.as_deref()?.rsplit(' ').next())
}

/// One upgrade, and who drives it.
pub struct Drive<'a, 's> {
    /// Where processes are started.
    pub world: &'a World,
    /// What is run.
    pub gate: &'a Gate,
    /// The fleet.
    pub ground: &'a mut Ground,
    /// What the places of commands mean.
    pub places: &'a Places,
    /// Sees how it goes.
    pub spectator: &'a dyn Spectator,
    /// The load beside it.
    pub load: Watched,
    /// Where it goes.
    pub course: Course<'a>,
    /// What is verified in the middle of it.
    pub survivors: Option<&'a mut Survivors<'s>>,
}

/// What was done in an upgrade, so that nothing is done twice.
#[derive(Default)]
struct Done {
    approved: Vec<String>,
    verified: bool,
    asked: Option<Instant>,
    accepted: bool,
    turned: bool,
    waves: Vec<u32>,
}

/// What a plan has left.
struct Steps {
    began: Instant,
    left: VecDeque<PlanStep>,
    left_out: Vec<String>,
    /// How many upgrades were rolled back by the plan; the next one is begun when that is done.
    again: u32,
    goes_back: bool,
}

impl Drive<'_, '_> {
    /// Starts the upgrade, and does what an operator does until it is over.
    ///
    /// # Errors
    /// When it was refused, or the coordinator does not answer for too long.
    pub async fn drive(&mut self) -> anyhow::Result<Ended> {
        let (spec, id) = (self.ground.spec.display(), self.ground.operator.upgrade());
        self.spectator.say(&format!("the operator types: tidegate upgrade start {spec} --id {id}"));
        self.ground.operator.start(self.world, &self.ground.spec).await.context("the upgrade was refused")?;
        let (mut answered, mut done) = (Instant::now(), Done::default());
        let steps = self.course.plan().map(|plan| plan.steps.clone()).unwrap_or_default();
        let mut steps =
            Steps { began: answered, left: steps.into(), left_out: Vec::new(), again: 0, goes_back: false };
        loop {
            self.ground.must_run()?;
            self.world.must_have_room()?;
            let next = Instant::now() + LOOK_EVERY;
            match self.ground.operator.status().await {
                Ok(status) => {
                    if let Some(ended) = self.look(&status, &mut done, &mut steps).await? {
                        return Ok(ended);
                    }
                    answered = Instant::now();
                }
                Err(silence) if answered.elapsed() > SILENCE => {
                    return Err(anyhow!("the coordinator gave no answer for {SILENCE:?}: {silence}"));
                }
                Err(_) => {}
            }
            tokio::time::sleep_until(next).await;
        }
    }

    /// Does what is to be done in the current phase; answers how it ended.
    async fn look(
        &mut self,
        status: &UpgradeStatusReply,
        done: &mut Done,
        steps: &mut Steps,
    ) -> anyhow::Result<Option<Ended>> {
        let doing = format!(
            "tidegate upgrade status {} --coordinator {}",
            self.ground.operator.upgrade(),
            self.ground.operator.url()
        );
        show(self.ground, &self.load, self.spectator, &doing, Some(status)).await;
        let seen = UpgradeSeen::of(status);
        // Once it is over, instances belong to no wave any more.
        if !seen.over {
            done.waves.clone_from(&seen.waves);
        }
        if seen.over && steps.goes_back && seen.phase == "rolled-back" {
            self.begin_again(done, steps).await?;
            return Ok(None);
        }
        // A gate job has no operator to fix the fleet and resume what the coordinator paused.
        let paused = status.upgrade.as_ref().is_some_and(|upgrade| upgrade.paused);
        if seen.over || paused {
            let word = if seen.over { seen.phase } else { "paused".to_owned() };
            let blocked = status.waiting.iter().find(|wait| wait.kind == "paused");
            let because = status.because.clone().or_else(|| Some(blocked?.blocked_on.clone()));
            let mut left_out = std::mem::take(&mut steps.left_out);
            left_out.extend(steps.left.iter().map(|step| format!("not reached: {step}")));
            let waves = std::mem::take(&mut done.waves);
            let read = if done.accepted { self.spectator.reading() } else { Duration::ZERO };
            let contract = None;
            return Ok(Some(Ended { word, because, contract, phases: seen.left, waves, read, left_out }));
        }
        if !done.accepted && status.waiting.iter().any(|wait| wait.kind == "acceptance") {
            self.accept(done).await?;
        }
        if !done.turned && self.turns_here(status) {
            done.turned = true;
            self.spectator.say("the operator rolls back");
            self.ground.operator.roll_back(self.world, "a gate job tries the rollback").await?;
        } else if !done.turned && !steps.goes_back {
            self.approve(status, &mut done.approved).await?;
        }
        if !done.verified && self.is_mixed(status) {
            done.verified = true;
            self.verify("in mid-upgrade").await;
        }
        if !steps.goes_back && steps.left.front().is_some_and(|step| self.is_due(step, steps, status)) {
            let executed = self.ground.operator.executed().count();
            self.step(steps).await?;
            self.ground.operator.executed().are_of_plan_after(executed);
        }
        Ok(None)
    }

    /// Accepts, as a person would, what the database cannot show; once, when there was time to read it.
    async fn accept(&self, done: &mut Done) -> anyhow::Result<()> {
        if done.asked.get_or_insert_with(Instant::now).elapsed() < self.spectator.reading() {
            return Ok(());
        }
        done.accepted = true;
        let id = self.ground.operator.upgrade();
        self.spectator
            .say(&format!("the operator types: tidegate upgrade approve {id} contract --accept sessions"));
        self.ground.operator.accept(self.world).await
    }

    /// Waits until the status shows that it goes on.
    async fn is_resumed(&self) -> anyhow::Result<()> {
        wait_for("the status to show the resumed upgrade", SEEN, || async {
            let status = self.ground.operator.status().await.map_err(|status| status.message().to_owned())?;
            match status.upgrade {
                Some(upgrade) if !upgrade.paused => Ok(()),
                _ => Err("it is paused".to_owned()),
            }
        })
        .await?;
        Ok(())
    }

    async fn verify(&mut self, stage: &'static str) {
        if let Some(survivors) = &mut self.survivors {
            survivors.verify(stage).await;
        }
    }

    /// The plan rolled it back: another upgrade begins.
    async fn begin_again(&mut self, done: &mut Done, steps: &mut Steps) -> anyhow::Result<()> {
        steps.goes_back = false;
        // The documented steps are those of the upgrade that is not rolled back.
        self.ground.operator.executed().are_of_plan_after(0);
        *done = Done { verified: done.verified, ..Done::default() };
        let again = format!("{}-again-{}", self.course.upgrade_id(self.gate), steps.again);
        self.ground.operator = self.ground.operator.called(&again);
        self.spectator.say("rolled back; another upgrade begins");
        self.ground
            .operator
            .start(self.world, &self.ground.spec)
            .await
            .context("the next upgrade was refused")
    }

    fn is_due(&self, step: &PlanStep, steps: &Steps, status: &UpgradeStatusReply) -> bool {
        match step.when {
            When::After(span) => steps.began.elapsed() >= Duration::from_millis(span.as_millis()),
            When::Upgraded(count) => {
                let service = &self.gate.service;
                let target = Some(service.in_tidegate(service.target.number));
                status.instances.iter().filter(|instance| instance.version == target).count()
                    >= count as usize
            }
        }
    }

    /// Does the next step of the plan. What the coordinator refuses, because the upgrade is further by now, is left out.
    async fn step(&mut self, steps: &mut Steps) -> anyhow::Result<()> {
        let Some(step) = steps.left.pop_front() else { return Ok(()) };
        self.spectator.say(&format!("the plan: {step}"));
        let span = |span: Span| Duration::from_millis(span.as_millis());
        let why = "a plan of a gate job";
        let done = match step.event {
            Event::Pause(length) => match self.ground.operator.pause(self.world, why).await {
                Ok(()) => {
                    tokio::time::sleep(span(length)).await;
                    match self.ground.operator.resume(self.world, why).await {
                        Ok(()) => return self.is_resumed().await,
                        refused => refused,
                    }
                }
                refused => refused,
            },
            Event::RollBack => {
                let back = self.ground.operator.roll_back(self.world, why).await;
                steps.goes_back = back.is_ok();
                steps.again += 1;
                back
            }
            Event::Verify => {
                self.verify("by the plan").await;
                Ok(())
            }
            Event::KillCoordinator => return self.ground.kill_coordinator(self.world).await,
            Event::StallCoordinator(length) => return self.ground.stall_coordinator(span(length)).await,
            Event::KillAgent(node) => return self.ground.kill_agent(self.world, node).await,
            Event::StallAgent(node) => return self.ground.stall_agent(node, STALL).await,
        };
        if let Err(refused) = done {
            steps.left_out.push(format!("refused: {step}: {refused:#}"));
        }
        Ok(())
    }

    /// Whether this is where it is rolled back.
    fn turns_here(&self, status: &UpgradeStatusReply) -> bool {
        match self.course {
            Course::Through | Course::Planned(_) => false,
            Course::BackFrom(TurningPoint::Roll) => self.is_mixed(status),
            Course::BackFrom(point) => points(status).any(|asked| asked == point.word()),
        }
    }

    fn is_mixed(&self, status: &UpgradeStatusReply) -> bool {
        let at = |number: u32| status.instances.iter().any(|instance| instance.version == Some(number));
        let service = &self.gate.service;
        at(service.base.number.get()) && at(service.in_tidegate(service.target.number))
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
            if !own.is_empty() {
                self.spectator.say("changing the schema by the service's own commands");
            }
            let (executed, at) = (self.ground.operator.executed(), (self.world, self.gate));
            steps::execute(executed, at, "schema", own, self.places).await?;
            self.ground.operator.approve(self.world, point, "by a gate job").await?;
            approved.push(point.to_owned());
        }
        Ok(())
    }
}
