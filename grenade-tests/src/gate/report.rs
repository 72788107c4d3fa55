//! What a gate found, in four forms: text for a person, JSON, JUnit XML for a build, and one HTML file with pictures.

pub mod chart;
pub mod html;
pub mod junit;
mod load;
mod percentiles;
pub mod progress;
pub mod text;

pub use crate::gate::quantile::quantile;
pub use load::Load;

use serde::Serialize;
use serde_json::Value;

use crate::gate::deaths::Death;
use crate::gate::file::tags::left_out;
use crate::gate::file::{Command, Gate};
use crate::gate::impact::Impact;
use crate::gate::impact::calibrate::Calibration;
use crate::gate::impact::stretch::Stretch;
use crate::gate::machine::RunContext;
use crate::gate::mixed::Mixed;
use crate::gate::orders::{Ordered, Stage};
use crate::gate::plan::Plan;
use crate::gate::steps::Step;
use crate::gate::survival::Survived;
use crate::gate::upgrade::Upgraded;
use crate::gate::verdict::{Evidence, TagVerdict, Word, worst};
use crate::gate::watch::Change;
use crate::gate::written::{Arrangement, TurningPoint};
use crate::load::template::quoted;
use tidegate_proto::GateTag;

/// The form of the JSON; raised when a field changes its meaning.
const FORM: u32 = 1;

/// The whole report.
#[derive(Debug, Clone, Serialize)]
pub struct GateReport {
    /// The form of this document.
    pub form: u32,
    /// The gate's name.
    pub gate: String,
    /// The service.
    pub service: String,
    /// The base version.
    pub from: u32,
    /// The target version.
    pub to: u32,
    /// The versions between them that the upgrade skips, in words; absent: none.
    pub skipped: Option<String>,
    /// Whether another way of upgrading than Tidegate's was judged.
    pub procedure: bool,
    /// The command of that, with its places; absent: Tidegate upgraded.
    pub procedure_command: Option<String>,
    /// What happened in the upgrade beside it; absent: nothing.
    pub plan: Option<Plan>,
    /// Where that is from.
    pub plan_from: Option<PlanFrom>,
    /// The worst verdict of all tags.
    pub verdict: Word,
    /// What is said of each tag.
    pub tags: Vec<TagVerdict>,
    /// The tags that the strongest of these presupposes and that the gate file does not assert: nothing is said of them.
    pub not_decided: Vec<GateTag>,
    /// Each frozen mix.
    pub mixes: Vec<Load>,
    /// Each order in which the service and its companions were upgraded; none: there are no companions.
    pub orders: Vec<OrderReport>,
    /// Each upgrade that was rolled back, with where it turned.
    pub rollbacks: Vec<(TurningPoint, UpgradeReport)>,
    /// The upgrade.
    pub upgrade: UpgradeReport,
    /// Processes of the service that ended without having been asked to.
    pub deaths: Vec<Died>,
    /// The two pools; absent: zero-impact is not asserted.
    pub impact: Option<ImpactReport>,
    /// How far the judge of zero-impact can be trusted on this machine; absent: that was not measured.
    pub calibration: Option<Calibration>,
    /// Where and when it was.
    #[serde(flatten)]
    pub context: RunContext,
}

/// Where a plan is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanFrom {
    /// The command line (`--plan`).
    CommandLine,
    /// The gate file (`faults`).
    GateFile,
}

/// A process that ended without having been asked to.
#[derive(Debug, Clone, Serialize)]
pub struct Died {
    /// In which part of the run.
    pub part: String,
    /// How, and what it wrote last.
    #[serde(flatten)]
    pub death: Death,
}

impl Died {
    fn all(evidence: &Evidence<'_>) -> Vec<Self> {
        let mixes = evidence.mixed.iter().map(|mix| (mix_name(mix.arrangement), &mix.deaths));
        let orders = evidence.orders.iter().map(|order| (OrderReport::of(order).name(), &order.deaths));
        let rollbacks = evidence.rollbacks.iter();
        let rollbacks = rollbacks.map(|(point, up)| (back_name(*point), &up.deaths));
        let upgrade = std::iter::once(("upgrade".to_owned(), &evidence.upgraded.deaths));
        let parts = mixes.chain(orders).chain(rollbacks).chain(upgrade);
        let of = |(part, deaths): (String, &Vec<Death>)| {
            let died = |death: &Death| Self { part: part.clone(), death: death.clone() };
            deaths.iter().map(died).collect::<Vec<_>>()
        };
        parts.flat_map(of).collect()
    }
}

