//! A document as a reader of forms sees it: its errors have the field that is unknown or missing, beside their text.

use super::{Flaw, Named, names};
use serde::de::value::{Error as Text, MapAccessDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{self, DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value as Json;
use std::fmt;

/// Reads a document of a form.
///
/// # Errors
/// The first flaw.
pub fn read<T: DeserializeOwned>(document: &Json) -> Result<T, Flaw> {
    serde_path_to_error::deserialize(Document(document)).map_err(|error| {
        let path = names(error.path());
        let Unread { what, named } = error.into_inner();
        Flaw { path, what, named }
    })
}

/// Why a document is not of a form.
#[derive(Debug)]
struct Unread {
    what: String,
    named: Option<Named>,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Unread {}

impl de::Error for Unread {
    fn custom<T: fmt::Display>(what: T) -> Self {
        Self { what: what.to_string(), named: None }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let what = Text::unknown_field(field, expected).to_string();
        Self { what, named: Some(Named::Unknown(field.to_owned())) }
    }

    fn missing_field(field: &'static str) -> Self {
        let what = Text::missing_field(field).to_string();
        Self { what, named: Some(Named::Missing(field.to_owned())) }
    }
}

#[derive(Clone, Copy)]
struct Document<'a>(&'a Json);

impl<'de> IntoDeserializer<'de, Unread> for Document<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Document<'de> {
    type Error = Unread;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unread> {
        match self.0 {
            Json::Null => visitor.visit_unit(),
            Json::Bool(value) => visitor.visit_bool(*value),
            Json::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (None, Some(number)) => visitor.visit_i64(number),
                (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => visitor.visit_borrowed_str(text),
            Json::Array(items) => {
                let mut items = SeqDeserializer::<_, Unread>::new(items.iter().map(Document));
                let value = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(value)
            }
            Json::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| (name.as_str(), Document(value)));
                let mut fields = MapDeserializer::<_, Unread>::new(fields);
                let value = visitor.visit_map(&mut fields)?;
                fields.end()?;
                Ok(value)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unread> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Unread> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unread> {
        match self.0 {
            Json::String(variant) => visitor.visit_enum(variant.as_str().into_deserializer()),
            Json::Object(variant) if variant.len() == 1 => {
                let fields = variant.iter().map(|(name, value)| (name.as_str(), Document(value)));
                visitor.visit_enum(MapAccessDeserializer::new(MapDeserializer::new(fields)))
            }
            Json::Object(_) => Err(Unread::invalid_value(Unexpected::Map, &"map with a single key")),
            other => Err(Unread::invalid_type(kind(other), &"string or map")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

fn kind(value: &Json) -> Unexpected<'_> {
    match value {
        Json::Null => Unexpected::Unit,
        Json::Bool(value) => Unexpected::Bool(*value),
        Json::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => Unexpected::Unsigned(number),
            (None, Some(number)) => Unexpected::Signed(number),
            (None, None) => Unexpected::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Unexpected::Str(text),
        Json::Array(_) => Unexpected::Seq,
        Json::Object(_) => Unexpected::Map,
    }
}
