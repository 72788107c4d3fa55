//! A release stream: how it is run, and those of its releases that anything may still happen to. Every change of a
//! stream compares and rewrites this one record, so that two of them never happen at once. What has an end is in
//! `releases/` only.

use super::{Body, Timestamp, release::ComputeRelease};
use crate::compute::{Canary, EvidenceRule, Fraction, ReleaseRevision, ReleaseVersion};
use crate::{Branch, ComputeId, Digest, HookName, NodeId, ReleaseTag, ServiceName, ServiceVersion, Span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A release stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stream {
    /// How it is run.
    #[serde(default)]
    pub settings: Box<StreamSettings>,
    /// The latest revision, whatever became of it; none = none was ever created. Revisions are counted from here.
    pub latest: Option<Latest>,
    /// The highest version that each branch has had; at most [`MAX_BRANCHES`].
    #[serde(default)]
    pub branches: BTreeMap<Branch, ReleaseVersion>,
    /// What new computes start with.
    pub deployed: Option<Box<Head>>,
    /// What a share of new computes starts with.
    pub canary: Option<Box<Head>>,
    /// What waits, oldest first; at most [`MAX_PENDING`].
    #[serde(default)]
    pub pending: Vec<Head>,
    /// What was superseded and can still be gone back to, or is being removed, oldest first; at most [`MAX_KEPT`].
    #[serde(default)]
    pub kept: Vec<Head>,
    /// Computes that start with a release of their own; at most [`MAX_PINS`].
    #[serde(default)]
    pub pins: BTreeMap<ComputeId, Pin>,
    /// How many computes run each tag, as last reported; at most [`MAX_RUNNING_TAGS`].
    #[serde(default)]
    pub running: BTreeMap<ReleaseTag, Running>,
    /// Whether the settings had a removal hook before: the image of a collected release may be removed, although the
    /// settings have none now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed_images: bool,
}

impl Body for Stream {
    const SCHEMA: u32 = 1;
}

/// The most branches of one stream: the record stays below its limit of 1 MiB.
pub const MAX_BRANCHES: usize = 100;
/// The most releases of one stream that wait.
pub const MAX_PENDING: usize = 32;
/// The most superseded releases of one stream that are kept.
pub const MAX_KEPT: usize = 64;
/// The most pins of one stream.
pub const MAX_PINS: usize = 200;
/// The most tags of one stream that computes run.
pub const MAX_RUNNING_TAGS: usize = 200;
/// The most services that one release can require.
pub const MAX_REQUIRES: usize = 16;
/// The most nodes that a hook names.
pub const MAX_HOOK_NODES: usize = 50;
/// The largest manifest, in bytes of its canonical form.
pub const MAX_MANIFEST_BYTES: usize = 512 * 1024;

impl Stream {
    /// Every release that anything may still happen to.
    pub fn heads(&self) -> impl Iterator<Item = &Head> {
        let single = self.deployed.as_deref().into_iter().chain(self.canary.as_deref());
        single.chain(&self.pending).chain(&self.kept)
    }

    /// One of them.
    pub fn head(&self, revision: ReleaseRevision) -> Option<&Head> {
        self.heads().find(|head| head.release.revision == revision)
    }

    /// The one with this tag, the latest where there are several.
    pub fn head_of(&self, tag: &ReleaseTag) -> Option<&Head> {
        self.heads().filter(|head| head.release.tag == *tag).max_by_key(|head| head.release.revision)
    }

    /// The latest one with this tag that computes started with, or may have.
    pub fn head_that_went_out(&self, tag: &ReleaseTag) -> Option<&Head> {
        let was_canary = |head: &Head| head.fraction.is_some() || head.canary_ms > 0;
        let went_out = |head: &&Head| head.release.deployed_at.is_some() || was_canary(head);
        let of_tag = self.heads().filter(|head| head.release.tag == *tag);
        of_tag.filter(went_out).max_by_key(|head| head.release.revision)
    }
}

/// The latest revision of a stream, and what it is recognised by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Latest {
    /// The revision.
    pub revision: ReleaseRevision,
    /// The digest of its body.
    pub digest: Digest,
}

/// A release that anything may still happen to, with its counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Head {
    /// The release, as it is under its own key.
    pub release: ComputeRelease,
    /// Of how many starts, while it is in canary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<Fraction>,
    /// Whether the places of computes in this canary are salted with stream and revision. Absent = no: it began before
    /// places were salted, and its share stays as it was.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub salted: bool,
    /// Whether it answers, as last reported; none = not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<bool>,
    /// Whether nothing but its availability holds it: then `trial_ms` counts.
    #[serde(default)]
    pub on_trial: bool,
    /// Milliseconds that it has answered without a break, as last stored.
    #[serde(default)]
    pub available_ms: u64,
    /// Milliseconds on trial, as last stored.
    #[serde(default)]
    pub trial_ms: u64,
    /// Milliseconds in canary, as last stored.
    #[serde(default)]
    pub canary_ms: u64,
    /// Milliseconds since it was superseded, as last stored.
    #[serde(default)]
    pub superseded_ms: u64,
    /// How often an operator had it tried again, or named another hook for it: hooks then run again.
    #[serde(default)]
    pub attempt: u32,
    /// Of a rollback that waits: whether it goes out without a prewarm, as soon as no agent can begin to remove its
    /// image.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
}