fn mix_name(mix: Arrangement) -> String {
    format!("mix {}+{}", mix.base, mix.target)
}

fn back_name(point: TurningPoint) -> String {
    format!("back from {}", point.word())
}

/// What was counted of the two pools.
#[derive(Debug, Clone, Serialize)]
pub struct ImpactReport {
    /// Before anything was upgraded: the pool, and its twin.
    pub idle: [Load; 2],
    /// While the pool was upgraded; absent: it was not.
    pub upgraded: Option<UpgradedPool>,
}

/// A pool that was upgraded and rolled back again and again, beside its twin.
#[derive(Debug, Clone, Serialize)]
pub struct UpgradedPool {
    /// How often it was.
    pub passes: u32,
    /// When an instance of it left rotation, in milliseconds since the load's start.
    pub drains_ms: Vec<f64>,
    /// The pool, and its twin.
    pub loads: [Load; 2],
    /// What was seen of the instances of the pool.
    pub changes: Vec<Change>,
}

impl ImpactReport {
    fn of(impact: &Impact) -> Self {
        let loads = |stretch: &Stretch| {
            [&stretch.treated, &stretch.twin].map(|entries| Load::of(None, entries, stretch.host))
        };
        let upgraded = impact.upgraded.as_ref().map(|up| UpgradedPool {
            passes: up.passes,
            drains_ms: up.stretch.drains_ms(),
            loads: loads(&up.stretch),
            changes: up.stretch.changes.clone(),
        });
        Self { idle: loads(&impact.idle), upgraded }
    }
}

/// One order in which several services were upgraded.
#[derive(Debug, Clone, Serialize)]
pub struct OrderReport {
    /// Each service with the upgrade of it, in this order.
    pub services: Vec<ServiceReport>,
    /// The load.
    pub load: Load,
}

/// The upgrade of one of several services.
#[derive(Debug, Clone, Serialize)]
pub struct ServiceReport {
    /// The service.
    pub service: String,
    /// Its base.
    pub from: u32,
    /// Its target.
    pub to: u32,
    /// How it ended; absent: an earlier one did not complete.
    pub ended: Option<String>,
    /// When it began and ended, in milliseconds since the load's start.
    pub span_ms: Option<(f64, f64)>,
}

impl OrderReport {
    fn of(ordered: &Ordered) -> Self {
        let service = |stage: &Stage| ServiceReport {
            service: stage.service.clone(),
            from: stage.from,
            to: stage.to,
            ended: stage.upgraded.as_ref().map(|(ended, _)| ended.word.clone()),
            span_ms: stage.upgraded.as_ref().map(|(_, span_ms)| *span_ms),
        };
        let load = Load::of(None, &ordered.entries, ordered.host);
        Self { services: ordered.stages.iter().map(service).collect(), load }
    }

    fn name(&self) -> String {
        self.services.iter().map(|one| one.service.as_str()).collect::<Vec<_>>().join(" before ")
    }
}

/// The upgrade.
#[derive(Debug, Clone, Serialize)]
pub struct UpgradeReport {
    /// How it ended.
    pub ended: String,
    /// Why, where it did not complete.
    pub because: Option<String>,
    /// Each phase, with seconds.
    pub phases: Vec<(String, f64)>,
    /// When it began and ended, in milliseconds since the load's start.
    pub span_ms: (f64, f64),
    /// Its load.
    pub load: Load,
    /// The commands that were executed for it, in order.
    pub steps: Vec<Step>,
    /// What was seen of the instances.
    pub changes: Vec<Change>,
    /// The survival checks.
    pub survival: Vec<Survived>,
    /// Objects of the load that were read again afterwards.
    pub read_again: usize,
}

