//! The verdict of a gate job on one upgrade tag, between two artifacts. The one that was recorded last counts.

use super::evidence::{Earlier, Verdict};
use super::{Body, Timestamp};
use crate::Digest;
use serde::{Deserialize, Serialize};

/// A verdict. Service, tag and both artifacts are in its key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GateVerdict {
    /// What was found.
    pub verdict: Verdict,
    /// The sha256 of the gate's report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Digest>,
    /// How, where and with what figures, in a line.
    #[serde(default)]
    pub note: String,
    /// Who recorded it.
    pub who: String,
    /// When it was recorded.
    pub at: Timestamp,
    /// The verdicts before it, the newest first: at most [`KEPT`](super::evidence::KEPT). Absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Earlier>,
}

impl From<GateVerdict> for Vec<Earlier> {
    fn from(gate: GateVerdict) -> Self {
        let GateVerdict { verdict, report, note, who, at, earlier } = gate;
        [vec![Earlier { verdict, sha256: report, note, who, at }], earlier].concat()
    }
}

impl Body for GateVerdict {
    const SCHEMA: u32 = 1;
}
