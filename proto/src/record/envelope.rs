//! Reading a record in one pass: the fields of the body go to the body as they come, the others are kept. Serde's own
//! `flatten` would hold everything in between, at twice the time.

use super::{Body, Record};
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};
use std::fmt;
use std::marker::PhantomData;

/// The field that the envelope itself has.
const SCHEMA: &str = "schema";

/// Reads a record with its body.
pub(super) struct Envelope<T>(pub(super) PhantomData<T>);

impl<'de, T: Body> DeserializeSeed<'de> for Envelope<T> {
    type Value = Record<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Record<T>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: Body> Visitor<'de> for Envelope<T> {
    type Value = Record<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Record<T>, A::Error> {
        let (mut schema, mut unknown) = (None, Map::new());
        let body = T::deserialize(Fields { map, known: &[], schema: &mut schema, unknown: &mut unknown })?;
        let schema = schema.ok_or_else(|| A::Error::missing_field(SCHEMA))?;
        let unknown = (!unknown.is_empty()).then(|| Box::new(unknown));
        Ok(Record { body, schema, unknown })
    }
}

/// The fields of a record, as its body is shown them: those that it knows.
struct Fields<'a, A> {
    map: A,
    known: &'static [&'static str],
    schema: &'a mut Option<u32>,
    unknown: &'a mut Map<String, Value>,
}

impl<'de, A: MapAccess<'de>> Deserializer<'de> for Fields<'_, A> {
    type Error = A::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.known = fields;
        visitor.visit_map(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, A::Error> {
        Err(A::Error::custom("the body of a record has named fields"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(field) = self.map.next_key_seed(FieldName(self.known))? {
            match field {
                Field::Known(name) => {
                    let name: StrDeserializer<'_, A::Error> = name.into_deserializer();
                    return seed.deserialize(name).map(Some);
                }
                Field::Schema if self.schema.is_some() => return Err(A::Error::duplicate_field(SCHEMA)),
                Field::Schema => *self.schema = Some(self.map.next_value()?),
                Field::Unknown(name) => drop(self.unknown.insert(name, self.map.next_value()?)),
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

enum Field {
    Schema,
    Known(&'static str),
    Unknown(String),
}

/// Reads the name of a field; the names that the body knows are here.
struct FieldName(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for FieldName {
    type Value = Field;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Field, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for FieldName {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Field, E> {
        Ok(match self.0.iter().find(|known| **known == name) {
            _ if name == SCHEMA => Field::Schema,
            Some(known) => Field::Known(known),
            None => Field::Unknown(name.to_owned()),
        })
    }
}
