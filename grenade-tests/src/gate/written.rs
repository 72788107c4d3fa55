//! A gate file as it is written: YAML. Unknown fields are refused; what fields mean together is checked in `file`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tidegate_proto::{ServiceName, ServiceVersion, Span};

/// The whole file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateFile {
    /// What the gate is called in reports.
    pub name: String,
    /// How many instances the fleet has, 2 to 24. Default: 3.
    #[serde(default = "three")]
    pub instances: u32,
    /// The service and its two versions.
    pub service: Service,
    /// The database that all instances share; absent: none.
    #[serde(default)]
    pub database: Option<Database>,
    /// The schema change that goes with the release; absent: none.
    #[serde(default)]
    pub schema: Option<SchemaSteps>,
    /// What stands before the instances.
    #[serde(default)]
    pub balancer: Balancer,
    /// Fields of an upgrade spec (strategy, max_unavailable, health, drain, failures, …), beyond those that the runner
    /// knows itself.
    #[serde(default)]
    pub upgrade: Map<String, Value>,
    /// Another way of upgrading than Tidegate: a command that is given `{fleet}`, a JSON file that says where the instances
    /// are and how each version is started. It must exit with 0 when every instance is at the target. Absent: Tidegate.
    #[serde(default)]
    pub procedure: Option<Vec<String>>,
    /// What clients do.
    pub load: Load,
    /// Resources that must survive the upgrade, by commands of their own.
    #[serde(default)]
    pub survival: Option<Survival>,
    /// Frozen mixes of the two versions, each tried before the upgrade. Default: one, with one instance at the target.
    #[serde(default)]
    pub arrangements: Option<Vec<Arrangement>>,
    /// Where further upgrades, each on a fleet of its own, are rolled back: they must end with every instance at the base,
    /// and lose nothing. Default: nowhere.
    #[serde(default)]
    pub rollback_from: Vec<TurningPoint>,
    /// The upgrade tags that are asserted.
    pub tags: Vec<Tag>,
    /// How zero-impact is measured: two pools with the same load, of which one is upgraded and rolled back again and again.
    #[serde(default)]
    pub impact: Impact,
    /// When the machine that this runs on cannot tell.
    #[serde(default)]
    pub host: HostBounds,
}

fn three() -> u32 {
    3
}

/// The service.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Its name. Default: `service`.
    #[serde(default = "service")]
    pub name: ServiceName,
    /// What runs before the upgrade.
    pub base: Version,
    /// What it is upgraded to.
    pub target: Version,
    /// How the version that runs is learned.
    pub version: VersionProbe,
    /// The path that answers 200 when an instance can serve.
    pub ready: String,
    /// The path that balancers ask; it must answer 503 while the file `{disable_file}` exists. Absent: the agent of each
    /// node serves a health check for it.
    #[serde(default)]
    pub health: Option<String>,
    /// How requests in flight are counted; absent: the balancer's sessions are.
    #[serde(default)]
    pub in_flight: Option<Counter>,
    /// How long an instance may take to become ready. Default: 30s.
    #[serde(default = "half_a_minute")]
    pub start_timeout: Span,
    /// How long it may take to end after SIGTERM, before SIGKILL. Default: 30s.
    #[serde(default = "half_a_minute")]
    pub stop_timeout: Span,
    /// The header of its answers that says which version gave them; absent: the version of the instance that answered, as
    /// it was last seen, counts.
    #[serde(default)]
    pub version_header: Option<String>,
}

fn service() -> ServiceName {
    "service".parse().expect("`service` is a service name")
}

fn half_a_minute() -> Span {
    Span::from_secs(30)
}

/// One version of the service.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// Its number; the target's is above the base's.
    pub number: ServiceVersion,
    /// Program and arguments, with `{port}`, `{address}`, `{node}`, `{node_dir}`, `{disable_file}`, `{database}`,
    /// `{database_file}`, `{here}` (the directory of this file), `{bin}` (that of grenade) and `{work}` (that of this run).
    pub command: Vec<String>,
    /// Its environment beside the runner's own, with the same places.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// How the version that runs is learned: over HTTP.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionProbe {
    /// The path that is asked.
    pub path: String,
    /// Where in a JSON answer it is (RFC 6901); absent: the whole answer is the version.
    #[serde(default)]
    pub pointer: Option<String>,
    /// Which number each answer stands for, where answers are no numbers: `"23.0.0": 1`.
    #[serde(default)]
    pub means: BTreeMap<String, ServiceVersion>,
}

