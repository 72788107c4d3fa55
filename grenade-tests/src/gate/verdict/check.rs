//! What a verdict is made of: a word, what was checked, and what was found.

use serde::{Deserialize, Serialize};
use tidegate_proto::GateTag;

/// What a gate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// All of it was seen to hold.
    Pass,
    /// The result is not known.
    Inconclusive,
    /// It was seen not to hold.
    Fail,
}

impl Word {
    /// As a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Inconclusive => "inconclusive",
            Self::Fail => "fail",
        }
    }
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// What must hold.
    pub check: String,
    /// Whether it does.
    pub verdict: Word,
    /// What was found, with figures.
    pub found: String,
}

impl Check {
    /// Something that was checked.
    pub fn new(check: &str, verdict: Word, found: impl Into<String>) -> Self {
        Self { check: check.to_owned(), verdict, found: found.into() }
    }

    pub(super) fn of(check: &str, tried: Result<String, String>) -> Self {
        match tried {
            Ok(found) => Self::new(check, Word::Pass, found),
            Err(found) => Self::new(check, Word::Fail, found),
        }
    }
}

/// The verdict on one tag: the worst of its checks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TagVerdict {
    /// The tag.
    pub tag: GateTag,
    /// What is said of it.
    pub verdict: Word,
    /// What it rests on.
    pub checks: Vec<Check>,
}

/// The worst of some verdicts; of none, inconclusive.
pub fn worst(verdicts: impl Iterator<Item = Word>) -> Word {
    verdicts.max().unwrap_or(Word::Inconclusive)
}
