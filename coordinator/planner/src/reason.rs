//! Why nothing moves: a value for each reason, so that "not now" cannot be said without one. Every reason can tell
//! what is waited for, who can end the wait, which command helps, and what happens at a deadline.

mod causes;
mod help;
mod sentence;

pub use causes::{Cause, Causes};

use serde::{Deserialize, Serialize};
use std::fmt;
use tidegate_proto::record::need::Hold;
use tidegate_proto::spec::ApprovalPoint;
use tidegate_proto::{
    HookName, NodeId, ReleaseRevision, ReleaseTag, Revision, ServiceName, ServiceVersion, Span, StreamName,
    TaskId,
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
const RECONCILE: &str = "tidegate fleet reconcile";

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
    NotServing { nodes: Causes },
    Maintained { nodes: Sample },
    Capacity { in_service: usize, required: usize, out: Causes },
    Unavailable { allowed: usize, out: Causes },
    Domain { domain: String, out: Causes },
    Held { nodes: Sample },
    Outside { service: ServiceName, window: String, nodes: Causes },
    Unlabelled { nodes: Sample },
    Skipped { nodes: Sample },
    Failed { node: NodeId, why: String },
    EmptyWave { wave: u32 },
    NoInstances { service: ServiceName },
    Stalled { for_ms: u64, deadline: Span, out: Causes },
    Preflight { finding: String },
    Approval { point: ApprovalPoint },
    Acceptance { why: String },
    Paused { who: String, why: String, way_back: bool },
    Schema { job: String, progress: String },
    SchemaTrouble { job: String, why: String },
    StoreRefused { what: String, why: String },
    SchemaLost { job: String, from: ServiceVersion, to: ServiceVersion, way_back: bool },
    MigrateFloor { service: ServiceName, floor: Option<ServiceVersion>, needs: ServiceVersion },
    Certificate { why: String },
    NoWayBack { why: String },
    Needed { service: ServiceName, floor: ServiceVersion, by: Box<NeededBy> },
    Floor { service: ServiceName, floor: ServiceVersion, needs: ServiceVersion },
    ReleaseUnknown { service: ServiceName, nodes: Sample },
    NoStorage { compute: ReleaseTag },
    Evidence { compute: ReleaseTag, storage: ReleaseTag, found: Option<String> },
    ReleaseApproval { stream: StreamName, revision: ReleaseRevision },
    ReleaseFailed { why: String, overtaken: Option<ReleaseRevision> },
    Manual { tag: ReleaseTag },
    NoStrategy,
    CanaryBusy { revision: ReleaseRevision },
    RollsBack { revision: ReleaseRevision, failed: bool },
    CanaryOpen { count: CanaryCount, deadline: Option<Span> },
    NotAvailable { answered: Span, needed: Span, deadline: Span },
    TooManyKept { count: usize },
    Errand { hook: HookName, nodes: Sample },
    ErrandRuns { hook: HookName, nodes: Sample },
    ErrandUnknown { hook: HookName, node: NodeId, task: TaskId, why: String },
    ErrandFailed { hook: HookName, node: NodeId, why: String },
    Restored { witnesses: Vec<String>, count: usize },
    Unsupported { service: ServiceName, node: NodeId, claim: String },
    Unheard { for_ms: u64 },
    FormerStore { nodes: Sample },
    Disregarded { service: ServiceName, nodes: Sample },
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
            Self::Held { .. } => "held",
            Self::Outside { .. } => "outside",
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
            Self::StoreRefused { .. } => "store-refused",
            Self::SchemaLost { .. } => "schema-lost",
            Self::MigrateFloor { .. } => "migrate-floor",
            Self::Certificate { .. } => "certificate",
            Self::NoWayBack { .. } => "no-way-back",
            Self::Needed { .. } => "needed",
            Self::Floor { .. } => "floor",
            Self::ReleaseUnknown { .. } => "release-unknown",
            Self::NoStorage { .. } => "no-storage",
            Self::Evidence { .. } => "evidence",
            Self::ReleaseApproval { .. } => "release-approval",
            Self::ReleaseFailed { .. } => "release-failed",
            Self::Manual { .. } => "manual",
            Self::NoStrategy => "no-strategy",
            Self::CanaryBusy { .. } => "canary-busy",
            Self::RollsBack { .. } => "rolls-back",
            Self::CanaryOpen { .. } => "canary-open",
            Self::NotAvailable { .. } => "not-available",
            Self::TooManyKept { .. } => "too-many-kept",
            Self::Errand { .. } => "errand",
            Self::ErrandRuns { .. } => "errand-runs",
            Self::ErrandUnknown { .. } => "errand-unknown",
            Self::ErrandFailed { .. } => "errand-failed",
            Self::Restored { .. } => "restored",
            Self::Unsupported { .. } => "unsupported-claim",
            Self::Unheard { .. } => "unheard",
            Self::FormerStore { .. } => "former-store",
            Self::Disregarded { .. } => "disregarded",
            Self::Unsignalled { .. } => "unsignalled",
            Self::Watched { .. } => "watched",
        }
    }
}
