//! The verdict of a compatibility run of a compute tag against a storage tag. The one that was recorded last counts.

use super::{Body, Timestamp};
use crate::Digest;
use crate::word::words;
use serde::{Deserialize, Serialize};

/// A verdict.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Evidence {
    /// What was found.
    pub verdict: Verdict,
    /// How, where and with what figures, in a line.
    #[serde(default)]
    pub note: String,
    /// The sha256 of the run's log; absent in records of earlier versions, and where none was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<Digest>,
    /// Who ran it.
    pub who: String,
    /// When it was reported.
    pub at: Timestamp,
    /// The verdicts before it, the newest first: at most [`KEPT`]. Absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Earlier>,
}

impl Body for Evidence {
    const SCHEMA: u32 = 1;
}

impl From<Evidence> for Vec<Earlier> {
    fn from(evidence: Evidence) -> Self {
        let Evidence { verdict, note, log, who, at, earlier } = evidence;
        [vec![Earlier { verdict, sha256: log, note, who, at }], earlier].concat()
    }
}

/// How many earlier verdicts a record keeps; the history of the fleet has those before them.
pub const KEPT: usize = 20;

/// A verdict on a pair of versions that a later one on the same pair has replaced.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Earlier {
    /// What was found.
    pub verdict: Verdict,
    /// The sha256 of the run's log or report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Digest>,
    /// How, where and with what figures, in a line.
    #[serde(default)]
    pub note: String,
    /// Who recorded it.
    pub who: String,
    /// When it was recorded.
    pub at: Timestamp,
}

impl Earlier {
    /// What a record keeps of `known`, its former verdicts, when `self` is recorded. A verdict that is recorded again with the
    /// same digest, note and name (an answer was lost) is one verdict.
    pub fn after(&self, mut known: Vec<Self>) -> Vec<Self> {
        let is_same = |former: &Self| Self { at: self.at, ..former.clone() } == *self;
        if known.first().is_some_and(is_same) {
            known.remove(0);
        }
        known.truncate(KEPT);
        known
    }
}

/// What a compatibility run found.
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
pub enum Verdict {
    /// They work together.
    Pass,
    /// They do not.
    Fail,
    /// The result is not known. That is no pass.
    Inconclusive,
}

words!(Verdict, NotAVerdict, "{0:?} is not a verdict: pass, fail or inconclusive is allowed");
