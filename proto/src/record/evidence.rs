//! The verdict of a compatibility run of a compute tag against a storage tag. The last word stands.

use super::{Body, Timestamp};
use crate::Digest;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

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
    /// When it was told.
    pub at: Timestamp,
}

impl Body for Evidence {
    const SCHEMA: u32 = 1;
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
)]
#[strum(serialize_all = "kebab-case")]
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
        self.into()
    }
}

impl FromStr for Verdict {
    type Err = NotAVerdict;
    fn from_str(text: &str) -> Result<Self, NotAVerdict> {
        [Self::Pass, Self::Fail, Self::Inconclusive]
            .into_iter()
            .find(|verdict| verdict.word() == text)
            .ok_or_else(|| NotAVerdict(text.chars().take(40).collect()))
    }
}

/// A text that is no verdict.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a verdict: pass, fail or inconclusive is allowed")]
pub struct NotAVerdict(String);