impl Head {
    /// A head that nothing was counted of yet.
    pub fn new(release: ComputeRelease) -> Self {
        Self {
            release,
            fraction: None,
            salted: false,
            available: None,
            on_trial: false,
            available_ms: 0,
            trial_ms: 0,
            canary_ms: 0,
            superseded_ms: 0,
            attempt: 0,
            at_once: false,
        }
    }

    /// Of one that waits or has failed: whether it is a rollback, which waits for storage and its image alone.
    pub fn returns(&self) -> bool {
        self.release.rollback_of.is_some()
    }
}

/// A compute that starts with a release of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pin {
    /// Which one.
    pub revision: ReleaseRevision,
    /// Who pinned it.
    pub who: String,
    /// Why.
    pub why: String,
    /// When.
    pub at: Timestamp,
}

/// How many computes run a tag.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Running {
    /// How many.
    pub count: u64,
    /// The latest revision of the tag; none = an image that was never released here.
    pub revision: Option<ReleaseRevision>,
    /// Its version.
    pub version: Option<ReleaseVersion>,
    /// What it requires.
    #[serde(default)]
    pub requires: BTreeMap<ServiceName, ServiceVersion>,
}

impl Running {
    /// So many computes, of a tag that this release has; none = an image that was never released here.
    pub fn of(count: u64, release: Option<&ComputeRelease>) -> Self {
        Self {
            count,
            revision: release.map(|release| release.revision),
            version: release.map(|release| release.version),
            requires: release.map(|release| release.requires.clone()).unwrap_or_default(),
        }
    }
}

/// How a stream is run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StreamSettings {
    /// What goes out by itself.
    #[serde(default)]
    pub strategy: StreamStrategy,
    /// Whether a person must approve each release.
    #[serde(default)]
    pub approval: ApprovalRule,
    /// Whether every release needs evidence.
    #[serde(default)]
    pub evidence: EvidenceRule,
    /// How releases that say nothing themselves are tried first; absent = they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
    /// When a release counts as available; absent = it is not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability: Option<Availability>,
    /// What must succeed on named nodes before a release goes out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prewarm: Option<NodeHook>,
    /// What removes the image of a release that is no longer kept; absent = only the record says that it may be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removal: Option<NodeHook>,
    /// How many releases are kept in any case, counting the deployed one. Heighliner: 3.
    #[serde(default = "three")]
    pub minimum_available: u32,
    /// How long a superseded release is kept in any case.
    #[serde(default)]
    pub rollback_window: Span,
    /// Which stream a release belongs to that is posted to this one.
    #[serde(default)]
    pub grouping: Grouping,
}

fn three() -> u32 {
    3
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            strategy: StreamStrategy::default(),
            approval: ApprovalRule::default(),
            evidence: EvidenceRule::default(),
            canary: None,
            availability: None,
            prewarm: None,
            removal: None,
            minimum_available: three(),
            rollback_window: Span::default(),
            grouping: Grouping::default(),
        }
    }
}

/// What goes out by itself. Both may be set; `manual` wins.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StreamStrategy {
    /// The latest that its gates let through.
    #[serde(default = "yes")]
    pub latest: bool,
    /// This tag, and nothing else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manual: Option<ReleaseTag>,
}

fn yes() -> bool {
    true
}

impl Default for StreamStrategy {
    fn default() -> Self {
        Self { latest: true, manual: None }
    }
}

/// Whether a person must approve each release.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalRule {
    /// No.
    #[default]
    None,
    /// Yes.
    Required,
}

/// When a release counts as available.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Availability {
    /// How long it must have answered without a break.
    pub min_healthy_time: Span,
    /// By when, counted while nothing else holds it; then it has failed.
    pub healthy_deadline: Span,
}

/// A named hook that is run on named nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NodeHook {
    /// The hook, as the nodes' own configuration defines it.
    pub hook: HookName,
    /// The nodes; all of them must succeed. At most [`MAX_HOOK_NODES`].
    pub nodes: Vec<NodeId>,
}

/// Which stream a release belongs to that is posted to this one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Grouping {
    /// This one.
    #[default]
    None,
    /// `<stream>-<line>`, by the semantic version in its tag.
    Semver(SemverLevel),
    /// `<stream>-pr-<pull request>`.
    PullRequest,
    /// `<stream>-<group>`.
    Name,
}

/// What a line of versions has in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SemverLevel {
    /// The major number: `1.x`.
    Major,
    /// Major and minor: `1.2.x`.
    Minor,
    /// All three: `1.2.3`.
    Patch,
}
