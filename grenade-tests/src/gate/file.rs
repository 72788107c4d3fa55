//! A gate file, checked: every text in it is parsed, and what its fields mean together is settled. Every finding of one
//! reading is listed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use serde_json::{Map, Value};
use tidegate_planner::document;
use tidegate_proto::spec::Spec;
use tidegate_proto::{ServiceName, ServiceVersion, Span};

use crate::gate::script::{self, Deed, Script, ScriptStep};
use crate::gate::template::Template;
use crate::gate::written::{
    self, Arrangement, Balancer, Counter, Engine, GateFile, HostBounds, Tag, TurningPoint, VersionProbe,
};

/// The fields of an upgrade spec that the runner fills in.
const OF_RUNNER: [&str; 5] = ["service", "from", "to", "release", "schema"];
/// A load before the upgrade that is shorter tells nothing.
const SHORTEST_CONTROL: Duration = Duration::from_millis(500);
/// The most instances of a gate.
const MOST_INSTANCES: u32 = 24;
/// The places of a command that runs for the whole service.
const OF_SERVICE: [&str; 6] = ["database", "database_file", "here", "bin", "work", "url"];
/// The further places of a version's command.
const OF_NODE: [&str; 5] = ["port", "address", "node", "node_dir", "disable_file"];

/// Why a gate file is none.
#[derive(Debug, thiserror::Error)]
pub enum NotAGate {
    /// It could not be read.
    #[error("could not read the gate file {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's word.
        #[source]
        source: std::io::Error,
    },
    /// It is no YAML, a field is unknown or of the wrong kind; the text names line and column.
    #[error("{}:{found}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// Where, what, and what is allowed.
        found: String,
    },
    /// Each field is well formed, together they are not.
    #[error("{}:\n{}", path.display(), findings.iter().map(|f| format!("  {f}")).collect::<Vec<_>>().join("\n"))]
    Sense {
        /// The file.
        path: PathBuf,
        /// Everything that was found.
        findings: Vec<String>,
    },
}

/// Program and arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command(Vec<Template>);

impl Command {
    /// Its words, with each variable as `value` has it.
    ///
    /// # Errors
    /// The first name that has no value.
    pub fn words(&self, value: &dyn Fn(&str) -> Option<Value>) -> Result<Vec<String>, String> {
        self.0.iter().map(|word| word.fill(value)).collect()
    }

    /// The program, where it is known before anything runs: `{here}` and `{bin}` are not looked into.
    pub fn program(&self, here: &Path) -> Option<String> {
        let here = here.display().to_string();
        let known = |name: &str| (name == "here").then(|| Value::String(here.clone()));
        self.0.first()?.fill(&known).ok()
    }

    /// Whether it has one of these places.
    fn reads(&self, places: &[&str]) -> bool {
        self.0.iter().flat_map(Template::variables).any(|place| places.contains(&place))
    }

    /// As a line of a shell script.
    pub fn shell(&self) -> String {
        self.0.iter().map(Template::shell_word).collect::<Vec<_>>().join(" ")
    }
}

/// One version of the service.
#[derive(Debug, Clone)]
pub struct Version {
    /// Its number.
    pub number: ServiceVersion,
    /// How it is started.
    pub command: Command,
    /// Its environment.
    pub env: Vec<(String, Template)>,
}

/// The service.
#[derive(Debug)]
pub struct Service {
    /// Its name.
    pub name: ServiceName,
    /// What runs before.
    pub base: Version,
    /// What it is upgraded to.
    pub target: Version,
    /// How the version that runs is learned.
    pub version: VersionProbe,
    /// Answers 200 when an instance can serve.
    pub ready: String,
    /// What balancers ask; absent: the agent serves it.
    pub health: Option<String>,
    /// How requests in flight are counted.
    pub in_flight: Option<Counter>,
    /// How long a start may take.
    pub start_timeout: Duration,
    /// How long a stop may take.
    pub stop_timeout: Span,
    /// Says which version answered.
    pub version_header: Option<String>,
}

