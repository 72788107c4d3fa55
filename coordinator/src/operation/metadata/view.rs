//! How groups are shown: one JSON form for HTTP, gRPC and the command line. Times are RFC 3339, in UTC.

use crate::operation::release::view::time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use tidegate_planner::gate::SignalledFailure;
use tidegate_planner::{Fleet, metadata};
use tidegate_proto::metadata::UpdateTerms;
use tidegate_proto::record::group::{EndedUpdate, Group as GroupRecord, GroupUpdate, Members, UpdateOutcome};
use tidegate_proto::schema::Object;
use tidegate_proto::spec::Strategy;
use tidegate_proto::{GroupName, MetadataGeneration, NodeId, ServiceName};

/// The most instances that are named one by one in a view.
const NAMED: usize = 100;

/// What one instance is served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Served {
    /// The group.
    pub group: GroupName,
    /// The instance.
    pub instance: NodeId,
    /// The generation of the document.
    pub generation: MetadataGeneration,
    /// Whether it is what an update that runs brings: then the instance is asked for its signal.
    pub exposed: bool,
    /// The document.
    #[schemars(with = "Object")]
    pub metadata: Json,
}

/// A group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Its name.
    pub group: GroupName,
    /// The service whose instances belong to it; absent = they are named one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<ServiceName>,
    /// How many instances belong to it now.
    pub members: usize,
    /// The generation for all instances that are not exposed to another; null = none yet.
    pub current: Option<MetadataGeneration>,
    /// The update that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<Update>,
    /// How the last one ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Ended>,
}

/// An update that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Update {
    /// The generation that it brings.
    pub generation: MetadataGeneration,
    /// How instances are grouped into batches.
    pub strategy: Strategy,
    /// What the update waits for, and which failures it tolerates.
    pub terms: UpdateTerms,
    /// The last batch that is exposed, from 1.
    pub batch: u32,
    /// How many batches there are.
    pub batches: u32,
    /// How many instances were drawn.
    pub drawn: u32,
    /// How many of them are exposed.
    pub exposed: usize,
    /// How many signalled success.
    pub succeeded: usize,
    /// How many failed in a way that is expected.
    pub expected_failures: usize,
    /// How many are waited for.
    pub open: usize,
    /// Those that failed, the first hundred.
    #[schemars(with = "BTreeMap<NodeId, InstanceFailure>")]
    pub failed: BTreeMap<NodeId, SignalledFailure>,
    /// Who asked for it.
    pub by: String,
    /// Why.
    pub why: String,
    /// When.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
}

/// The failure that an instance reported: the form of `SignalledFailure`.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct InstanceFailure {
    /// The kind of failure.
    kind: String,
    /// What happened, where it was reported.
    why: String,
}

/// How an update ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ended {
    /// The generation that it was to bring.
    pub generation: MetadataGeneration,
    /// What became of it.
    pub outcome: UpdateOutcome,
    /// Why.
    pub because: String,
    /// Who ended it.
    pub who: String,
    /// When.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
}

impl Group {
    /// A group as it is shown.
    pub fn of(fleet: &Fleet, name: &GroupName, group: &GroupRecord) -> Self {
        let service = match &group.members {
            Members::Service(service) => Some(service.clone()),
            Members::Named => None,
        };
        Self {
            group: name.clone(),
            service,
            members: metadata::members(fleet, name, &group.members).count(),
            current: group.current.map(|current| current.generation),
            update: group.update.as_ref().map(|update| Update::of(fleet, name, update)),
            last: group.last.as_ref().map(Ended::of),
        }
    }
}

impl Update {
    fn of(fleet: &Fleet, name: &GroupName, update: &GroupUpdate) -> Self {
        let tally = metadata::tally(fleet, name, update, update.waited_ms);
        Self {
            generation: update.to.generation,
            strategy: update.strategy.clone(),
            terms: update.terms.clone(),
            batch: update.batch + 1,
            batches: update.batches,
            drawn: update.drawn,
            exposed: tally.exposed,
            succeeded: tally.succeeded,
            expected_failures: tally.expected_failures,
            open: tally.open.len(),
            failed: tally.failed.into_iter().take(NAMED).collect(),
            by: update.by.clone(),
            why: update.why.clone(),
            at: time(update.at),
        }
    }
}

impl Ended {
    fn of(ended: &EndedUpdate) -> Self {
        Self {
            generation: ended.generation,
            outcome: ended.outcome,
            because: ended.because.clone(),
            who: ended.who.clone(),
            at: time(ended.at),
        }
    }
}
