//! What every key begins with.

use super::{Key, Kind, NotAKey};
use crate::name::NodeId;
use std::fmt;
use std::str::FromStr;

/// What separates one region or environment from another in a shared store: `/tidegate` unless configured.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Prefix(String);

/// A text that is no prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a key prefix: it begins with a slash, does not end with one, and has names of a-z A-Z 0-9 . _ - between single slashes"
)]
pub struct NotAPrefix(String);

impl Prefix {
    /// The prefix as text, without a slash at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What every key of this prefix begins with.
    pub fn all(&self) -> String {
        format!("{}/", self.0)
    }

    /// What every key of one kind begins with.
    pub fn all_of(&self, kind: Kind) -> String {
        format!("{}/{}/", self.0, kind.word())
    }

    /// What every key of one kind for one owner (a service, an upgrade, a subject) begins with.
    pub fn all_within(&self, kind: Kind, owner: &str) -> String {
        format!("{}/{}/{owner}/", self.0, kind.word())
    }

    /// The full key, as the store has it.
    pub fn key(&self, key: &Key) -> String {
        format!("{}/{key}", self.0)
    }

    /// Reads a key of the store; none where it is not under this prefix.
    pub fn parse(&self, key: &[u8]) -> Option<Result<Key, NotAKey>> {
        let rest = key.strip_prefix(self.0.as_bytes())?.strip_prefix(b"/")?;
        Some(
            std::str::from_utf8(rest)
                .map_err(|_| NotAKey(String::from_utf8_lossy(rest).into()))
                .and_then(str::parse),
        )
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self("/tidegate".to_owned())
    }
}

impl FromStr for Prefix {
    type Err = NotAPrefix;
    fn from_str(text: &str) -> Result<Self, NotAPrefix> {
        let segments = text.strip_prefix('/').map(|rest| rest.split('/'));
        let good = segments.is_some_and(|mut s| s.all(|name| name.parse::<NodeId>().is_ok()));
        if good { Ok(Self(text.to_owned())) } else { Err(NotAPrefix(text.chars().take(80).collect())) }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
