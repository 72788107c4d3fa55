//! A gate file, checked: every text in it is parsed, and what its fields mean together is settled. Every finding of one
//! reading is listed.

mod capacity;
pub mod command;
pub mod companion;
pub mod documented;
mod level;
pub mod load;
pub mod origin;
mod programs;
mod quotes;
pub mod schema;
pub mod service;
pub mod source;
pub mod spec;
pub mod survival;
pub mod tags;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tidegate_planner::document::{self, Finding};

pub use command::Command;
use command::{OF_FLEET, command, commands, of_service};
use documented::{Documented, documented_of};
use load::{ImpactPace, Pace, impact_of, load_of};
use origin::Origin;
pub use schema::Schema;
use schema::schema_of;
pub use service::Version;
use service::{Service, service};
use spec::spec;
use survival::{Survival, survival_of};
use tags::{asserted, of_command, unused};

use crate::gate::impact::judge::FEWEST_DRAINS;
use crate::gate::init::EXAMPLE;
use crate::gate::limits::MOST_INSTANCES;
use crate::gate::plan::Plan;
use crate::gate::written::upgrade::UpgradeFields;
use crate::gate::written::{Arrangement, Balancer, Engine, GateFile, HostBounds, Store, TurningPoint};
use crate::load::findings::Findings;
use crate::load::script::Script;
use tidegate_proto::GateTag;

/// What the upgrade is called.
const UPGRADE: &str = "gate";
/// Why a gate file is none.
#[derive(Debug, thiserror::Error)]
pub enum NotAGate {
    /// It could not be read.
    #[error("could not read the gate file {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: std::io::Error,
    },
    /// It is no YAML, fields are unknown or of the wrong kind, or their values are not allowed; each finding names line and
    /// column.
    #[error("{}", findings.iter().map(|f| format!("{}:{f}", path.display())).collect::<Vec<_>>().join("\n"))]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Everything that was found.
        findings: Vec<Finding>,
    },
}

/// A gate.
#[derive(Debug)]
pub struct Gate {
    /// Its name.
    pub name: String,
    /// The directory of its file.
    pub here: PathBuf,
    /// Where its fields are in the file.
    pub origin: Origin,
    /// Fields of the file that decide nothing, each with the tag that it is for, which is not asserted.
    pub unused: Vec<(&'static str, GateTag)>,
    /// How many instances.
    pub instances: u32,
    /// The service.
    pub service: Service,
    /// The database, with the commands that fill it.
    pub database: Option<(Engine, Vec<Command>)>,
    /// The schema change.
    pub schema: Option<Schema>,
    /// The balancer.
    pub balancer: Balancer,
    /// The store.
    pub store: Store,
    /// What the upgrade is called.
    pub upgrade_id: String,
    /// Fields of the upgrade spec.
    pub upgrade: UpgradeFields,
    /// The steps that the documentation of the upgrade has; absent: it is not compared.
    pub documented: Option<Documented>,
    /// Another way of upgrading.
    pub procedure: Option<Command>,
    /// How the load runs.
    pub pace: Pace,
    /// What its steps send; absent: its command alone sends.
    pub script: Option<Arc<Script>>,
    /// The command that sends a load.
    pub load_command: Option<Command>,
    /// The survival check.
    pub survival: Option<Survival>,
    /// What happens in the upgrade beside it; absent: nothing.
    pub faults: Option<Plan>,
    /// The frozen mixes.
    pub arrangements: Vec<Arrangement>,
    /// Where further upgrades are rolled back.
    pub rollback_from: Vec<TurningPoint>,
    /// What is asserted, in the order of their strength.
    pub tags: Vec<GateTag>,
    /// How zero-impact is measured.
    pub impact: ImpactPace,
    /// When the machine is too slow for a verdict.
    pub host: HostBounds,
    /// The services that work together with it, each as a gate that shares the rest with this one.
    pub companions: Vec<Gate>,
    /// Whether it is one of those.
    is_companion: bool,
}

impl Gate {
    /// How many instances may be out of rotation at once, as Tidegate rounds it.
    pub fn most_out(&self) -> u32 {
        capacity::most_out(&self.upgrade, self.instances)
    }

