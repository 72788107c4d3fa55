//! What a seed means: the world, what people do in it, and what goes wrong. Plain data, so that a failing one can be kept,
//! made smaller and played again.

use super::falsify::kind::Falsification;
use super::metadata_plan::MetadataPlan;
use super::slot::Hiccup;
use super::stream_plan::StreamPlan;
use serde::{Deserialize, Serialize};
use tidegate_proto::GateTag;

/// Everything that is drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Where chance comes from that no field names: latencies, durations of hooks.
    pub seed: u64,
    /// Nodes, by their zone.
    pub zones: Vec<String>,
    /// Services.
    pub services: Vec<ServicePlan>,
    /// Schemas.
    pub schemas: Vec<SchemaPlan>,
    /// How many coordinators there are.
    pub coordinators: usize,
    /// One after the other.
    pub upgrades: Vec<UpgradePlan>,
    /// What goes wrong, and what people do at a wrong moment.
    #[serde(rename = "mishaps", alias = "faults")]
    pub faults: Vec<Fault>,
    /// The steps of a plan of a gate job: one after the other, in the upgrades of the first service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<Step>,
    /// What is made false, so that the judge is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub falsify: Option<Falsification>,
    /// Compute releases on top of one of the services.
    #[serde(default)]
    pub stream: Option<StreamPlan>,
    /// A document that the instances of one of the services share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<MetadataPlan>,
    /// The largest request that the store takes, in bytes; none = etcd's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_request: Option<u64>,
    /// How long a message to the store or from it takes at most, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub latency: u64,
    /// Agents that lie write under each key that they may write, beside reports and admissions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lies_everywhere: bool,
    /// Where the store becomes blank, coordinators and nodes are reinstalled with it: no process that is on then knows
    /// what there was, and the databases stay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reinstalled: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// One service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServicePlan {
    /// Its name.
    pub name: String,
    /// The nodes that it runs on.
    pub nodes: Vec<usize>,
    /// Nodes that it may come to later.
    #[serde(default)]
    pub late: Vec<usize>,
    /// Whether the agents ask the balancer.
    pub asks_balancer: bool,
    /// Whether requests in flight are counted.
    pub counts: bool,
    /// Whether hooks replace its code; else the agent runs its process.
    pub hooks: bool,
    /// No supervisor starts it again where it ended by itself, as a unit with `Restart=no`. Only where hooks replace its code.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unsupervised: bool,
    /// Its agents start what was admitted last while the store is away (`start_without_store`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starts_alone: bool,
    /// Whether its readiness is asked at its health URL.
    pub one_url: bool,
    /// The agents' lease in seconds.
    pub lease: u64,
    /// The schema that it reads and writes.
    pub schema: Option<usize>,
    /// How long its requests last after the balancer stopped sending requests, in milliseconds.
    pub lingers: u64,
}

/// One schema and how it changes from version to version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemaPlan {
    /// The change to version 2, to version 3, and so on.
    pub generations: Vec<Generation>,
    /// Rows that are there at the beginning.
    pub rows: u64,
    /// How many of the generations were contracted before Tidegate came, and are adopted.
    #[serde(default)]
    pub contracted: usize,
    /// Those were run by a person with `tidegate schema expand` and `migrate`, and are not adopted: so that nothing has
    /// contracted them. Only where there is nothing to contract.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_hand: bool,
    /// A service that no node runs yet shares it, and the specs name it as empty.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub empty_service: bool,
}

impl SchemaPlan {
    /// Nothing of it was changed before Tidegate came.
    pub fn new(generations: Vec<Generation>, rows: u64) -> Self {
        Self { generations, rows, contracted: 0, by_hand: false, empty_service: false }
    }

    /// Whether programs of a version read rows that are filled only after the roll.
    pub fn meets_unfilled(&self, version: u32) -> bool {
        let generation = usize::try_from(version).unwrap_or(0).saturating_sub(2);
        self.generations.get(generation).is_some_and(Generation::meets_unfilled)
    }
}

