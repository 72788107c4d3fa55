//! A gate file as it is written: YAML. Unknown fields are refused; what fields mean together is checked in `file`.

pub mod companion;
pub mod survival;
pub mod upgrade;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_proto::{GateTag, ServiceName, ServiceVersion, Span};

use crate::gate::limits::{FEWEST_INSTANCES, MOST_INSTANCES};
use crate::gate::plan::PlanStep;
use crate::gate::written::companion::Companion;
use crate::gate::written::survival::Survival;
use crate::gate::written::upgrade::UpgradeFields;
use crate::load::whole::{whole, whole_if_any};
use crate::load::written::{Load, MOST_RATE};

/// The lowest rate at which zero-impact can be measured, in requests per second: a block of five seconds needs 200.
pub const LOWEST_IMPACT_RATE: u64 = 40;
/// The most looks of the judge of zero-impact.
const MOST_LOOKS: u64 = 3;

/// The whole file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateFile {
    /// What the gate is called in reports.
    pub name: String,
    /// How many instances the fleet has, 2 to 24. Default: 3.
    #[serde(default = "three", deserialize_with = "whole::<_, _, FEWEST_INSTANCES, MOST_INSTANCES>")]
    #[schemars(range(min = FEWEST_INSTANCES, max = MOST_INSTANCES))]
    pub instances: u32,
    /// The service and its two versions.
    pub service: Service,
    /// Services that work together with it, at most two, and are upgraded too: in each order, for the tag rolling. Each has
    /// a balancer and a Tidegate of its own. While the service alone is tried or upgraded, one instance of each runs at its
    /// base. Default: none.
    #[serde(default)]
    pub companions: Vec<Companion>,
    /// The database that all instances share; absent: none.
    #[serde(default)]
    pub database: Option<Database>,
    /// The schema change that goes with the release; absent: none.
    #[serde(default)]
    pub schema: Option<SchemaSteps>,
    /// The balancer before the instances.
    #[serde(default)]
    pub balancer: Balancer,
    /// What Tidegate keeps its records in.
    #[serde(default)]
    pub store: Store,
    /// Fields of an upgrade spec, beyond those that the runner fills in.
    #[serde(default)]
    pub upgrade: UpgradeFields,
    /// Another way of upgrading than Tidegate: a command that is given `{fleet}`, a JSON file that says where the instances
    /// are and how each version is started. It must exit with 0 when every instance is at the target. Absent: Tidegate.
    #[serde(default)]
    pub procedure: Option<Vec<String>>,
    /// The commands of the upgrade in their order, as the documentation of the service has them; `…` in them is any text. They
    /// are compared with those that were executed, for the tag supports-upgrade. Default: not compared.
    #[serde(default)]
    pub documented: Option<Vec<String>>,
    /// What clients do.
    pub load: Load,
    /// Resources that must survive the upgrade, by commands or HTTP steps of their own.
    #[serde(default)]
    pub survival: Option<Survival>,
    /// What happens to Tidegate in the upgrade, in this order, as in a plan of `grenade plan`: pauses, rollbacks, kills.
    #[serde(default)]
    pub faults: Vec<PlanStep>,
    /// Frozen mixes of the two versions, each tried before the upgrade. Default: one, with one instance at the target.
    #[serde(default)]
    pub arrangements: Option<Vec<Arrangement>>,
    /// Where further upgrades, each on a fleet of its own, are rolled back: they must end with every instance at the base,
    /// and lose nothing. Default: nowhere.
    #[serde(default)]
    pub rollback_from: Vec<TurningPoint>,
    /// The upgrade tags that are asserted.
    pub tags: Vec<GateTag>,
    /// How zero-impact is measured: two pools get the same load, and one of them is upgraded and rolled back again and again.
    #[serde(default)]
    pub impact: Impact,
    /// When the machine that this runs on is too slow for a verdict.
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
    /// Whether the target is not the version after the base: such an upgrade is refused unless it is declared. Default:
    /// false.
    #[serde(default)]
    pub skip_level: bool,
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
    /// Its number. The target's is the base's and one, or higher with `skip_level`.
    pub number: ServiceVersion,
    /// Program and arguments, with `{port}`, `{address}`, `{node}`, `{node_dir}`, `{disable_file}`, `{database}`,
    /// `{database_file}` (of SQLite), `{here}` (the directory of this file), `{bin}` (that of grenade), `{work}` (that of this run) and
    /// `{source}` (that of this version, with `directory` or `git`).
    pub command: Vec<String>,
    /// The directory that holds this version, from the directory of this file: `{source}` in its command.
    #[serde(default)]
    pub directory: Option<String>,
    /// The commit of the git repository of this file that holds this version: a tag, a branch, a commit, or
    /// `merge-base BRANCH`. It is checked out once, in a cache: `{source}` in its command.
    #[serde(default)]
    pub git: Option<String>,
    /// Commands that build it, run once for each commit, in `{source}`.
    #[serde(default)]
    pub build: Vec<Vec<String>>,
    /// Its environment beside the runner's own, with the same places.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