    /// How many must stay in rotation: `min_in_service` as Tidegate rounds it, else all but those that may be out.
    /// Tidegate keeps both limits, so the default must not be the narrower one.
    pub fn least_in_service(&self) -> u32 {
        match self.upgrade.min_in_service {
            Some(least) => capacity::least_in_service(least, self.instances),
            None => self.instances.saturating_sub(self.most_out()),
        }
    }
}

/// The JSON Schema of a gate file.
pub fn schema() -> Value {
    tidegate_proto::schema::of_file::<GateFile>("Grenade gate", "A gate job, as a YAML file.")
}

/// Reads and checks the gate file at `path`.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(path: &Path) -> Result<Gate, NotAGate> {
    let unreadable = |source| NotAGate::Unreadable { path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let whole = std::fs::canonicalize(path).map_err(unreadable)?;
    let here = whole.parent().unwrap_or(Path::new("/"));
    parse(&text, path, here)
}

/// Checks the text of a gate file in the directory `here`; `path` is for messages.
///
/// # Errors
/// As [`load()`].
pub fn parse(text: &str, path: &Path, here: &Path) -> Result<Gate, NotAGate> {
    let wrong = |findings| NotAGate::Wrong { path: path.to_owned(), findings };
    if is_empty(text) {
        let what = "is empty; `grenade init` prints a gate file to begin with".to_owned();
        return Err(wrong(vec![Finding { line: 1, column: 1, what }]));
    }
    let (written, located): (GateFile, _) = document::checked(text, EXAMPLE)
        .map_err(|findings| wrong(spec::explained(quotes::advised(text, findings))))?;
    let origin = Origin::new(path, located);
    let mut findings = Findings::default();
    let gate = settled(written, here, &origin, &mut findings);
    match gate {
        Some(gate) if findings.all().is_empty() => Ok(gate),
        _ => Err(wrong(findings.located(origin.document()))),
    }
}

/// Whether a text has comments at the most.
fn is_empty(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#') || line == "---")
}

fn settled(written: GateFile, here: &Path, origin: &Origin, findings: &mut Findings) -> Option<Gate> {
    bounds(&written, findings);
    spec(&written.upgrade, written.instances, findings);
    let tags: BTreeSet<GateTag> = written.tags.iter().copied().collect();
    companion::allowed(&written, findings);
    let unused = unused(&tags, &written);
    let engine = written.database.as_ref().map(|database| database.engine);
    let of_service = of_service(&written.service, engine);
    let names = written.companions.iter().map(|companion| companion::place(companion.service.name.as_str()));
    let names: Vec<String> = names.collect();
    let urls: Vec<&str> = names.iter().map(String::as_str).collect();
    // While a database is filled no companion runs yet.
    let with_urls = [of_service.as_slice(), &urls].concat();
    let by_hand = procedure(&written, &tags, &with_urls, findings);
    let skips_level = written.service.skip_level;
    let service = service(written.service, here, &with_urls, findings);
    let database = written.database.map(|database| {
        let init = commands("database.init", &database.init, &of_service, findings);
        (database.engine, init)
    });
    let changes = (engine, skips_level);
    let schema = written.schema.and_then(|steps| schema_of(&steps, here, changes, &with_urls, findings));
    let (pace, senders) = load_of(written.load, service.as_ref()?, here, &with_urls, findings);
    let impact = impact_of(&written.impact, pace.rate, tags.contains(&GateTag::ZeroImpact), findings);
    let survival = written.survival.and_then(|survival| survival_of(survival, &with_urls, findings));
    let arrangements = written
        .arrangements
        .unwrap_or_else(|| vec![Arrangement { base: written.instances.saturating_sub(1).max(1), target: 1 }]);
    let documented = documented_of(written.documented, findings);
    mixes(&arrangements, findings);
    turns(&written.rollback_from, schema.as_ref(), findings);
    asserted(&tags, &arrangements, &pace, &senders, findings);
    of_command(&tags, &senders, survival.is_some(), findings);
    let own = (service.as_ref()?.name.as_str(), written.instances, engine);
    let companions = companion::companions(written.companions, own, here, findings);
    companion::targets(senders.script.as_ref(), &companions, findings);
    let faults = Plan { steps: written.faults, ..Plan::default() };
    let gate = Gate {
        name: written.name,
        here: here.to_owned(),
        origin: origin.clone(),
        unused,
        instances: written.instances,
        service: service?,
        database,
        schema,
        balancer: written.balancer,
        store: written.store,
        upgrade_id: UPGRADE.to_owned(),
        upgrade: written.upgrade,
        documented,
        procedure: by_hand,
        pace,
        script: senders.script.map(Arc::new),
        load_command: senders.command,
        survival,
        faults: (!faults.steps.is_empty()).then_some(faults),
        arrangements,
        rollback_from: written.rollback_from,
        tags: tags.into_iter().collect(),
        impact,
        host: written.host,
        companions: Vec::new(),
        is_companion: false,
    };
    if let Some(faults) = &gate.faults {
        findings.add_all(faults.flaws(&gate, "faults"));
    }
    Some(gate.beside(companions))
}

/// What has bounds of its own.
fn bounds(written: &GateFile, findings: &mut Findings) {
    if written.name.trim().is_empty() || written.name.chars().any(char::is_control) {
        findings.add("name", "is empty or has control characters");
    }
    let host = &written.host;
    for (field, percent) in [
        ("cpu_pressure", host.cpu_pressure),
        ("memory_pressure", host.memory_pressure),
        ("steal", host.steal),
    ] {
        if !(0.0..=100.0).contains(&percent) {
            findings.add(&format!("host.{field}"), "0 to 100 percent is allowed");
        }
    }
}

/// Another way of upgrading has none of what is Tidegate's.
fn procedure(
    written: &GateFile,
    tags: &BTreeSet<GateTag>,
    of_service: &[&str],
    findings: &mut Findings,
) -> Option<Command> {
    let words = written.procedure.as_ref()?;
    let migrations = written.schema.as_ref().is_some_and(|steps| steps.migrations.is_some());
    let by_tidegate = [
        ("upgrade", !written.upgrade.is_empty()),
        ("rollback_from", !written.rollback_from.is_empty()),
        ("schema.migrations", migrations),
        ("store", written.store != Store::Embedded),
    ];
    for (field, _) in by_tidegate.into_iter().filter(|(_, is_there)| *is_there) {
        findings.add(field, "is for Tidegate, and is not allowed beside `procedure`");
    }
    if written.service.health.is_none() {
        findings.add(
            "service.health",
            "is needed beside `procedure`: there is no agent that serves a health check",
        );
    }
    if tags.contains(&GateTag::ZeroImpact) && (written.instances as usize) < FEWEST_DRAINS {
        let needed = format!("zero-impact needs {FEWEST_DRAINS} drains, and a procedure drains each once");
        findings.add("instances", needed);
    }
    if tags.contains(&GateTag::ZeroImpact) && !written.impact.twin {
        findings.add("impact.twin", "is needed beside `procedure`, which cannot take back what it did");
    }
    let places: Vec<&str> = of_service.iter().copied().chain([OF_FLEET, "fleet"]).collect();
    command("procedure", words, &places, findings)
}

fn mixes(arrangements: &[Arrangement], findings: &mut Findings) {
    for (n, Arrangement { base, target }) in arrangements.iter().enumerate() {
        let together = base + target;
        if u64::from(together) > MOST_INSTANCES {
            let found = format!("has {together} instances; at most {MOST_INSTANCES} are allowed");
            findings.add(&format!("arrangements[{n}]"), found);
        }
    }
}

fn turns(points: &[TurningPoint], schema: Option<&Schema>, findings: &mut Findings) {
    for (n, point) in points.iter().enumerate() {
        let field = format!("rollback_from[{n}]");
        if points[..n].contains(point) {
            findings.add(&field, format!("`{}` is there twice", point.word()));
        }
        let of_schema = matches!(point, TurningPoint::Expand | TurningPoint::Migrate);
        if of_schema && !matches!(schema, Some(Schema::Migrations(_))) {
            let only = format!("an upgrade has the phase {} with `schema.migrations` only", point.word());
            findings.add(&field, only);
        }
    }
}

#[cfg(test)]
mod tests;
