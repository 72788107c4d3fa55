//! Upgrades by plans that a seed draws, one after the other, each on a fleet of its own. A plan that fails is made smaller as
//! long as it fails, and left as a file that can be run again.

use anyhow::Context;
use serde::Serialize;

use crate::gate::course::Course;
use crate::gate::databases::Databases;
use crate::gate::file::Gate;
use crate::gate::mixed::Health;
use crate::gate::plan::Plan;
use crate::gate::plan::shrink::shrink;
use crate::gate::report::progress::Progress;
use crate::gate::run;
use crate::gate::upgrade::upgrade;
use crate::gate::verdict::{Evidence, TagVerdict, Word, judge, worst};
use crate::world::World;
use tidegate_proto::GateTag;

/// The form of the JSON; raised when a field changes its meaning.
const FORM: u32 = 1;
/// What a plan can decide.
const TAGS: [GateTag; 2] = [GateTag::SupportsUpgrade, GateTag::ZeroDowntime];

/// What came of the plans.
#[derive(Debug, Clone, Serialize)]
pub struct Explored {
    /// The form of this document.
    pub form: u32,
    /// The gate.
    pub gate: String,
    /// The worst verdict.
    pub verdict: Word,
    /// How many plans were asked for.
    pub asked: u32,
    /// Each plan, in order; the last one may have failed.
    pub plans: Vec<Tried>,
    /// The smallest plan that still fails; absent: none failed.
    pub smallest: Option<Plan>,
}

/// A plan that was run.
#[derive(Debug, Clone, Serialize)]
pub struct Tried {
    /// The plan.
    pub plan: Plan,
    /// What is said of it.
    pub verdict: Word,
    /// What is said of each tag.
    pub tags: Vec<TagVerdict>,
    /// Steps that were not reached, or refused.
    pub left_out: Vec<String>,
}

/// Runs plans, and judges.
struct Explorer<'a> {
    world: &'a World,
    gate: &'a Gate,
    databases: Databases,
    health: Vec<Health>,
    progress: &'a Progress,
    runs: u32,
}

/// Runs so many plans from this seed on, until one fails.
///
/// # Errors
/// When a plan could not be run to a verdict.
pub async fn explore(
    world: &World,
    gate: &Gate,
    (seed, plans): (u64, u32),
    progress: &Progress,
) -> anyhow::Result<Explored> {
    let (databases, health) = run::check(world, gate, progress).await?;
    let mut explorer = Explorer { world, gate, databases, health, progress, runs: 0 };
    let mut tried: Vec<Tried> = Vec::new();
    let mut smallest = None;
    for n in 0..plans {
        let seed = seed.wrapping_add(u64::from(n));
        let plan = Plan::draw(seed, gate);
        progress.say(&format!("plan {} of {plans}, seed {seed}: {plan}", n + 1));
        let Some(done) = explorer.in_time(&plan).await? else { break };
        let failed = done.verdict == Word::Fail;
        tried.push(done);
        explored(gate, plans, &tried, None).store(world)?;
        if failed {
            smallest = Some(explorer.smaller(plan).await?);
            break;
        }
    }
    let explored = explored(gate, plans, &tried, smallest);
    explored.store(world)?;
    Ok(explored)
}

fn explored(gate: &Gate, asked: u32, plans: &[Tried], smallest: Option<Plan>) -> Explored {
    let worst = worst(plans.iter().map(|tried| tried.verdict));
    // A plan for which there was no time has no verdict.
    let whole = plans.len() == asked as usize;
    let verdict = if whole || worst == Word::Fail { worst } else { Word::Inconclusive };
    Explored { form: FORM, gate: gate.name.clone(), verdict, asked, plans: plans.to_vec(), smallest }
}

fn write(world: &World, name: &str, plan: &Plan) -> anyhow::Result<()> {
    let path = world.path(name);
    std::fs::write(&path, plan.yaml()?).with_context(|| format!("could not write {}", path.display()))
}