impl Version {
    /// Whether it says where its code is.
    pub fn has_source(&self) -> bool {
        self.directory.is_some() || self.git.is_some()
    }
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
    /// The number of each answer, where answers are no numbers: `"23.0.0": 1`.
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
    /// A server, started for the run and ended with it. The schema is changed by commands of the service: Tidegate's
    /// migrations are for the other two.
    #[serde(rename = "mariadb")]
    MariaDb,
}

/// The steps of a schema change: Tidegate's migrations, or the service's own commands.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SchemaSteps {
    /// A directory of Tidegate migrations, from the directory of this file; for SQLite and PostgreSQL.
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

/// A store of Tidegate's records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Store {
    /// The one that comes with the coordinator.
    #[default]
    Embedded,
    /// Three members of a real etcd, started for the run and ended with it.
    Etcd,
}

/// A frozen mix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Arrangement {
    /// Instances at the base version, at least one; together with the target's at most 24.
    #[serde(deserialize_with = "whole::<_, _, 1, { MOST_INSTANCES - 1 }>")]
    #[schemars(range(min = 1, max = MOST_INSTANCES - 1))]
    pub base: u32,
    /// Instances at the target version, at least one.
    #[serde(deserialize_with = "whole::<_, _, 1, { MOST_INSTANCES - 1 }>")]
    #[schemars(range(min = 1, max = MOST_INSTANCES - 1))]
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
    #[serde(default, deserialize_with = "whole_if_any::<_, _, LOWEST_IMPACT_RATE, MOST_RATE>")]
    #[schemars(range(min = LOWEST_IMPACT_RATE, max = MOST_RATE))]
    pub rate: Option<u32>,
    /// How long the pools are compared before anything is upgraded, and then for each look, at least 60s. Default: 60s.
    #[serde(default = "a_minute")]
    pub length: Span,
    /// How often the judge may look, with more requests each time, 1 to 3. Default: 3.
    #[serde(default = "three", deserialize_with = "whole::<_, _, 1, MOST_LOOKS>")]
    #[schemars(range(min = 1, max = MOST_LOOKS))]
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

/// Beyond these bounds a failure says nothing about the service, and the run is inconclusive. Shares count as the mean of a
/// load and in its worst three seconds; there more than a third must be lost too.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostBounds {
    /// The share of time in which some process waited for a core, in percent (`/proc/pressure/cpu`). Default: 90.
    #[serde(default = "ninety")]
    #[schemars(range(min = 0, max = 100))]
    pub cpu_pressure: f64,
    /// The share of time in which some process waited for memory, in percent (`/proc/pressure/memory`). Default: 20.
    #[serde(default = "twenty")]
    #[schemars(range(min = 0, max = 100))]
    pub memory_pressure: f64,
    /// The share of time that the hypervisor gave to others, in percent (`/proc/stat`). Default: 20.
    #[serde(default = "twenty")]
    #[schemars(range(min = 0, max = 100))]
    pub steal: f64,
    /// How late 99 % of the requests were sent at the most; later ones make the verdict inconclusive also where no request
    /// failed. Default: 250ms.
    #[serde(default = "quarter_of_a_second")]
    pub lag: Span,
}

fn ninety() -> f64 {
    90.0
}

fn twenty() -> f64 {
    20.0
}

fn quarter_of_a_second() -> Span {
    Span::from_millis(250)
}

impl Default for HostBounds {
    fn default() -> Self {
        Self {
            cpu_pressure: ninety(),
            memory_pressure: twenty(),
            steal: twenty(),
            lag: quarter_of_a_second(),
        }
    }
}
