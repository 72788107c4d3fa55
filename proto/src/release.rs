//! What is deployed: a tag, an artifact by its sha256, and the service version that it carries.

use crate::text::{parsed_from_text, written_as_text};
use crate::{Digest, ServiceVersion, name::MAX_NAME_BYTES};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The tag of a release: a validated name, never a path (agents make directories of it).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReleaseTag(smol_str::SmolStr);

parsed_from_text!(ReleaseTag);
written_as_text!(ReleaseTag);

/// A text that is no release tag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a release tag: 1 to {MAX_NAME_BYTES} of a-z A-Z 0-9 . _ + - are allowed, beginning with a letter or digit"
)]
pub struct NotATag(String);

impl ReleaseTag {
    /// The tag as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ReleaseTag {
    type Err = NotATag;
    fn from_str(text: &str) -> Result<Self, NotATag> {
        let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let rest = text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'+' | b'-'));
        if first && rest && text.len() <= MAX_NAME_BYTES {
            return Ok(Self(text.into()));
        }
        Err(NotATag(text.chars().take(MAX_NAME_BYTES).collect()))
    }
}

impl TryFrom<String> for ReleaseTag {
    type Error = NotATag;
    fn try_from(text: String) -> Result<Self, NotATag> {
        text.parse()
    }
}

impl From<ReleaseTag> for String {
    fn from(tag: ReleaseTag) -> String {
        tag.0.to_string()
    }
}

impl fmt::Display for ReleaseTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A release of one service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Release {
    /// Its tag.
    pub tag: ReleaseTag,
    /// The sha256 of its artifact; an agent refuses an artifact with another one.
    pub sha256: Digest,
    /// The service version that it carries.
    pub version: ServiceVersion,
}
