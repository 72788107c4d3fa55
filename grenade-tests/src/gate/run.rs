//! A gate from its file to its verdict: each version alone, frozen mixes, the upgrade, the judge, the reports.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use crate::gate::course::Course;
use crate::gate::databases::Databases;
use crate::gate::exit::OnInconclusive;
use crate::gate::file::{Gate, Schema};
use crate::gate::impact::calibrate::{self, Calibration};
use crate::gate::impact::{self};
use crate::gate::installed::installed;
use crate::gate::machine::RunContext;
use crate::gate::mixed::{self, Health};
use crate::gate::offline;
use crate::gate::orders::{self, Ordered};
use crate::gate::plan::Plan;
use crate::gate::report::progress::Progress;
use crate::gate::report::{GateReport, html, junit, text};
use crate::gate::source;
use crate::gate::upgrade::upgrade;
use crate::gate::verdict::{Evidence, judge};
use crate::world::World;
use tidegate_proto::GateTag;

/// What is asked for beside the gate file.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Where ledgers, logs and reports are left.
    pub artifacts: PathBuf,
    /// Where JUnit XML is written as well.
    pub junit: Option<PathBuf>,
    /// What happens in the upgrade beside what the gate file says.
    pub plan: Option<Plan>,
    /// How far the judge of zero-impact can be trusted on this machine, where that was measured.
    pub calibration: Option<Calibration>,
    /// How long all of it may take.
    pub most: Duration,
    /// What an inconclusive verdict counts as.
    pub on_inconclusive: Option<OnInconclusive>,
}

/// Tries each version alone; answers what was seen of the health checks.
///
/// # Errors
/// What is missing or does not hold.
pub async fn check(
    world: &World,
    gate: &Gate,
    progress: &Progress,
) -> anyhow::Result<(Databases, Vec<Health>)> {
    installed(gate)?;
    if let Some(Schema::Migrations(directory)) = &gate.schema {
        tidegate_migrations::MigrationSet::load(directory)
            .with_context(|| gate.origin.at("schema.migrations"))?;
    }
    for service in orders::services(gate) {
        let prepared = source::prepare(world, service, &|what| progress.say(what)).await;
        prepared.with_context(|| format!("the service {}", service.service.name))?;
    }
    let databases = Databases::start(world, gate).await?;
    progress.say("each version alone");
    let health = mixed::alone(world, gate, &databases).await?;
    Ok((databases, health))
}

/// Measures how far the judge of zero-impact can be trusted here, with so many idle pairs and simulated runs.
///
/// # Errors
/// When it could not be measured.
pub async fn calibrate(
    world: &World,
    gate: &Gate,
    counts: (u32, u32),
    most: Duration,
) -> anyhow::Result<Calibration> {
    let progress = Progress::new(most);
    let (databases, _) = check(world, gate, &progress).await?;
    calibrate::calibrate(world, gate, &databases, &progress, counts).await
}

/// Upgrades the service and its companions in each order, which the tag rolling asks for.
async fn in_each_order(
    world: &World,
    gate: &Gate,
    databases: &Databases,
    progress: &Progress,
) -> anyhow::Result<Vec<Ordered>> {
    let mut ordered = Vec::new();
    if gate.companions.is_empty() || !gate.tags.contains(&GateTag::Rolling) {
        return Ok(ordered);
    }
    for (n, order) in orders::orders(gate.companions.len() + 1).iter().enumerate() {
        progress.say(&format!("an upgrade of {}", orders::named(gate, order)));
        ordered.push(orders::ordered(world, gate, databases, progress, (n + 1, order)).await?);
    }
    Ok(ordered)
}

/// Runs a gate.
///
/// # Errors
/// When it could not be run to a verdict.
pub async fn run(world: &World, gate: &Gate, asked: &Asked) -> anyhow::Result<GateReport> {
    let progress = Progress::new(asked.most);
    let (databases, health) = check(world, gate, &progress).await?;
    let mut mixes = Vec::new();
    if gate.tags.contains(&GateTag::Rolling) {
        for arrangement in &gate.arrangements {
            let (base, target) = (arrangement.base, arrangement.target);
            progress.say(&format!("a frozen mix: {base} at the base, {target} at the target"));
            mixes.push(mixed::mixed(world, gate, &databases, *arrangement).await?);
        }
    }
    let orders = in_each_order(world, gate, &databases, &progress).await?;
    let mut offline = None;
    if gate.tags.contains(&GateTag::SupportsUpgrade) {
        progress.say("an upgrade with the service down; the target has the base's configuration");
        offline = Some(offline::offline(world, gate, &databases).await?);
    }
    let mut rollbacks = Vec::new();
    for point in &gate.rollback_from {
        progress.say(&format!("an upgrade that is rolled back from {}", point.word()));
        // A fleet of its own: of the others nothing may be left.
        let own = World::beside(&world.path(&format!("back-{}", point.word())))?;
        let course = Course::BackFrom(*point);
        rollbacks.push((*point, upgrade(&own, gate, &databases, &progress, course).await?));
    }
    let plan = asked.plan.as_ref().or(gate.faults.as_ref());
    let course = plan.map_or(Course::Through, Course::Planned);
    let upgraded = upgrade(world, gate, &databases, &progress, course).await?;
    let mut impact = None;
    if gate.tags.contains(&GateTag::ZeroImpact) {
        impact = Some(impact::measure(world, gate, &databases, &progress).await?);
    }
    let evidence = Evidence {
        health: &health,
        mixed: &mixes,
        orders: &orders,
        offline: offline.as_ref(),
        rollbacks: &rollbacks,
        upgraded: &upgraded,
        documented: gate.documented.as_ref(),
        impact: impact.as_ref(),
        bounds: gate.host,
    };
    let tags = judge(&gate.tags, &evidence);
    let context = RunContext::over_after(progress.elapsed());
    let mut report =
        GateReport::of(gate, &evidence, tags, context).planned(asked.plan.as_ref(), gate.faults.as_ref());
    report.calibration = asked.calibration.clone();
    let spec = std::fs::read_to_string(world.path("upgrade.yaml")).unwrap_or_default();
    let write = |name: &Path, text: String| {
        std::fs::write(name, text).with_context(|| format!("could not write {}", name.display()))
    };
    write(&world.path("report.json"), serde_json::to_string_pretty(&report)?)?;
    write(&world.path("report.html"), html::html(&report, &evidence, &spec))?;
    write(&world.path("report.txt"), text::text(&report, world.dir()))?;
    let xml = junit::xml(&report, asked.on_inconclusive);
    if let Some(junit) = &asked.junit {
        write(junit, xml.clone())?;
    }
    write(&world.path("junit.xml"), xml)?;
    Ok(report)
}