/// A count over HTTP.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Counter {
    /// The path that is asked.
    pub path: String,
    /// Where in a JSON answer the number is (RFC 6901); absent: the whole answer is the number.
    #[serde(default)]
    pub pointer: Option<String>,
}

/// The database.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// Which engine; it is private to the run.
    pub engine: Engine,
    /// Commands that make the schema of the base version and what is in it, in order.
    #[serde(default)]
    pub init: Vec<Vec<String>>,
}

/// A database engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// A file.
    Sqlite,
    /// A server, started for the run and ended with it.
    Postgres,
}

/// The steps of a schema change: Tidegate's migrations, or the service's own commands.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SchemaSteps {
    /// A directory of Tidegate migrations, from the directory of this file.
    #[serde(default)]
    pub migrations: Option<String>,
    /// Commands that add what the target needs, run before the first instance is drained.
    #[serde(default)]
    pub expand: Vec<Vec<String>>,
    /// Commands that move data, run after those of `expand`.
    #[serde(default)]
    pub migrate: Vec<Vec<String>>,
    /// Commands that drop what only the base needs, run when every instance is at the target.
    #[serde(default)]
    pub contract: Vec<Vec<String>>,
}

/// A balancer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Balancer {
    /// The one that comes with grenade.
    #[default]
    BuiltIn,
    /// A real HAProxy, configured by the runner.
    Haproxy,
}

/// What clients do.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Requests per second, 1 to 5000.
    pub rate: u32,
    /// How long it runs before the upgrade: what fails then was not the upgrade. Default: 3s.
    #[serde(default = "three_seconds")]
    pub before: Span,
    /// How long it runs after the upgrade. Default: 3s.
    #[serde(default = "three_seconds")]
    pub after: Span,
    /// How long it runs in each frozen mix. Default: 5s.
    #[serde(default = "five_seconds")]
    pub mixed: Span,
    /// The part of the requests that is sent over kept connections, 0 to 1. Default: 0.5.
    #[serde(default = "half")]
    pub keep_alive: f64,
    /// Decides every choice. Default: 1.
    #[serde(default = "one")]
    pub seed: u64,
    /// The requests.
    pub steps: Vec<Step>,
}

fn three_seconds() -> Span {
    Span::from_secs(3)
}

fn five_seconds() -> Span {
    Span::from_secs(5)
}

fn half() -> f64 {
    0.5
}

fn one() -> u64 {
    1
}

/// One kind of request. It makes an object, uses one that was made before, or ends one; an object carries variables, and
/// is in the hands of one request at a time, so that each answer has exactly one right content.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What it is called in the ledger.
    pub name: String,
    /// How often it is drawn, compared to the others. Default: 1.
    #[serde(default = "weight")]
    pub weight: u32,
    /// The kind of object that it makes.
    #[serde(default)]
    pub makes: Option<String>,
    /// The kind of object that it reads or changes.
    #[serde(default)]
    pub uses: Option<String>,
    /// The kind of object that it deletes.
    #[serde(default)]
    pub ends: Option<String>,
    /// Variables that are set before it is sent, with `{run}`, `{seq}` and the object's own; of a list, one is drawn.
    #[serde(default)]
    pub set: BTreeMap<String, Value>,
    /// What is sent.
    pub request: Request,
    /// What the answer must be.
    #[serde(default)]
    pub expect: Expect,
    /// Variables that are taken from the answer, each by a JSON pointer.
    #[serde(default)]
    pub keep: BTreeMap<String, String>,
}

fn weight() -> u32 {
    1
}

/// A request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Its method. Default: GET.
    #[serde(default = "get")]
    pub method: String,
    /// Its path and query, with variables.
    pub path: String,
    /// Headers, with variables.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// A JSON body, with variables: one that is nothing but `{name}` keeps its type.
    #[serde(default)]
    pub json: Option<Value>,
    /// A body of so many bytes that is sent over so long a time.
    #[serde(default)]
    pub upload: Option<Upload>,
    /// The body of the answer is left unread for so long.
    #[serde(default)]
    pub slow_read: Option<Span>,
}