/// The schema change.
#[derive(Debug)]
pub enum Schema {
    /// Tidegate's migrations in this directory.
    Migrations(PathBuf),
    /// The service's own commands.
    Commands {
        /// Before the first instance is drained.
        before: Vec<Command>,
        /// When every instance is at the target.
        contract: Vec<Command>,
    },
}

/// The commands of the survival check.
#[derive(Debug)]
pub struct Survival {
    /// Makes the resources.
    pub create: Command,
    /// Verifies them.
    pub verify: Command,
    /// Removes them.
    pub destroy: Option<Command>,
}

/// How the load runs.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Requests per second.
    pub rate: u32,
    /// Before the upgrade.
    pub before: Duration,
    /// After it.
    pub after: Duration,
    /// In each frozen mix.
    pub mixed: Duration,
    /// Decides every choice.
    pub seed: u64,
}

/// A gate.
#[derive(Debug)]
pub struct Gate {
    /// Its name.
    pub name: String,
    /// The directory of its file.
    pub here: PathBuf,
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
    /// Fields of the upgrade spec.
    pub upgrade: Map<String, Value>,
    /// Another way of upgrading.
    pub procedure: Option<Command>,
    /// How the load runs.
    pub pace: Pace,
    /// What it sends.
    pub script: Arc<Script>,
    /// The survival check.
    pub survival: Option<Survival>,
    /// The frozen mixes.
    pub arrangements: Vec<Arrangement>,
    /// Where further upgrades are rolled back.
    pub rollback_from: Vec<TurningPoint>,
    /// What is asserted, in the order of their strength.
    pub tags: Vec<Tag>,
    /// When the machine cannot tell.
    pub host: HostBounds,
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
/// As [`load`].
pub fn parse(text: &str, path: &Path, here: &Path) -> Result<Gate, NotAGate> {
    let written: GateFile = document::yaml(text)
        .map_err(|error| NotAGate::Form { path: path.to_owned(), found: placed(&error) })?;
    let mut findings = Findings::default();
    let gate = settled(written, here, &mut findings);
    match gate {
        Some(gate) if findings.0.is_empty() => Ok(gate),
        _ => Err(NotAGate::Sense { path: path.to_owned(), findings: findings.0 }),
    }
}

/// Line, column, and what was found there.
fn placed(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    // The library's own words begin with the place too.
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let first = match first.split_once(": ") {
        Some((place, rest)) if place.starts_with("line ") => rest,
        _ => first,
    };
    match error.location() {
        Some(at) => format!("{}:{}: {first}", at.line(), at.column()),
        None => format!(" {first}"),
    }
}

/// What is wrong, each with the field that it is wrong with.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<String>);

impl Findings {
    pub(super) fn add(&mut self, field: &str, what: impl std::fmt::Display) {
        self.0.push(format!("{field}: {what}"));
    }

