//! How releases and streams are shown: one JSON form for HTTP, gRPC and the command line. Times are RFC 3339, in UTC.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use tidegate_planner::gate::version::below::{self, Below};
use tidegate_planner::release::{canary, settings};
use tidegate_planner::stream::retention::{self, Keep};
use tidegate_planner::{Fleet, Sample};
use tidegate_proto::compute::{Canary, EvidenceRule, ReleaseVersion};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::release::{ComputeRelease, Posted, ReleaseStatus};
use tidegate_proto::record::stream::{Head, Pin, Stream as StreamRecord, StreamSettings};
use tidegate_proto::record::waiting::WaitingFor;
use tidegate_proto::schema::Object;
use tidegate_proto::{
    Branch, ComputeId, Fraction, NodeId, ReleaseRevision, ReleaseTag, ServiceName, ServiceVersion, StreamName,
};

/// A view as JSON.
pub fn text(view: &impl Serialize) -> String {
    serde_json::to_string(view).expect("a view has string keys only, so it is always JSON")
}

/// A time as people and machines read it.
pub fn time(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.0).unwrap_or_default().to_string()
}

/// A release.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Release {
    /// Its stream.
    pub stream: StreamName,
    /// Its place in the stream.
    pub revision: ReleaseRevision,
    /// The version of the image.
    pub version: ReleaseVersion,
    /// The tag of the image.
    pub tag: ReleaseTag,
    /// What became of it.
    pub status: ReleaseStatus,
    /// Why, where that needs saying.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Its manifest; left out of lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Object>")]
    pub manifest: Option<Json>,
    /// The branch that it was cut from.
    pub branch: Branch,
    /// The lowest version of each storage service that it can work with.
    pub requires: BTreeMap<ServiceName, ServiceVersion>,
    /// Whether a compatibility run must have passed.
    pub evidence: EvidenceRule,
    /// How it is tried on a share of starts first, where it says so itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// To which grouped stream it was posted, where its own is a line of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posted: Option<Posted>,
    /// The revision whose body this is, where it came to be by a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_of: Option<ReleaseRevision>,
    /// Who created it.
    pub created_by: String,
    /// When.
    #[schemars(extend("format" = "date-time"))]
    pub created_at: String,
    /// Who approved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
    /// When it was deployed; null = never.
    #[schemars(extend("format" = "date-time"))]
    pub deployed_at: Option<String>,
}

impl Release {
    /// A release as it is shown.
    pub fn of(stream: &StreamName, release: &ComputeRelease, manifest: Option<Json>) -> Self {
        Self {
            stream: stream.clone(),
            revision: release.revision,
            version: release.version,
            tag: release.tag.clone(),
            status: release.status,
            because: Some(release.because.clone()).filter(|because| !because.is_empty()),
            manifest,
            branch: release.branch.clone(),
            requires: release.requires.clone(),
            evidence: release.evidence,
            canary: release.canary.clone(),
            posted: release.posted.clone(),
            rollback_of: release.rollback_of,
            created_by: release.by.clone(),
            created_at: time(release.created_at),
            approved_by: release.approved.as_ref().map(|word| word.who.clone()),
            deployed_at: release.deployed_at.map(time),
        }
    }
}

/// A page of a stream's history, the latest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Page {
    /// The releases, without their manifests.
    pub releases: Vec<Release>,
    /// Ask again with `before` = this; absent = that was all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<ReleaseRevision>,
}

/// A stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stream {
    /// Its name.
    pub stream: StreamName,
    /// How it is run.
    pub settings: StreamSettings,
    /// The latest revision.
    pub latest: Option<ReleaseRevision>,
    /// What new computes start with.
    pub deployed: Option<Release>,
    /// What a share of new computes starts with.
    pub canary: Option<Trial>,
    /// What waits.
    pub pending: Vec<Release>,
    /// What was superseded or failed and is kept, with why.
    pub kept: Vec<Kept>,
    /// Computes with a release of their own.
    pub pins: BTreeMap<ComputeId, Pinned>,
    /// How many computes run each tag, as last reported.
    pub running: BTreeMap<ReleaseTag, u64>,
    /// Storage that serves below what a release needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage_below: Vec<StorageBelow>,
}

/// Instances of a storage service that run less than a release needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StorageBelow {
    /// The service.
    pub service: ServiceName,
    /// How many instances.
    pub count: usize,
    /// The first of them.
    pub nodes: Vec<NodeId>,
    /// The version that is needed.
    pub needs: ServiceVersion,
    /// By which revision.
    pub revision: ReleaseRevision,
}

impl From<&StorageBelow> for Below {
    fn from(below: &StorageBelow) -> Self {
        let nodes = Sample { first: below.nodes.clone(), count: below.count };
        Self { service: below.service.clone(), nodes, needs: below.needs, revision: below.revision }
    }
}

impl From<Below> for StorageBelow {
    fn from(below: Below) -> Self {
        let Sample { first: nodes, count } = below.nodes;
        Self { service: below.service, count, nodes, needs: below.needs, revision: below.revision }
    }
}