impl GateReport {
    /// Of what was seen and judged.
    pub fn of(gate: &Gate, evidence: &Evidence<'_>, tags: Vec<TagVerdict>, context: RunContext) -> Self {
        let mix = |mixed: &Mixed| Load {
            memory: mixed.memory.clone(),
            ..Load::of(Some(mixed.arrangement), &mixed.entries, mixed.host)
        };
        Self {
            form: FORM,
            gate: gate.name.clone(),
            service: gate.service.name.to_string(),
            from: gate.service.base.number.get(),
            to: gate.service.target.number.get(),
            skipped: gate.service.skipped(),
            procedure: gate.procedure.is_some(),
            procedure_command: gate.procedure.as_ref().map(line),
            plan: None,
            plan_from: None,
            verdict: worst(tags.iter().map(|tag| tag.verdict)),
            not_decided: left_out(&tags.iter().map(|tag| tag.tag).collect::<Vec<_>>()),
            tags,
            mixes: evidence.mixed.iter().map(mix).collect(),
            orders: evidence.orders.iter().map(OrderReport::of).collect(),
            rollbacks: evidence.rollbacks.iter().map(|(point, up)| (*point, UpgradeReport::of(up))).collect(),
            upgrade: UpgradeReport::of(evidence.upgraded),
            deaths: Died::all(evidence),
            impact: evidence.impact.map(ImpactReport::of),
            calibration: None,
            context,
        }
    }

    /// The same, of an upgrade with a plan of the command line or else with the faults of the gate file.
    #[must_use]
    pub fn planned(self, plan: Option<&Plan>, faults: Option<&Plan>) -> Self {
        let plan = plan.map(|plan| (plan, PlanFrom::CommandLine));
        let plan = plan.or(faults.map(|faults| (faults, PlanFrom::GateFile)));
        Self { plan: plan.map(|(plan, _)| plan.clone()), plan_from: plan.map(|(_, from)| from), ..self }
    }

    /// Why there is nothing about the tags that are not decided, for each of them.
    pub fn why_not_decided(&self) -> String {
        let strongest = self.tags.iter().map(|tag| tag.tag).max().map(GateTag::word).unwrap_or_default();
        format!("{strongest} presupposes it, and this gate file does not assert it")
    }

    /// Between which versions, in words.
    pub fn versions(&self) -> String {
        let skipped = self.skipped.as_ref().map(|skipped| format!(" (skips {skipped})")).unwrap_or_default();
        format!("from version {} to {}{skipped}", self.from, self.to)
    }

    /// Every load with its name.
    pub fn loads(&self) -> Vec<(String, &Load)> {
        let mixes = self.mixes.iter().map(|load| (load.name(), load));
        let rollbacks = self.rollbacks.iter().map(|(point, up)| (back_name(*point), &up.load));
        let named = |names: [&str; 2], loads| names.map(str::to_owned).into_iter().zip(loads);
        let idle = self.impact.iter().flat_map(|impact| named(["idle pool", "idle twin"], &impact.idle));
        let upgraded = self.impact.iter().filter_map(|impact| impact.upgraded.as_ref());
        let pools = upgraded.flat_map(|pool| named(["upgraded pool", "twin"], &pool.loads));
        let upgrade = std::iter::once(("upgrade".to_owned(), &self.upgrade.load));
        let orders = self.orders.iter().map(|order| (order.name(), &order.load));
        mixes.chain(orders).chain(rollbacks).chain(upgrade).chain(idle).chain(pools).collect()
    }
}

/// A command as it is written, with its places.
fn line(command: &Command) -> String {
    let place = |name: &str| Some(Value::String(format!("{{{name}}}")));
    let is_plain = |word: &str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "{}_-./:=,@%+".contains(c))
    };
    let word = |word: String| if is_plain(&word) { word } else { quoted(&word) };
    let words = command.words(&place).unwrap_or_default();
    words.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

impl UpgradeReport {
    fn of(up: &Upgraded) -> Self {
        Self {
            ended: up.ended.word.clone(),
            because: up.ended.because.clone(),
            phases: up.ended.phases.clone(),
            span_ms: up.span_ms,
            load: Load::of(None, &up.entries, up.host),
            steps: up.steps.clone(),
            changes: up.changes.clone(),
            survival: up.survival.clone(),
            read_again: up.sweep.as_ref().map_or(0, |sweep| sweep.read),
        }
    }
}
