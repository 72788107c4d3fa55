//! Names of tables, columns and indexes.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A plain SQL name: `[a-z_][a-z0-9_]*`, at most 63 bytes (PostgreSQL's limit).
///
/// Generated SQL always quotes it; as it has no capitals, quoted and unquoted mean the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// A text that is no plain name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a name: `{0}`; allowed are lower-case letters, digits and _, not starting with a digit, at most 63"
)]
pub struct InvalidName(String);

impl Name {
    /// As text, unquoted.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Name {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        let plain =
            |(at, c): (usize, char)| c == '_' || c.is_ascii_lowercase() || (at > 0 && c.is_ascii_digit());
        let fits = !text.is_empty() && text.len() <= 63 && text.chars().enumerate().all(plain);
        if fits { Ok(Name(text)) } else { Err(InvalidName(text)) }
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.0
    }
}

/// A name that may be qualified, each part quoted: `"app"."things"`.
pub(crate) fn quoted(name: &str) -> String {
    name.split('.').map(|part| format!("\"{part}\"")).collect::<Vec<_>>().join(".")
}

/// Quoted, as in generated SQL.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}