/// A release in canary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// The release.
    #[serde(flatten)]
    pub release: Release,
    /// Of how many starts.
    pub fraction: Option<Fraction>,
    /// How many computes signalled success.
    pub successes: usize,
    /// How many computes signalled failure.
    pub failures: usize,
}

/// A release that is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    /// The release.
    #[serde(flatten)]
    pub release: Release,
    /// Why, in sentences; empty = it is about to be collected.
    pub held_by: Vec<String>,
}

/// A compute with a release of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pinned {
    /// Which one.
    pub revision: ReleaseRevision,
    /// Who pinned it.
    pub who: String,
    /// Why.
    pub why: String,
    /// When.
    #[schemars(extend("format" = "date-time"))]
    pub at: String,
}

impl From<&Pin> for Pinned {
    fn from(pin: &Pin) -> Self {
        Self { revision: pin.revision, who: pin.who.clone(), why: pin.why.clone(), at: time(pin.at) }
    }
}

impl Stream {
    /// A stream as it is shown.
    pub fn of(fleet: &Fleet, name: &StreamName, stream: &StreamRecord) -> Self {
        let held = retention::kept(stream);
        let shown = |head: &Head| Release::of(name, &head.release, None);
        let kept = |head: &Head| Kept {
            release: shown(head),
            held_by: held
                .get(&head.release.revision)
                .map(|why| why.iter().map(Keep::to_string).collect())
                .unwrap_or_default(),
        };
        Self {
            stream: name.clone(),
            settings: (*stream.settings).clone(),
            latest: stream.latest.as_ref().map(|latest| latest.revision),
            deployed: stream.deployed.as_deref().map(shown),
            canary: stream.canary.as_deref().map(|head| trial(fleet, name, stream, head)),
            pending: stream.pending.iter().map(shown).collect(),
            kept: stream.kept.iter().map(kept).collect(),
            pins: stream.pins.iter().map(|(compute, pin)| (compute.clone(), pin.into())).collect(),
            running: stream.running.iter().map(|(tag, running)| (tag.clone(), running.count)).collect(),
            storage_below: below::below(fleet, name).into_iter().map(StorageBelow::from).collect(),
        }
    }
}

fn trial(fleet: &Fleet, name: &StreamName, stream: &StreamRecord, head: &Head) -> Trial {
    let count = canary::counted(fleet, name, stream);
    Trial {
        release: Release::of(name, &head.release, None),
        fraction: head.fraction,
        successes: count.successes,
        failures: count.failures,
    }
}

/// Which release a compute starts with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Start {
    /// The compute.
    pub compute_id: ComputeId,
    /// The release's revision.
    pub revision: ReleaseRevision,
    /// Its version.
    pub version: ReleaseVersion,
    /// Its tag.
    pub tag: ReleaseTag,
    /// Why that one: pinned, canary or deployed.
    pub because: String,
}

/// Why a release does not move further.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waits {
    /// Which.
    pub revision: ReleaseRevision,
    /// Its tag.
    pub tag: ReleaseTag,
    /// Its status.
    pub status: ReleaseStatus,
    /// Why it has this status, where that is not obvious.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Every reason; empty = it is about to move, or has nothing to wait for.
    pub reasons: Vec<WaitingFor>,
}

impl Waits {
    /// A release with what it waits for.
    pub fn of(release: &ComputeRelease, reasons: Vec<WaitingFor>) -> Self {
        Self {
            revision: release.revision,
            tag: release.tag.clone(),
            status: release.status,
            because: Some(release.because.clone()).filter(|because| !because.is_empty()),
            reasons,
        }
    }
}

/// The settings of a compute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// Whose manifest counts.
    pub revision: ReleaseRevision,
    /// Its tag.
    pub tag: ReleaseTag,
    /// The settings, by name.
    pub settings: BTreeMap<String, Setting>,
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// Its value.
    pub value: String,
    /// The layer that it came from: static, common, version-common, version-replica, override or dynamic.
    pub layer: String,
    /// The values of lower layers that it replaced, the lowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<Replaced>,
}

/// A value that a higher layer replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Replaced {
    /// The value.
    pub value: String,
    /// Its layer.
    pub layer: String,
}

impl From<settings::Setting> for Setting {
    fn from(setting: settings::Setting) -> Self {
        let replaced = setting.replaced.into_iter();
        Self {
            value: setting.value,
            layer: setting.from.word().to_owned(),
            replaced: replaced
                .map(|(layer, value)| Replaced { value, layer: layer.word().to_owned() })
                .collect(),
        }
    }
}

/// What main traffic should go to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pointer {
    /// The stream.
    pub stream: StreamName,
    /// The tag of what is deployed.
    pub tag: ReleaseTag,
    /// Its version.
    pub version: ReleaseVersion,
    /// Its revision.
    pub revision: ReleaseRevision,
}

impl Pointer {
    /// To what is deployed in a stream.
    pub fn to(stream: &StreamName, deployed: &Head) -> Self {
        let release = &deployed.release;
        Self {
            stream: stream.clone(),
            tag: release.tag.clone(),
            version: release.version,
            revision: release.revision,
        }
    }
}
