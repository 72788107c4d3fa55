//! What the floor of a service must not fall below, because a compute release in canary, deployed, pinned or still
//! run needs it. Deploying writes it and compares the floor; lowering a floor writes the floor and compares it.

use super::Body;
use crate::compute::{ReleaseRevision, ReleaseVersion};
use crate::{ReleaseTag, ServiceVersion, StreamName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The needs of all streams for one service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Need {
    /// Each stream writes its own; a stream that needs nothing has none.
    #[serde(default)]
    pub streams: BTreeMap<StreamName, Holder>,
}

impl Body for Need {
    const SCHEMA: u32 = 1;
}

impl Need {
    /// The highest, and whose it is.
    pub fn highest(&self) -> Option<(&StreamName, &Holder)> {
        self.streams.iter().max_by_key(|(_, holder)| holder.minimum)
    }
}

/// Who needs the most of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holder {
    /// The lowest version that it can work with.
    pub minimum: ServiceVersion,
    /// The release.
    pub revision: ReleaseRevision,
    /// Its tag.
    pub tag: ReleaseTag,
    /// Its version.
    pub version: ReleaseVersion,
    /// What it is held by.
    pub hold: Hold,
}

/// What makes a release's need count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hold {
    /// It is deployed.
    Deployed,
    /// It is in canary.
    Canary,
    /// A compute is pinned to it.
    Pinned,
    /// Computes still run it.
    Running,
}

impl Hold {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Deployed => "deployed",
            Self::Canary => "in canary",
            Self::Pinned => "pinned",
            Self::Running => "still run",
        }
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
