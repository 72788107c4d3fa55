//! What a seed means: the upgrades, one after the other, and what goes wrong in each. Plain data, so that it can be
//! printed, kept and played again. The words are those of the simulation's scenario where they mean the same.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Members of etcd.
pub const MEMBERS: usize = 3;
/// Coordinators.
pub const COORDINATORS: usize = 2;
/// Nodes, each with an agent and an instance of the service.
pub const NODES: usize = 9;

/// Everything that is drawn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Where it was drawn from.
    pub seed: u64,
    /// More than can be run: those that do not begin in time are left out.
    pub upgrades: Vec<UpgradePlan>,
}

/// One upgrade, from the version that runs to the next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpgradePlan {
    /// `rolling` or `canary`, as a spec has it.
    pub strategy: serde_json::Value,
    /// Instances that must stay.
    pub min_in_service: usize,
    /// Instances that may be out.
    pub max_unavailable: usize,
    /// Phases that wait for a person.
    pub approvals: Vec<String>,
    /// How long the person takes, in milliseconds.
    pub approves_after: u64,
    /// `pause` or `rollback`, once an instance has failed.
    pub then: String,
    /// A person rolls it back so many milliseconds after it entered this phase.
    pub rolled_back: Option<(String, u64)>,
    /// What goes wrong.
    #[serde(rename = "mishaps")]
    pub faults: Vec<Fault>,
}

/// Something that goes wrong once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// Once the upgrade was in this phase.
    pub phase: String,
    /// So many milliseconds later.
    pub after: u64,
    /// For so many milliseconds.
    pub lasts: u64,
    /// What.
    pub what: What,
}

/// Two that cannot reach each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cut {
    /// A coordinator and one member of etcd.
    CoordinatorMember(usize, usize),
    /// A coordinator and etcd.
    CoordinatorStore(usize),
    /// Both coordinators.
    Coordinators,
    /// A coordinator and the database.
    CoordinatorDatabase(usize),
    /// A coordinator and a node.
    CoordinatorAgent(usize, usize),
    /// An agent and one member of etcd.
    AgentMember(usize, usize),
    /// An agent and etcd.
    AgentStore(usize),
    /// A node, with its service, and the database.
    NodeDatabase(usize),
    /// A node, with its service, and the balancer.
    NodeBalancer(usize),
    /// One member of etcd and another.
    Members(usize, usize),
    /// One member of etcd and both others.
    MemberAlone(usize),
    /// The database and its replica.
    Replication,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// kill -9 of a member of etcd; it is started again at the end.
    MemberKilled(usize),
    /// SIGSTOP of a member of etcd, SIGCONT at the end.
    MemberStalled(usize),
    /// Each sync of a member's disk takes long.
    MemberDiskSlow(usize),
    /// etcd forgets its history, and its files are made smaller.
    Compaction,
    /// kill -9 of the coordinator that leads; it is started again at the end.
    LeaderKilled,
    /// SIGSTOP of the coordinator that leads, SIGCONT at the end.
    LeaderStalled,
    /// kill -9 of the coordinator that does not lead.
    FollowerKilled,
    /// SIGSTOP of the coordinator that does not lead.
    FollowerStalled,
    /// kill -9 of an agent; it is started again at the end.
    AgentKilled(usize),
    /// SIGSTOP of an agent, SIGCONT at the end.
    AgentStalled(usize),
    /// kill -9 of an instance of the service; its agent starts it again.
    ServiceKilled(usize),
    /// SIGSTOP of an instance of the service, SIGCONT at the end.
    ServiceStalled(usize),
    /// kill -9 of HAProxy; it is started again at the end.
    BalancerKilled,
    /// SIGSTOP of HAProxy, SIGCONT at the end.
    BalancerStalled,
    /// kill -9 of one backend of PostgreSQL: the server ends all of them and recovers.
    BackendKilled(usize),
    /// kill -9 of PostgreSQL; it is started again at the end.
    DatabaseKilled,
    /// SIGSTOP of PostgreSQL, SIGCONT at the end.
    DatabaseStalled,
    /// kill -9 of PostgreSQL; its replica takes its place, and gets a replica of its own at the end.
    ReplicaPromoted,
    /// Two cannot reach each other.
    Cut(Cut),
    /// The disk with an agent's state is full.
    DiskFull(usize),
    /// Each sync and rename of an agent's disk takes long.
    DiskSlow(usize),
    /// The clock of a coordinator steps by so many seconds, and back at the end.
    CoordinatorClock(usize, i64),
    /// The clock of a node, with its agent and service, steps.
    NodeClock(usize, i64),
    /// The clock of PostgreSQL steps.
    DatabaseClock(i64),
}

impl What {
    /// The word for its kind.
    pub fn kind(&self) -> String {
        let text = match self {
            Self::Cut(cut) => return format!("Cut {}", first_word(&format!("{cut:?}"))),
            other => format!("{other:?}"),
        };
        first_word(&text)
    }
}

fn first_word(text: &str) -> String {
    text.split('(').next().unwrap_or_default().to_owned()
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "plan of seed {}:", self.seed)?;
        for (n, upgrade) in self.upgrades.iter().enumerate() {
            let back = upgrade.rolled_back.as_ref();
            let back =
                back.map_or(String::new(), |(phase, ms)| format!(", rolled back {ms} ms into {phase}"));
            writeln!(
                f,
                "  u{n}: {}, at least {} in service, at most {} out, approvals {:?}, on failure {}{back}",
                upgrade.strategy,
                upgrade.min_in_service,
                upgrade.max_unavailable,
                upgrade.approvals,
                upgrade.then
            )?;
            for Fault { phase, after, lasts, what } in &upgrade.faults {
                writeln!(f, "      {after} ms into {phase}: {what:?} for {lasts} ms")?;
            }
        }
        Ok(())
    }
}
