//! The verdict of a compatibility run of a compute tag against a storage tag. The last word stands.

use super::{Body, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A verdict.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Evidence {
    /// What was found.
    pub verdict: Verdict,
    /// How, where and with what figures, in a line.
    #[serde(default)]
    pub note: String,
    /// Who ran it.
    pub who: String,
    /// When it was told.
    pub at: Timestamp,
}

impl Body for Evidence {
    const SCHEMA: u32 = 1;
}

/// What a compatibility run found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// They work together.
    Pass,
    /// They do not.
    Fail,
    /// It cannot be told. That is no pass.
    Inconclusive,
}

impl Verdict {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Inconclusive => "inconclusive",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}