fn get() -> String {
    "GET".to_owned()
}

/// A slow body.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Upload {
    /// Its length.
    pub bytes: u64,
    /// From its first byte to its last.
    pub over: Span,
}

/// What an answer must be.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Its status, one of these. Default: 200 to 299.
    #[serde(default)]
    pub status: Vec<u16>,
    /// Values in its JSON body, by JSON pointer, with variables.
    #[serde(default)]
    pub json: BTreeMap<String, Value>,
    /// A text that its body contains, with variables.
    #[serde(default)]
    pub contains: Option<String>,
}

/// Commands about resources that must survive the upgrade. Each has the places of a version's command but those of a node,
/// and `{url}` (the balancer's), and must exit with 0.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Survival {
    /// Makes them, before anything is upgraded.
    pub create: Vec<String>,
    /// Verifies them: before, during and after the upgrade.
    pub verify: Vec<String>,
    /// Removes them, at the end.
    #[serde(default)]
    pub destroy: Option<Vec<String>>,
}

/// A frozen mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arrangement {
    /// Instances at the base version.
    pub base: u32,
    /// Instances at the target version.
    pub target: u32,
}

/// Where an upgrade is rolled back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TurningPoint {
    /// Before the schema is expanded.
    Expand,
    /// Before data is migrated.
    Migrate,
    /// When the first instance is at the target, and others are at the base.
    Roll,
    /// When every instance is at the target, before the old code is removed.
    Remove,
}

impl TurningPoint {
    /// The phase, as Tidegate calls it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Expand => "expand",
            Self::Migrate => "migrate",
            Self::Roll => "roll",
            Self::Remove => "remove",
        }
    }
}

/// How zero-impact is measured.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Impact {
    /// Requests per second to each pool, at least 40: a block of five seconds needs 200. Default: the rate of `load`.
    #[serde(default)]
    pub rate: Option<u32>,
    /// How long the pools are compared before anything is upgraded, and then for each look, at least 60s. Default: 60s.
    #[serde(default = "a_minute")]
    pub length: Span,
    /// How often the judge may look, with more requests each time, 1 to 3. Default: 3.
    #[serde(default = "three")]
    pub looks: u32,
    /// Whether there is a second pool that is not upgraded. `false` is for a service that cannot have one: the pool is then
    /// compared with itself, upgraded and left alone by turns, in an order that `load.seed` decides. Default: true.
    #[serde(default = "yes")]
    pub twin: bool,
}

fn yes() -> bool {
    true
}

fn a_minute() -> Span {
    Span::from_secs(60)
}

impl Default for Impact {
    fn default() -> Self {
        Self { rate: None, length: a_minute(), looks: three(), twin: true }
    }
}

/// An upgrade tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tag {
    /// The base's configuration starts the target's code, and what was stored before is there after.
    SupportsUpgrade,
    /// Both versions serve side by side, and each reads what the other wrote.
    Rolling,
    /// No request fails while the service is upgraded.
    ZeroDowntime,
    /// No answer takes longer for it, by what statistics can show.
    ZeroImpact,
}

impl Tag {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::SupportsUpgrade => "supports-upgrade",
            Self::Rolling => "rolling",
            Self::ZeroDowntime => "zero-downtime",
            Self::ZeroImpact => "zero-impact",
        }
    }
}

/// Beyond these bounds a failure says nothing about the service, and the run is inconclusive.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostBounds {
    /// The share of time in which some process waited for a core, in percent (`/proc/pressure/cpu`). Default: 90.
    #[serde(default = "ninety")]
    pub cpu_pressure: f64,
    /// How late 99 % of the requests were sent at the most. Default: 250ms.
    #[serde(default = "quarter_of_a_second")]
    pub lag: Span,
}

fn ninety() -> f64 {
    90.0
}

fn quarter_of_a_second() -> Span {
    Span::from_millis(250)
}

impl Default for HostBounds {
    fn default() -> Self {
        Self { cpu_pressure: ninety(), lag: quarter_of_a_second() }
    }
}
