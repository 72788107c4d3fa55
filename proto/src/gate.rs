//! Gate jobs: the tags that they judge, and the artifacts that a verdict is about.

use crate::word::words;
use crate::{Digest, Release, ServiceName, ServiceVersion};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An upgrade tag that a gate job judges.
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
    strum::VariantArray,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum GateTag {
    /// The upgrade completes, and what was stored is there afterwards.
    SupportsUpgrade,
    /// Old and new instances serve beside each other.
    Rolling,
    /// No request fails.
    ZeroDowntime,
    /// No statistically significant latency outliers.
    ZeroImpact,
}

impl GateTag {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::SupportsUpgrade, Self::Rolling, Self::ZeroDowntime, Self::ZeroImpact];
}

words!(
    GateTag,
    NotAGateTag,
    "{0:?} is not an upgrade tag: supports-upgrade, rolling, zero-downtime and zero-impact are"
);

/// One of the two artifacts of an upgrade. In a key: `<version>-<sha256>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Artifact {
    /// The service version that it carries. It distinguishes artifacts that are declared to have no digest.
    pub version: ServiceVersion,
    /// Its sha256; [`Digest::ABSENT`] where it was declared that there is none.
    pub sha256: Digest,
}

/// What a verdict is about: a tag of the upgrade of a service from one artifact to another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GateHop {
    /// The service.
    pub service: ServiceName,
    /// The upgrade tag.
    pub tag: GateTag,
    /// The artifact that is replaced.
    pub from: Artifact,
    /// The artifact that replaces it.
    pub to: Artifact,
}

impl GateHop {
    /// Reads the names that are written in a key.
    pub(crate) fn of_names(names: &[&str]) -> Option<Self> {
        let [service, tag, from, to] = names else { return None };
        Some(Self {
            service: service.parse().ok()?,
            tag: tag.parse().ok()?,
            from: from.parse().ok()?,
            to: to.parse().ok()?,
        })
    }
}

/// As in a key: `<service>/<tag>/<from>/<to>`.
impl fmt::Display for GateHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, tag, from, to } = self;
        write!(f, "{service}/{tag}/{from}/{to}")
    }
}

impl From<&Release> for Artifact {
    fn from(release: &Release) -> Self {
        Self { version: release.version, sha256: release.sha256 }
    }
}

impl fmt::Display for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.version, self.sha256)
    }
}

/// A text that names no artifact.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not VERSION-SHA256")]
pub struct NotAnArtifact(String);

impl FromStr for Artifact {
    type Err = NotAnArtifact;
    fn from_str(text: &str) -> Result<Self, NotAnArtifact> {
        let parts = text.split_once('-');
        parts
            .and_then(|(version, sha256)| {
                Some(Self { version: version.parse().ok()?, sha256: sha256.parse().ok()? })
            })
            .ok_or_else(|| NotAnArtifact(text.chars().take(80).collect()))
    }
}