    /// The value, or a finding.
    pub(super) fn good<T>(&mut self, field: &str, tried: Result<T, String>) -> Option<T> {
        tried.map_err(|what| self.add(field, what)).ok()
    }
}

fn settled(written: GateFile, here: &Path, findings: &mut Findings) -> Option<Gate> {
    if !(2..=MOST_INSTANCES).contains(&written.instances) {
        findings.add("instances", format!("{} is not allowed; 2 to {MOST_INSTANCES} is", written.instances));
    }
    let service = service(written.service, findings);
    let has_database = written.database.is_some();
    let database = written.database.map(|database| {
        let init = commands("database.init", &database.init, &OF_SERVICE[..5], findings);
        (database.engine, init)
    });
    let schema = written.schema.and_then(|steps| schema_of(&steps, here, has_database, findings));
    let procedure = written.procedure.as_ref().and_then(|words| {
        let places: Vec<&str> = OF_SERVICE.into_iter().chain(["fleet"]).collect();
        let by_tidegate = [
            ("upgrade", !written.upgrade.is_empty()),
            ("rollback_from", !written.rollback_from.is_empty()),
            ("schema.migrations", matches!(schema, Some(Schema::Migrations(_)))),
        ];
        for (field, _) in by_tidegate.into_iter().filter(|(_, is_there)| *is_there) {
            findings.add(field, "is for Tidegate, and is not allowed beside `procedure`");
        }
        if service.as_ref().is_some_and(|service| service.health.is_none()) {
            findings.add(
                "service.health",
                "is needed beside `procedure`: there is no agent that serves a health check",
            );
        }
        command("procedure", words, &places, findings)
    });
    let (pace, script) = load_of(written.load, service.as_ref()?, findings);
    let survival = written.survival.and_then(|survival| survival_of(&survival, findings));
    let arrangements = written
        .arrangements
        .unwrap_or_else(|| vec![Arrangement { base: written.instances.saturating_sub(1).max(1), target: 1 }]);
    for (n, Arrangement { base, target }) in arrangements.iter().enumerate() {
        if *base == 0 || *target == 0 || base + target > MOST_INSTANCES {
            let allowed = format!("at least one of each is allowed, {MOST_INSTANCES} together");
            findings.add(&format!("arrangements[{n}]"), format!("base {base}, target {target}; {allowed}"));
        }
    }
    for (n, point) in written.rollback_from.iter().enumerate() {
        let field = format!("rollback_from[{n}]");
        if written.rollback_from[..n].contains(point) {
            findings.add(&field, format!("`{}` is there twice", point.word()));
        }
        let of_schema = matches!(point, TurningPoint::Expand | TurningPoint::Migrate);
        if of_schema && !matches!(schema, Some(Schema::Migrations(_))) {
            findings.add(
                &field,
                format!("an upgrade has the phase {} with `schema.migrations` only", point.word()),
            );
        }
    }
    let tags: BTreeSet<Tag> = written.tags.iter().copied().collect();
    if tags.is_empty() {
        findings.add("tags", "there is none; supports-upgrade, rolling and zero-downtime are allowed");
    }
    if tags.contains(&Tag::Rolling) && arrangements.is_empty() {
        findings.add("arrangements", "rolling needs at least one frozen mix");
    }
    if written.name.trim().is_empty() || written.name.chars().any(char::is_control) {
        findings.add("name", "is empty or has control characters");
    }
    if tags.contains(&Tag::ZeroDowntime) && pace.before < SHORTEST_CONTROL {
        findings.add(
            "load.before",
            format!("at least {SHORTEST_CONTROL:?} is needed to tell what the upgrade changed"),
        );
    }
    let reads = |step: &ScriptStep| step.deed == Deed::Reads && step.weight > 0;
    if tags.contains(&Tag::Rolling) && script.as_ref().is_some_and(|script| !script.steps.iter().any(reads)) {
        findings.add(
            "load.steps",
            "rolling needs a step with a weight that reads what another made (`uses`, with GET)",
        );
    }
    spec(&written.upgrade, findings);
    if !(0.0..=100.0).contains(&written.host.cpu_pressure) {
        findings.add("host.cpu_pressure", "0 to 100 percent is allowed");
    }
    Some(Gate {
        name: written.name,
        here: here.to_owned(),
        instances: written.instances,
        service: service?,
        database,
        schema,
        balancer: written.balancer,
        upgrade: written.upgrade,
        procedure,
        pace,
        script: Arc::new(script?),
        survival,
        arrangements,
        rollback_from: written.rollback_from,
        tags: tags.into_iter().collect(),
        host: written.host,
    })
}

/// The fields of the upgrade spec must be valid, and none of those that the runner fills in.
fn spec(fields: &Map<String, Value>, findings: &mut Findings) {
    for own in OF_RUNNER.into_iter().filter(|own| fields.contains_key(*own)) {
        findings.add(&format!("upgrade.{own}"), "is filled in by the runner");
    }
    let mut whole = fields.clone();
    let runner = serde_json::json!({
        "service": "service", "from": 1, "to": 2, "release": {"tag": "service-2", "sha256": "0".repeat(64)},
    });
    whole.extend(runner.as_object().cloned().unwrap_or_default());
    whole.remove("schema");
    match serde_json::from_value::<Spec>(Value::Object(whole)) {
        Err(error) => findings.add("upgrade", error),
        Ok(spec) => spec.flaws().iter().for_each(|flaw| findings.add("upgrade", flaw)),
    }
}

fn service(written: written::Service, findings: &mut Findings) -> Option<Service> {
    let (base, target) = (
        version("service.base", written.base, findings),
        version("service.target", written.target, findings),
    );
    for (field, path) in [
        ("service.ready", Some(&written.ready)),
        ("service.version.path", Some(&written.version.path)),
        ("service.health", written.health.as_ref()),
        ("service.in_flight.path", written.in_flight.as_ref().map(|counter| &counter.path)),
    ] {
        let Some(path) = path else { continue };
        if !path.starts_with('/') || path.parse::<PathAndQuery>().is_err() {
            findings.add(field, format!("`{path}` is no path; one that begins with `/` is allowed"));
        }
    }
    if let Some(pointer) = &written.version.pointer {
        script::is_pointer("service.version.pointer", pointer, findings);
    }
    if let Some(pointer) = written.in_flight.as_ref().and_then(|counter| counter.pointer.as_ref()) {
        script::is_pointer("service.in_flight.pointer", pointer, findings);
    }
    for (field, span) in [("start_timeout", written.start_timeout), ("stop_timeout", written.stop_timeout)] {
        if span.as_millis() < 1_000 {
            findings.add(&format!("service.{field}"), "at least 1s is allowed");
        }
    }
    let (base, target) = (base?, target?);
    if target.number.get() != base.number.get() + 1 {
        findings.add(
            "service.target.number",
            format!("{} after {}; an upgrade goes one version up", target.number, base.number),
        );
    }
    let means = &written.version.means;
    if !means.is_empty() {
        for number in [base.number, target.number] {
            if !means.values().any(|meant| *meant == number) {
                findings.add("service.version.means", format!("no answer means {number}"));
            }
        }
    }
    Some(Service {
        name: written.name,
        base,
        target,
        version: written.version,
        ready: written.ready,
        health: written.health,
        in_flight: written.in_flight,
        start_timeout: Duration::from_millis(written.start_timeout.as_millis()),
        stop_timeout: written.stop_timeout,
        version_header: written.version_header,
    })
}

fn version(field: &str, written: written::Version, findings: &mut Findings) -> Option<Version> {
    let places: Vec<&str> = OF_NODE.into_iter().chain(OF_SERVICE.into_iter().take(5)).collect();
    let command = command(&format!("{field}.command"), &written.command, &places, findings);
    if command.as_ref().is_some_and(|command| !command.reads(&["port", "address"])) {
        let field = format!("{field}.command");
        findings.add(&field, "has neither {port} nor {address}: each instance must be told where to listen");
    }
    let mut env = Vec::new();
    for (name, text) in &written.env {
        let field = format!("{field}.env.{name}");
        if let Some(value) = findings.good(&field, Template::parse(text)) {
            known(&field, value.variables(), &places, findings);
            env.push((name.clone(), value));
        }
    }
    Some(Version { number: written.number, command: command?, env })
}

fn commands(field: &str, written: &[Vec<String>], places: &[&str], findings: &mut Findings) -> Vec<Command> {
    let one = |(n, words): (usize, &Vec<String>)| command(&format!("{field}[{n}]"), words, places, findings);
    written.iter().enumerate().filter_map(one).collect()
}

fn command(field: &str, words: &[String], places: &[&str], findings: &mut Findings) -> Option<Command> {
    if words.is_empty() {
        findings.add(field, "is empty; a program with its arguments is allowed");
        return None;
    }
    let parsed: Result<Vec<_>, String> = words.iter().map(|word| Template::parse(word)).collect();
    let parsed = findings.good(field, parsed)?;
    known(field, parsed.iter().flat_map(Template::variables), places, findings);
    Some(Command(parsed))
}

/// Each variable must be one of these.
pub(super) fn known<'a>(
    field: &str,
    variables: impl Iterator<Item = &'a str>,
    allowed: &[&str],
    findings: &mut Findings,
) {
    for variable in variables.filter(|variable| !allowed.contains(variable)) {
        let allowed: Vec<String> = allowed.iter().map(|name| format!("{{{name}}}")).collect();
        findings.add(field, format!("`{{{variable}}}` is not known here; allowed: {}", allowed.join(", ")));
    }
}