impl Scenario {
    /// The version that a service runs at the beginning.
    pub fn first_version(&self, service: usize) -> u32 {
        let schema = self.services[service].schema.and_then(|schema| self.schemas.get(schema));
        1 + schema.map_or(0, |schema| u32::try_from(schema.contracted).unwrap_or(0))
    }
}

/// The change of a schema to one version.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Generation {
    /// What changes.
    pub change: Change,
    /// Whether the former version can read migrated rows.
    pub old_reads: bool,
    /// Rows are filled after the roll, under the floor.
    pub after_roll: bool,
    /// Rows are filled once the services that share the schema are at the new version.
    #[serde(default)]
    pub others_first: bool,
    /// What expand makes stays after a rollback.
    #[serde(default)]
    pub irreversible: bool,
}

impl Generation {
    /// One that can be undone, and whose rows the former version can read.
    pub fn new(change: Change) -> Self {
        Self { change, old_reads: true, after_roll: false, others_first: false, irreversible: false }
    }

    /// Whether programs of its version meet rows that are not filled.
    pub fn meets_unfilled(&self) -> bool {
        self.after_roll || self.others_first
    }
}

/// What a migration changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A column gets another name and form: both are kept in step until contract.
    Rename,
    /// A column more.
    Add,
}

/// One upgrade.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpgradePlan {
    /// Its service.
    pub service: usize,
    /// From this version to the next.
    pub from: u32,
    /// `rolling`, `canary` or `immediate`, as a spec has it.
    pub strategy: serde_json::Value,
    /// Health URLs that must answer 200.
    pub min_in_service: u64,
    /// Instances that may be out.
    pub max_unavailable: u64,
    /// Whether zones are looked at.
    pub by_zone: bool,
    /// Failures that are allowed.
    pub tolerate: u64,
    /// `rollback` or `pause`.
    pub then: String,
    /// Phases that wait for a person.
    pub approvals: Vec<String>,
    /// Tags of gate jobs that the spec requires.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requires_gate: Vec<GateTag>,
    /// How the new release behaves.
    pub release: ReleasePlan,
    /// How long a drain may last, in milliseconds.
    pub drain_deadline: u64,
    /// Healthy for so long, in milliseconds.
    pub healthy_time: u64,
    /// Its people do not start it again after a rollback, unless an upgrade that cannot be rolled back waits for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tried_once: bool,
    /// A drain that has not ended by its deadline is a failure, instead of going on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fails_on_deadline: bool,
    /// The number at the end of its ID, from which the order of the nodes is drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<u32>,
}

/// How a release behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReleasePlan {
    /// As it should.
    Good,
    /// It never becomes ready.
    NeverStarts,
    /// It ends by itself, each time after so many milliseconds.
    CrashesAfter(u64),
    /// Its readiness comes and goes.
    Flaps,
    /// It stays ready, and its health URL fails for a moment in each such period, in milliseconds.
    HealthFlaps(u64),
    /// It needs long to become ready.
    Slow,
    /// It says another version.
    Lies,
}

/// Something that happens once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// During which upgrade, by its place.
    pub upgrade: usize,
    /// Once it is in this phase.
    pub phase: String,
    /// So many milliseconds later.
    pub after: u64,
    /// For so many milliseconds.
    pub lasts: u64,
    /// What.
    pub what: What,
}

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Once so many instances run the version that the upgrade goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgraded: Option<u64>,
    /// So many milliseconds after the upgrade began.
    #[serde(default)]
    pub after: u64,
    /// For so many milliseconds.
    pub lasts: u64,
    /// What happens.
    pub what: What,
}

