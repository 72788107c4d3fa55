//! A JSON body that a door passes on becomes a type. Two identical keys in one object are refused, as in YAML: one of the
//! two values would be lost without a word.

use super::OperationError;
use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use std::collections::HashSet;
use std::fmt;

/// Reads a body; `what` it is, for errors.
///
/// # Errors
/// `BadInput` with line and column.
pub fn read<T: DeserializeOwned>(what: &str, text: &str) -> Result<T, OperationError> {
    json(text)
        .map_err(|e| OperationError::BadInput(format!("{what} cannot be read: {e}; nothing was changed")))
}

/// Reads JSON in which every key is there once.
///
/// # Errors
/// serde_json's own, with line and column.
pub fn json<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str::<EachKeyOnce>(text)?;
    serde_json::from_str(text)
}

/// Any JSON; its content is discarded.
struct EachKeyOnce;

impl<'de> Deserialize<'de> for EachKeyOnce {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for EachKeyOnce {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self, A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            if keys.contains(&key) {
                return Err(A::Error::custom(format_args!("the key {key:?} is there twice")));
            }
            keys.insert(key);
            entries.next_value::<Self>()?;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value as Json;

    #[test]
    fn a_key_is_there_once_in_each_object_however_deep() {
        let good =
            r#"{"a": {"a": [{"a": 1}, {"a": null, "b": -2, "c": 1e3, "d": "x", "e": true}]}, "b": {"a": 1}}"#;
        assert!(json::<Json>(good).is_ok());
        for (text, expected) in [
            ("{\"a\": 1,\n \"a\": 2}", "the key \"a\" is there twice at line 2 column 4"),
            ("{\"b\": [{\n\"x\": {\"a\": 1, \"\\u0061\": 2}}]}", "the key \"a\" is there twice at line 2"),
            ("{\"a\": 1,\n \"b\" 2}", "expected `:` at line 2 column 6"),
        ] {
            let error = json::<Json>(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