fn schema_of(
    steps: &written::SchemaSteps,
    here: &Path,
    has_database: bool,
    findings: &mut Findings,
) -> Option<Schema> {
    if !has_database {
        findings.add("schema", "there is no `database` that it would change");
    }
    let own = steps.expand.len() + steps.migrate.len() + steps.contract.len();
    match &steps.migrations {
        Some(_) if own > 0 => {
            findings.add("schema", "either `migrations` or commands of its own, not both");
            None
        }
        Some(directory) => {
            let directory = here.join(directory);
            if !directory.is_dir() {
                findings.add("schema.migrations", format!("{} is no directory", directory.display()));
            }
            Some(Schema::Migrations(directory))
        }
        None if own == 0 => {
            findings.add("schema", "has neither `migrations` nor commands");
            None
        }
        None => {
            let mut before = commands("schema.expand", &steps.expand, &OF_SERVICE[..5], findings);
            before.extend(commands("schema.migrate", &steps.migrate, &OF_SERVICE[..5], findings));
            let contract = commands("schema.contract", &steps.contract, &OF_SERVICE[..5], findings);
            Some(Schema::Commands { before, contract })
        }
    }
}

fn survival_of(written: &written::Survival, findings: &mut Findings) -> Option<Survival> {
    let mut one =
        |field: &str, words: &[String]| command(&format!("survival.{field}"), words, &OF_SERVICE, findings);
    let create = one("create", &written.create);
    let verify = one("verify", &written.verify);
    let destroy = written.destroy.as_ref().and_then(|words| one("destroy", words));
    Some(Survival { create: create?, verify: verify?, destroy })
}

