//! Why nothing moves: a value for each reason, so that "not now" cannot be said without one. Every reason can tell
//! what is waited for, who can end the wait, which command helps, and what happens at a deadline.

mod sentence;

use serde::{Deserialize, Serialize};
use std::fmt;
use tidegate_proto::record::need::Hold;
use tidegate_proto::record::waiting::WaitingFor;
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::{
    GroupName, HookName, NodeId, ReleaseRevision, ReleaseTag, Revision, ServiceName, ServiceVersion, Span,
    StreamName, UpgradeId,
};

/// A few names out of many, and how many there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The first of them.
    pub first: Vec<NodeId>,
    /// How many in all.
    pub count: usize,
}

impl Sample {
    /// How many are named.
    pub const NAMED: usize = 5;

    /// A sample of `nodes`, of which there are `count`.
    pub fn of<'a>(nodes: impl Iterator<Item = &'a NodeId>, count: usize) -> Self {
        Self { first: nodes.take(Self::NAMED).cloned().collect(), count }
    }

    /// A sample of nodes that have to be counted.
    pub fn counted<'a>(nodes: impl Iterator<Item = &'a NodeId>) -> Self {
        let mut sample = Self::default();
        for node in nodes {
            if sample.count < Self::NAMED {
                sample.first.push(node.clone());
            }
            sample.count += 1;
        }
        sample
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// What an instance told of its failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// The kind of failure.
    pub kind: String,
    /// What happened, where that was told.
    pub why: String,
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.first.iter().map(NodeId::as_str).collect();
        f.write_str(&names.join(", "))?;
        match self.count - self.first.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// Which compute release needs a service not to fall back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "its fields are what it names")]
pub struct NeededBy {
    pub stream: StreamName,
    pub revision: ReleaseRevision,
    pub tag: ReleaseTag,
    pub hold: Hold,
    pub needs: ServiceVersion,
}

/// What computes have told of a canary, and what is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "its fields are what it names")]
pub struct CanaryCount {
    pub successes: usize,
    pub needed: Option<u32>,
    pub failures: usize,
    pub tolerated: u32,
}

/// The command that helps where a store was restored.
const RECONCILE: &str = "tidegate fleet reconcile --why …";

/// A reason for waiting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each says itself, below, what it means; its fields are what it names")]
pub enum Reason {
    Silent { service: ServiceName, nodes: Sample },
    VersionUnknown { service: ServiceName, nodes: Sample },
    Unreadable { key: String, why: String },
    Behind { service: ServiceName, nodes: Sample, needs: ServiceVersion },
    Ahead { service: ServiceName, nodes: Sample, allowed: ServiceVersion },
    Unacknowledged { service: ServiceName, nodes: Sample, window: Revision },
    Staging { release: ReleaseTag, nodes: Sample },
    StageFailed { node: NodeId, release: ReleaseTag, why: String },
    Removing { nodes: Sample },
    Draining { nodes: Sample, deadline: Span },
    Replacing { nodes: Sample, deadline: Span },
    Returning { nodes: Sample },
    NotServing { nodes: Sample },
    Maintained { nodes: Sample },
    Capacity { in_service: usize, required: usize },
    Unavailable { out: usize, allowed: usize },
    Domain { out: String },
    Unlabelled { nodes: Sample },
    Skipped { nodes: Sample },
    Failed { node: NodeId, why: String },
    EmptyWave { wave: u32 },
    NoInstances { service: ServiceName },
    Stalled { for_ms: u64, deadline: Span },
    Preflight { finding: String },
    Approval { point: ApprovalPoint },
    Acceptance { why: String },
    Paused { who: String, why: String, way_back: bool },
    Schema { job: String, progress: String },
    SchemaTrouble { job: String, why: String },
    Certificate { why: String },
    NoWayBack { why: String },
    Needed { service: ServiceName, floor: ServiceVersion, by: Box<NeededBy> },
    Floor { service: ServiceName, floor: ServiceVersion, needs: ServiceVersion },
    ReleaseUnknown { service: ServiceName, nodes: Sample },
    NoStorage { compute: ReleaseTag },
    Evidence { compute: ReleaseTag, storage: ReleaseTag, found: Option<String> },
    ReleaseApproval { stream: StreamName, revision: ReleaseRevision },
    Manual { tag: ReleaseTag },
    NoStrategy,
    CanaryBusy { revision: ReleaseRevision },
    CanaryOpen { count: CanaryCount, deadline: Option<Span> },
    NotAvailable { answered: Span, needed: Span, deadline: Span },
    TooManyKept { count: usize },
    Errand { hook: HookName, nodes: Sample },
    ErrandFailed { hook: HookName, node: NodeId, why: String },
    Restored { witnesses: Vec<String>, count: usize },
    Unheard { for_ms: u64 },
    FormerStore { nodes: Sample },
    Unsignalled { nodes: Sample, batch: u32, batches: u32, left: Span },
    Watched { batch: u32, batches: u32, left: Span },
}

impl Reason {
    /// How many witnesses against a restored store are named.
    pub const WITNESSES: usize = 5;

    /// Its kind, in kebab-case, as metrics and JSON have it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Silent { .. } => "silent",
            Self::VersionUnknown { .. } => "version-unknown",
            Self::Unreadable { .. } => "unreadable",
            Self::Behind { .. } => "behind",
            Self::Ahead { .. } => "ahead",
            Self::Unacknowledged { .. } => "unacknowledged",
            Self::Staging { .. } => "staging",
            Self::StageFailed { .. } => "stage-failed",
            Self::Removing { .. } => "removing",
            Self::Draining { .. } => "draining",
            Self::Replacing { .. } => "replacing",
            Self::Returning { .. } => "returning",
            Self::NotServing { .. } => "not-serving",
            Self::Maintained { .. } => "maintained",
            Self::Capacity { .. } => "capacity",
            Self::Unavailable { .. } => "unavailable",
            Self::Domain { .. } => "domain",
            Self::Unlabelled { .. } => "unlabelled",
            Self::Skipped { .. } => "skipped",
            Self::Failed { .. } => "failed",
            Self::EmptyWave { .. } => "empty-wave",
            Self::NoInstances { .. } => "no-instances",
            Self::Stalled { .. } => "stalled",
            Self::Preflight { .. } => "preflight",
            Self::Approval { .. } => "approval",
            Self::Acceptance { .. } => "acceptance",
            Self::Paused { .. } => "paused",
            Self::Schema { .. } => "schema",
            Self::SchemaTrouble { .. } => "schema-trouble",
            Self::Certificate { .. } => "certificate",
            Self::NoWayBack { .. } => "no-way-back",
            Self::Needed { .. } => "needed",
            Self::Floor { .. } => "floor",
            Self::ReleaseUnknown { .. } => "release-unknown",
            Self::NoStorage { .. } => "no-storage",
            Self::Evidence { .. } => "evidence",
            Self::ReleaseApproval { .. } => "release-approval",
            Self::Manual { .. } => "manual",
            Self::NoStrategy => "no-strategy",
            Self::CanaryBusy { .. } => "canary-busy",
            Self::CanaryOpen { .. } => "canary-open",
            Self::NotAvailable { .. } => "not-available",
            Self::TooManyKept { .. } => "too-many-kept",
            Self::Errand { .. } => "errand",
            Self::ErrandFailed { .. } => "errand-failed",
            Self::Restored { .. } => "restored",
            Self::Unheard { .. } => "unheard",
            Self::FormerStore { .. } => "former-store",
            Self::Unsignalled { .. } => "unsignalled",
            Self::Watched { .. } => "watched",
        }
    }

    /// Who or what can end the wait.
    pub fn who(&self) -> &'static str {
        match self {
            Self::Silent { .. } => {
                "its agent, by reporting; or, where the machine is gone for good, a person, by decommissioning it"
            }
            Self::VersionUnknown { .. } => "its agent, once its probe answers",
            Self::Unreadable { .. } => "the writer of the record, or a person who removes it",
            Self::Behind { .. } | Self::Ahead { .. } => {
                "the coordinator, which moves it there; or a person, where it failed or was skipped"
            }
            Self::Unacknowledged { .. }
            | Self::Staging { .. }
            | Self::Removing { .. }
            | Self::Draining { .. }
            | Self::Replacing { .. }
            | Self::Returning { .. }
            | Self::FormerStore { .. } => "the agents, by themselves",
            Self::StageFailed { .. } => "a person: the artifact on that node",
            Self::NotServing { .. } => "the service on that node, or a person who looks after it",
            Self::Failed { .. } => "a person: the instance on that node; it is not tried again by itself",
            Self::Maintained { .. } => "the person who keeps it out",
            Self::Unlabelled { .. } => {
                "the instance, by coming back; or a person: the labels in its agent's config"
            }
            Self::Skipped { .. } => {
                "a person, by taking it up again; or by decommissioning it once it is stopped"
            }
            Self::Capacity { .. } | Self::Unavailable { .. } | Self::Domain { .. } => {
                "instances that come back into rotation; or a person who mends what is out"
            }
            Self::NoStorage { .. }
            | Self::ReleaseApproval { .. }
            | Self::Manual { .. }
            | Self::NoStrategy => "a person",
            Self::Needed { .. } => "a person, by rolling the compute release back or unpinning it first",
            Self::Floor { .. } => "the upgrade of the service, when its last instance was seen upgraded",
            Self::ReleaseUnknown { .. } => "its agent, once it knows which release runs",
            Self::Evidence { .. } => "a compatibility run, with a pass",
            Self::CanaryBusy { .. } | Self::CanaryOpen { .. } => {
                "the computes, by telling how they fared; or a person, by promoting or rolling back"
            }
            Self::NotAvailable { .. } => "whoever says whether the release answers",
            Self::Errand { .. } => "the agents of these nodes",
            Self::ErrandFailed { .. } => "a person: the hook on that node, then another attempt",
            Self::Unsignalled { .. } => {
                "the instances, by telling how they fared; or a person, by calling the update off"
            }
            Self::Watched { .. } => "the coordinator, by itself",
            Self::TooManyKept { .. } => "a person, by unpinning; or computes that move to a later release",
            Self::EmptyWave { .. } => "a person: mend and retry one of the wave, or roll back",
            Self::NoInstances { .. } => "an agent that is started for it",
            Self::Stalled { .. } => "the instances that are waited for, or a person, by rolling back",
            Self::Preflight { .. } => "a person: what was found; it is looked at again by itself",
            Self::Paused { .. } => "a person: go on, or go back",
            Self::Approval { .. } | Self::Acceptance { .. } | Self::NoWayBack { .. } => "a person",
            Self::Restored { .. } => "a person, who knows what happened since the backup",
            Self::Schema { .. } | Self::Unheard { .. } => "the coordinator, by itself",
            Self::SchemaTrouble { .. } => "the database, or a person who looks after it",
            Self::Certificate { .. } => "whatever is named, or a person who looks after it",
        }
    }

    /// The command that helps, where there is one.
    pub fn command(&self, upgrade: &UpgradeId) -> Option<String> {
        let first = |nodes: &Sample| nodes.first.first().cloned();
        let rollback = || format!("tidegate upgrade rollback {upgrade} --why …");
        match self {
            Self::Silent { service, nodes } => first(nodes)
                .map(|node| format!("tidegate fleet decommission {service}/{node} --why … --stopped-how …")),
            Self::VersionUnknown { nodes, .. } => {
                first(nodes).map(|node| format!("tidegate-agent check (on {node})"))
            }
            Self::Approval { point } => Some(format!("tidegate upgrade approve {upgrade} {point}")),
            Self::Acceptance { .. } => {
                Some(format!("tidegate upgrade approve {upgrade} contract --accept sessions"))
            }
            Self::Paused { way_back: true, .. } => {
                Some(format!("tidegate upgrade resume {upgrade}, or {}", rollback()))
            }
            Self::Paused { .. } => Some(format!("tidegate upgrade resume {upgrade}")),
            Self::Maintained { nodes } => first(nodes)
                .map(|node| format!("tidegate fleet uncordon {node}, or remove the disable-file there")),
            Self::Failed { node, .. } | Self::StageFailed { node, .. } => {
                Some(format!("tidegate upgrade retry {upgrade} {node}"))
            }
            Self::Skipped { nodes } => {
                first(nodes).map(|node| format!("tidegate upgrade retry {upgrade} {node}"))
            }
            Self::NotServing { .. }
            | Self::Capacity { .. }
            | Self::Unavailable { .. }
            | Self::Domain { .. }
            | Self::Unlabelled { .. } => Some(format!("tidegate upgrade status {upgrade}")),
            Self::Stalled { .. } | Self::EmptyWave { .. } | Self::Preflight { .. } => Some(rollback()),
            Self::Needed { by, .. } => {
                Some(format!("tidegate release rollback … --stream {} --why …", by.stream))
            }
            Self::Restored { .. } => Some(RECONCILE.to_owned()),
            _ => None,
        }
    }

    /// The command that helps a compute release, where there is one.
    pub fn release_command(&self, stream: &StreamName, revision: ReleaseRevision) -> Option<String> {
        match self {
            Self::Silent { service, nodes } => nodes
                .first
                .first()
                .map(|node| format!("tidegate fleet decommission {service}/{node} --why … --stopped-how …")),
            Self::Behind { service, .. } | Self::Floor { service, .. } => {
                Some(format!("tidegate upgrade list {service} --active"))
            }
            Self::Evidence { compute, storage, .. } => {
                Some(format!("tidegate release evidence {compute} {storage} pass --stream {stream}"))
            }
            Self::Manual { .. } => Some(format!("tidegate release stream {stream} --set …")),
            Self::TooManyKept { .. } => Some(format!("tidegate release unpin … --stream {stream}")),
            Self::Restored { .. } => Some(RECONCILE.to_owned()),
            Self::ReleaseApproval { .. } => {
                Some(format!("tidegate release approve {revision} --stream {stream}"))
            }
            Self::CanaryOpen { .. } | Self::NotAvailable { .. } | Self::NoStrategy => {
                Some(format!("tidegate release promote {revision} --stream {stream}"))
            }
            Self::ErrandFailed { .. } => Some(format!("tidegate release retry {revision} --stream {stream}")),
            Self::CanaryBusy { revision } => {
                Some(format!("tidegate release promote {revision} --stream {stream}"))
            }
            _ => None,
        }
    }

    /// What happens by itself, where anything does.
    pub fn deadline(&self) -> Option<String> {
        match self {
            Self::Draining { deadline, .. } => {
                Some(format!("after {deadline} the spec's drain.on_deadline decides"))
            }
            Self::Replacing { deadline, .. } => Some(format!("after {deadline} the instance has failed")),
            Self::CanaryOpen { deadline: Some(deadline), .. } => {
                Some(format!("after {deadline} in canary without success it is withdrawn"))
            }
            Self::NotAvailable { deadline, .. } => {
                Some(format!("after {deadline} without becoming available it has failed"))
            }
            Self::Unsignalled { left, .. } => Some(format!(
                "in {left} those that have told nothing count as failed ({})",
                tidegate_proto::metadata::TIMEOUT
            )),
            Self::Watched { left, .. } => Some(format!("in {left} the next batch is exposed")),
            Self::Stalled { .. } => {
                Some("it has passed; the spec ignores those that are unreachable".to_owned())
            }
            Self::SchemaTrouble { .. } | Self::Certificate { .. } => {
                Some("none: it is tried again, at least every 15 s".to_owned())
            }
            Self::Approval { .. }
            | Self::Acceptance { .. }
            | Self::Paused { .. }
            | Self::Maintained { .. }
            | Self::Skipped { .. } => Some("none: waiting for a person is no failure".to_owned()),
            _ => None,
        }
    }

    /// The same for an update of metadata.
    pub fn for_group(&self, group: &GroupName) -> WaitingFor {
        let helps = matches!(self, Self::Unsignalled { .. } | Self::Watched { .. });
        WaitingFor {
            kind: self.kind().to_owned(),
            what: self.to_string(),
            who: self.who().to_owned(),
            command: helps.then(|| format!("tidegate metadata cancel {group} --why …")),
            deadline: self.deadline(),
            since: None,
        }
    }

    /// The same for a compute release.
    pub fn for_release(&self, stream: &StreamName, revision: ReleaseRevision) -> WaitingFor {
        WaitingFor {
            kind: self.kind().to_owned(),
            what: self.to_string(),
            who: self.who().to_owned(),
            command: self.release_command(stream, revision),
            deadline: self.deadline(),
            since: None,
        }
    }

    /// As the store keeps it for people; since when, who writes it knows.
    pub fn for_people(&self, upgrade: &UpgradeId) -> WaitingFor {
        WaitingFor {
            kind: self.kind().to_owned(),
            what: self.to_string(),
            who: self.who().to_owned(),
            command: self.command(upgrade),
            deadline: self.deadline(),
            since: None,
        }
    }
}
