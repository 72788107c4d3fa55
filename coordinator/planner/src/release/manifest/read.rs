//! Reading a manifest from YAML or JSON, with the place of what cannot be read.

use crate::document::{self, Finding};
use serde_json::{Map, Value as Json};
use tidegate_proto::record::stream::MAX_MANIFEST_BYTES;

/// A text that is no manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Too large.
    #[error("the manifest has {0} bytes, at most {MAX_MANIFEST_BYTES} are allowed")]
    Oversized(usize),
    /// Not YAML, not JSON, or with two identical keys.
    #[error("the manifest cannot be read: {what} (line {line}, column {column})")]
    Malformed {
        /// What was found.
        what: String,
        /// The line, counted from 1.
        line: u64,
        /// The column, counted from 1.
        column: u64,
    },
    /// Not an object.
    #[error("the manifest is not an object of settings")]
    NotAnObject,
}

/// Reads a manifest in YAML; JSON is YAML too. Two identical keys in one object are refused.
pub fn read(text: &str) -> Result<Json, Unreadable> {
    if text.len() > MAX_MANIFEST_BYTES {
        return Err(Unreadable::Oversized(text.len()));
    }
    if text.trim().is_empty() {
        return Ok(Json::Object(Map::new()));
    }
    let read: Json = document::read(text).map_err(malformed)?;
    if read.is_object() { Ok(read) } else { Err(Unreadable::NotAnObject) }
}

impl From<Unreadable> for Finding {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Malformed { what, line, column } => Self { line, column, what },
            other => Self::without_place(other.to_string()),
        }
    }
}

fn malformed(finding: Finding) -> Unreadable {
    let Finding { line, column, what } = finding;
    Unreadable::Malformed { what, line, column }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unreadable_manifest_is_refused_with_its_place() {
        let place = |text: &str| match read(text) {
            Err(Unreadable::Malformed { line, column, what }) => (line, column, what),
            other => panic!("{text:?}: {other:?}"),
        };
        let (line, column, what) =
            place("pg_settings:\n  common:\n    a: \"1\"\n    b: \"2\"\n    a: \"3\"\n");
        assert_eq!((line, column), (5, 5), "{what}");
        assert_eq!(what, "the key `a` is there twice");
        assert_eq!(place("{\"a\": 1, \"a\": 2}").0, 1, "two identical keys in JSON");
        assert_eq!(place("a: 1\nb: [1, 2\nc: 3\n").0, 3, "an unclosed list");
        assert_eq!(read("- a\n- b\n"), Err(Unreadable::NotAnObject));
        assert_eq!(read(""), Ok(json!({})));
        let large = format!("a: \"{}\"", "x".repeat(MAX_MANIFEST_BYTES));
        assert!(matches!(read(&large), Err(Unreadable::Oversized(_))));
    }
}
