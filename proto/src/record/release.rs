//! One compute release: what was asked for, and what became of it. Its manifest is kept apart, by its digest, because
//! it never changes and is not needed to decide.

use super::{Body, Timestamp, upgrade::Decision};
use crate::compute::{Canary, EvidenceRule, ReleaseRevision, ReleaseVersion};
use crate::{Branch, Digest, GroupLabel, ReleaseTag, ServiceName, ServiceVersion, StreamName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A compute release. Only `status`, `because`, `approved` and `deployed_at` ever change.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ComputeRelease {
    /// Its place in the stream.
    pub revision: ReleaseRevision,
    /// The version of the image.
    pub version: ReleaseVersion,
    /// The tag of the image.
    pub tag: ReleaseTag,
    /// The branch that it was cut from.
    pub branch: Branch,
    /// The lowest version of each storage service that it can work with.
    #[serde(default)]
    pub requires: BTreeMap<ServiceName, ServiceVersion>,
    /// Whether a compatibility run must have passed.
    #[serde(default)]
    pub evidence: EvidenceRule,
    /// How it is tried on a share of starts first, where its request said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// To which grouped stream it was posted, where its own is a line of one; none also where that was not kept yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub posted: Option<Posted>,
    /// The digest of its manifest: the key under which that is stored.
    pub manifest: Digest,
    /// The digest of the whole body: another request with this one asks for the same.
    pub digest: Digest,
    /// The revision whose body this is, where it came to be by a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_of: Option<ReleaseRevision>,
    /// What became of it.
    pub status: ReleaseStatus,
    /// Why its status is what it is, where that needs saying.
    #[serde(default)]
    pub because: String,
    /// Who created it.
    pub by: String,
    /// When.
    pub created_at: Timestamp,
    /// The approval, once given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<Decision>,
    /// When it was deployed; it stays when it is superseded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployed_at: Option<Timestamp>,
}

/// What a release of a line was posted as: from this another region finds the line by its own grouping.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Posted {
    /// The grouped stream.
    pub to: StreamName,
    /// The pull request that it was built for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<GroupLabel>,
    /// The group that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupLabel>,
}

impl Body for ComputeRelease {
    const SCHEMA: u32 = 1;
}

/// What became of a compute release (machine 3 of the design; its moves are the planner's).
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseStatus {
    /// It waits, with reasons.
    Pending,
    /// A share of starts uses it.
    Canary,
    /// New computes start with it. One of a stream at a time.
    Deployed,
    /// A newer one was deployed.
    Superseded,
    /// It did not become available, or its canary failed.
    Error,
    /// It is being removed, or was.
    Deprecated,
}

impl ReleaseStatus {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Canary, Self::Deployed, Self::Superseded, Self::Error, Self::Deprecated];

    /// The word for it.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// Where the latest revision of a tag is. A tag belongs to one version for ever.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TagRecord {
    /// The latest revision with this tag.
    pub revision: ReleaseRevision,
    /// The version of the image.
    pub version: ReleaseVersion,
}

impl Body for TagRecord {
    const SCHEMA: u32 = 1;
}
