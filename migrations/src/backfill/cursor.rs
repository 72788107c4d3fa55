//! The position of a walk, as recorded in the history.

use crate::database::Value;
use serde::{Deserialize, Serialize};

/// A key of the walked table. PostgreSQL's are text, cast back where they are used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Key {
    #[serde(rename = "int")]
    Int(i64),
    #[serde(rename = "text")]
    Text(String),
}

impl Key {
    pub(super) fn value(&self) -> Value {
        match self {
            Key::Int(n) => Value::Int(*n),
            Key::Text(t) => Value::Text(t.clone()),
        }
    }

    /// None for null.
    pub(super) fn of(value: &Value) -> Option<Key> {
        match value {
            Value::Null => None,
            Value::Int(n) => Some(Key::Int(*n)),
            Value::Text(t) => Some(Key::Text(t.clone())),
        }
    }
}

/// The walk from nothing to `until`, now behind `after`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cursor {
    pub after: Option<Key>,
    pub until: Option<Key>,
    pub ended: bool,
}

impl Cursor {
    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("keys are integers and text, which json has")
    }

    pub(super) fn parse(text: &str) -> Option<Cursor> {
        serde_json::from_str(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_the_history() {
        let cursor = Cursor {
            after: Some(Key::Text("it's \"é\"".into())),
            until: Some(Key::Int(i64::MAX)),
            ended: false,
        };
        assert_eq!(Cursor::parse(&cursor.to_text()), Some(cursor));
        assert_eq!(Cursor::parse("{}"), None);
    }
}