/// What happens. Places are counted around.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum What {
    /// Requests, answers or both are lost on all lines, or come late.
    BadNetwork,
    /// One agent cannot reach the store.
    AgentCut(usize),
    /// One coordinator cannot reach the store.
    CoordinatorCut(usize),
    /// Every stream of the store ends.
    StreamsEnd,
    /// What the watches of coordinators are sent comes late; what coordinators write arrives.
    WatchesHang,
    /// Some requests reach the store twice, as where a proxy sends them again; what is answered is the second one.
    RequestsRepeat,
    /// The store forgets its history.
    Compaction,
    /// kill -9 of a coordinator; it is started again at the end.
    CoordinatorKilled(usize),
    /// SIGSTOP of a coordinator, SIGCONT at the end.
    CoordinatorStalled(usize),
    /// kill -9 of an agent; it is started again at the end.
    AgentKilled(usize),
    /// SIGSTOP of an agent, SIGCONT at the end.
    AgentStalled(usize),
    /// kill -9 of an agent whose journal is gone when it is started again.
    JournalLost(usize),
    /// The disk of a node is full.
    DiskFull(usize),
    /// A disk is slow.
    DiskSlow(usize),
    /// A whole node falls silent: agent and services.
    NodeDies(usize),
    /// A whole node is switched off, and people know that; at the end it is switched on again as it was.
    NodeLeaves(usize),
    /// A node joins, with the version that the upgrade leaves or the one that it goes to.
    NodeJoins(usize),
    /// A node gets another zone: its agent is restarted.
    Labels(usize),
    /// Services of one node have a hiccup.
    OneHiccup(usize, Hiccup),
    /// All instances of the service have one.
    AllHiccup(Hiccup),
    /// A service ends by itself.
    Crash(usize),
    /// Hooks that are begun on a node hang.
    HooksHang(usize),
    /// Hooks that are begun on a node say that they succeeded, and did nothing.
    HooksLie(usize),
    /// One agent lies in everything that it may write, until its machine is rebuilt.
    LyingAgent(usize),
    /// Hooks that are begun on a node fail.
    HooksFail(usize),
    /// A person puts the version back that is before the one that runs, under its agent, on one node or on all of the service
    /// (none), so quickly that no instance leaves rotation. From the end on they start the right version where one was taken
    /// out.
    VersionPutBack(Option<usize>),
    /// A person puts a disable-file of their own.
    PersonHides(usize),
    /// The database cannot be opened.
    DatabaseAway,
    /// Statements of coordinators take long.
    DatabaseSlow,
    /// The database is replaced by a copy that was made before the upgrade began.
    DatabaseOlder,
    /// The store is replaced by a copy that was made a while ago.
    StoreRestored,
    /// The store is replaced by a blank one.
    StoreBlank,
    /// An agent writes nonsense under its own keys.
    Garbage(usize),
    /// A record of the coordinators becomes unreadable, until a person restores it.
    Unreadable(usize),
    /// A second agent with the name of the first begins.
    SecondAgent(usize),
    /// An unknown program of the version that the upgrade leaves writes a row.
    LateRow,
    /// A person pauses, and resumes at the end.
    Pause,
    /// A person asks for the rollback.
    RollBack,
    /// An operator repeats commands, and gives impossible ones.
    WrongCommands,
    /// A person takes a node out by hand, and lets it back at the end.
    Cordon(usize),
    /// A person asks for one thing after the other, with arguments that are right, nearly right and wrong.
    Person,
    /// Two people do so at once.
    TwoPersons,
}

impl What {
    /// Whether coordinators may learn of something late by it.
    pub fn disturbs_coordinators(&self) -> bool {
        matches!(
            self,
            Self::BadNetwork
                | Self::CoordinatorCut(_)
                | Self::CoordinatorKilled(_)
                | Self::CoordinatorStalled(_)
                | Self::StreamsEnd
                | Self::WatchesHang
                | Self::RequestsRepeat
                | Self::Compaction
                | Self::StoreRestored
                | Self::StoreBlank
                | Self::Garbage(_)
                | Self::Unreadable(_)
        )
    }

    /// The word for its kind.
    pub fn kind(&self) -> String {
        let text = format!("{self:?}");
        match self {
            Self::OneHiccup(_, hiccup) => format!("OneHiccup({hiccup:?})"),
            Self::AllHiccup(_) => text,
            _ => text.split('(').next().unwrap_or_default().to_owned(),
        }
    }
}