fn load_of(written: written::Load, service: &Service, findings: &mut Findings) -> (Pace, Option<Script>) {
    if !(1..=5000).contains(&written.rate) {
        findings.add("load.rate", format!("{} a second; 1 to 5000 is allowed", written.rate));
    }
    if !(0.0..=1.0).contains(&written.keep_alive) {
        findings.add("load.keep_alive", format!("{}; 0 to 1 is allowed", written.keep_alive));
    }
    let span = |span: Span| Duration::from_millis(span.as_millis());
    let pace = Pace {
        rate: written.rate,
        before: span(written.before),
        after: span(written.after),
        mixed: span(written.mixed),
        seed: written.seed,
    };
    let mut steps = Vec::new();
    let mut names = BTreeMap::new();
    for (n, step) in written.steps.into_iter().enumerate() {
        let field = format!("load.steps[{n}]");
        if let Some(other) = names.insert(step.name.clone(), n) {
            findings.add(&field, format!("has the name `{}` of load.steps[{other}]", step.name));
        }
        steps.extend(ScriptStep::settled(&field, step, findings));
    }
    if steps.iter().all(|step| step.weight == 0) {
        findings.add("load.steps", "there is no step with a weight above 0");
        return (pace, None);
    }
    script::check_variables(&steps, findings);
    let made: BTreeSet<&str> = steps.iter().filter_map(|step| step.makes.as_deref()).collect();
    for (n, step) in steps.iter().enumerate() {
        if let Some(kind) = step.takes().filter(|kind| !made.contains(kind)) {
            findings.add(&format!("load.steps[{n}]"), format!("no step makes a `{kind}`"));
        }
    }
    let script =
        Script { steps, keep_alive: written.keep_alive, version_header: service.version_header.clone() };
    (pace, Some(script))
}

#[cfg(test)]
mod tests;