impl Explorer<'_> {
    /// Runs a plan on a fleet of its own. The plan is stored before it begins.
    async fn run(&mut self, plan: &Plan) -> anyhow::Result<Tried> {
        self.runs += 1;
        let own = World::beside(&self.world.path(&format!("plan-{}", self.runs)))?;
        write(&own, "plan.yaml", plan)?;
        let databases = self.databases.named(&format!("plan_{}", self.runs));
        let done = upgrade(&own, self.gate, &databases, self.progress, Course::Planned(plan)).await?;
        let evidence = Evidence {
            health: &self.health,
            mixed: &[],
            orders: &[],
            offline: None,
            rollbacks: &[],
            upgraded: &done,
            documented: None,
            impact: None,
            bounds: self.gate.host,
        };
        let tags = judge(&TAGS, &evidence);
        let verdict = worst(tags.iter().map(|tag| tag.verdict));
        self.progress.say(&format!("  {}", verdict.word()));
        Ok(Tried { plan: plan.clone(), verdict, tags, left_out: done.ended.left_out })
    }

    /// The same, if there is time for it.
    async fn in_time(&mut self, plan: &Plan) -> anyhow::Result<Option<Tried>> {
        let left = self.progress.time_left();
        match tokio::time::timeout(left, self.run(plan)).await {
            Ok(done) => done.map(Some),
            Err(_) => {
                self.progress.say("--max-time is over");
                Ok(None)
            }
        }
    }

    /// The smallest plan that still fails, as far as there is time to find it; the smallest so far is stored.
    async fn smaller(&mut self, plan: Plan) -> anyhow::Result<Plan> {
        self.progress.say("it failed; which part of it is enough?");
        let progress = self.progress;
        write(self.world, "plan-smallest.yaml", &plan)?;
        let smallest = shrink(plan, async |plan| {
            self.fails(plan).await.inspect_err(|error| {
                progress.say(&format!("  could not be run to a verdict: {error:#}"));
            })
        })
        .await;
        progress.say(&format!("the smallest that fails: {smallest}"));
        Ok(smallest)
    }

    /// Whether a part of the plan fails too, as far as there is time to run it; then it is stored.
    async fn fails(&mut self, plan: &Plan) -> anyhow::Result<bool> {
        if self.progress.time_left().is_zero() {
            return Ok(false);
        }
        self.progress.say(&format!("trying {plan}"));
        let fails = self.in_time(plan).await?.is_some_and(|done| done.verdict == Word::Fail);
        if fails {
            write(self.world, "plan-smallest.yaml", plan)?;
        }
        Ok(fails)
    }
}

impl Explored {
    /// Writes the results so far as JSON, so that they are there after an interrupt too.
    fn store(&self, world: &World) -> anyhow::Result<()> {
        let path = world.path("explored.json");
        std::fs::write(&path, serde_json::to_string_pretty(self)?)
            .with_context(|| format!("could not write {}", path.display()))
    }

    /// For a person.
    pub fn text(&self, artifacts: &std::path::Path) -> String {
        let (ran, asked) = (self.plans.len(), self.asked);
        let mut text =
            format!("{}  {}, {ran} of {asked} plans\n\n", self.verdict.word().to_uppercase(), self.gate);
        for tried in &self.plans {
            let seed = tried.plan.seed.map(|seed| format!("seed {seed}")).unwrap_or_default();
            text.push_str(&format!("{:<13} {seed}: {}\n", tried.verdict.word(), tried.plan));
            for left in &tried.left_out {
                text.push_str(&format!("              {left}\n"));
            }
            let checks = tried.tags.iter().flat_map(|tag| &tag.checks);
            for check in checks.filter(|check| check.verdict != Word::Pass) {
                text.push_str(&format!("  {:<11} {}: {}\n", check.verdict.word(), check.check, check.found));
            }
        }
        if let Some(smallest) = &self.smallest {
            if smallest.steps.is_empty() {
                text.push_str("\nno event is needed: the upgrade fails without any\n");
            }
            let file = artifacts.join("plan-smallest.yaml");
            text.push_str(&format!(
                "\nsmallest that fails: {smallest}\nrun it again:        grenade run GATE --plan {}\n",
                file.display()
            ));
        }
        text
    }
}
