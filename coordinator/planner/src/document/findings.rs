//! Everything that is wrong with a document, each with its place.

use super::message::{Message, short};
use super::yaml_with;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::Value as Json;
use serde_saphyr::{Location, Spanned};
use std::fmt;
use tidegate_proto::form::{self, Finding, Flaw};

/// A document with the place of each part.
#[derive(Debug)]
pub struct Located {
    tree: Node,
}

/// A value, with where it and its key begin.
#[derive(Debug)]
struct Node {
    at: Location,
    value: Value,
}

#[derive(Debug)]
enum Value {
    Scalar(Json),
    List(Vec<Node>),
    Map(Vec<(String, Location, Node)>),
}

impl Located {
    /// Reads the places of a document.
    ///
    /// # Errors
    /// Where the text is not YAML.
    pub fn of(text: &str) -> Result<Self, Finding> {
        let located = yaml_with(text, |deserializer| Node::deserialize(deserializer));
        located.map(|tree| Self { tree }).map_err(|error| found(&error))
    }

    /// Where a field is, such as `health.healthy_deadline` or `steps.0.name`; where it is missing, the part that lacks it.
    pub fn finding(&self, field: &str, what: impl Into<String>) -> Finding {
        let (mut node, mut at) = (&self.tree, self.tree.at);
        for name in field.split('.') {
            let found = match &node.value {
                Value::Map(entries) => {
                    entries.iter().find(|(key, ..)| key == name).map(|(_, key, below)| (below, *key))
                }
                Value::List(items) => {
                    name.parse::<usize>().ok().and_then(|n| items.get(n)).map(|item| (item, item.at))
                }
                Value::Scalar(_) => None,
            };
            let Some(found) = found else { break };
            (node, at) = found;
        }
        let what = match field {
            "" => what.into(),
            field => format!("{field}: {}", what.into()),
        };
        Finding { line: at.line(), column: at.column(), what }
    }

    /// Everything in the document that is not of the form `T`; the example is a whole document of that form.
    pub fn flaws_of_form<T: DeserializeOwned>(&self, example: &Json) -> Vec<Finding> {
        let (flaws, _) = form::flaws(self.tree.json(), example, typed::<T>);
        let mut findings: Vec<Finding> =
            flaws.into_iter().map(|flaw| self.finding(&flaw.path.join("."), flaw.what)).collect();
        findings.sort_by_key(|finding| (finding.line, finding.column));
        findings
    }
}

/// Reads the form; an error with the path at which it was found.
fn typed<T: DeserializeOwned>(document: &Json) -> Result<T, Flaw> {
    let mut path = Vec::new();
    let read = yaml_with(&document.to_string(), |deserializer| {
        serde_path_to_error::deserialize::<_, T>(deserializer).map_err(|error| {
            path = form::names(error.path());
            error.into_inner()
        })
    });
    read.map_err(|error| {
        let message = Message::of(&error);
        Flaw { what: message.words(&shown(at(document, &path))), named: message.named(), path }
    })
}

/// What is at `path`.
fn at<'a>(document: &'a Json, path: &[String]) -> Option<&'a Json> {
    path.iter().try_fold(document, |at, name| match at {
        Json::Array(items) => items.get(name.parse::<usize>().ok()?),
        other => other.get(name),
    })
}

/// A value in a message.
fn shown(value: Option<&Json>) -> String {
    match value {
        None => HERE.to_owned(),
        Some(Json::Null) => "an empty value".to_owned(),
        Some(Json::Array(_)) => "a list".to_owned(),
        Some(Json::Object(_)) => "a mapping".to_owned(),
        Some(Json::String(text)) => format!("`{}`", short(text)),
        Some(other) => format!("`{other}`"),
    }
}

/// Replaces a value where only its place is known.
const HERE: &str = "what is here";

/// What a reader of YAML says, in plain words.
pub fn found(error: &serde_saphyr::Error) -> Finding {
    let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
    Finding { line, column, what: Message::of(error).words(HERE) }
}

impl Node {
    fn json(&self) -> Json {
        match &self.value {
            Value::Scalar(scalar) => scalar.clone(),
            Value::List(items) => items.iter().map(Self::json).collect(),
            Value::Map(entries) => {
                Json::Object(entries.iter().map(|(key, _, below)| (key.clone(), below.json())).collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Spanned { value, referenced, .. } = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { at: referenced, value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Scalar(value.into()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Scalar(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Scalar(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Scalar(value.into()))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Scalar(value.into()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Scalar(Json::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            map.push((key.value, key.referenced, entries.next_value()?));
        }
        Ok(Value::Map(map))
    }
}
