//! Everything that is wrong with a document, each with its place.
//!
//! A reader stops at the first thing that it does not understand. Here that is noted, put right in a copy, and the copy
//! read again: an unknown field is removed, a value of the wrong kind and a missing field are taken from an example.

use super::message::{Message, short};
use super::yaml_with;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::Value as Json;
use serde_path_to_error::{Path, Segment};
use serde_saphyr::{Location, Spanned};
use std::fmt;

/// How many findings are listed.
const MOST: usize = 50;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The line, from 1; 0 = not known.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// What was found, and what is allowed.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, what } = self;
        if *line == 0 { f.write_str(what) } else { write!(f, "{line}:{column}: {what}") }
    }
}

/// A document with the place of each part.
pub struct Located {
    tree: Node,
}

/// A value, with where it and its key begin.
struct Node {
    at: Location,
    value: Value,
}

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
        let mut copy = self.tree.json();
        let mut findings: Vec<Finding> = Vec::new();
        while findings.len() < MOST {
            let Err((path, message)) = typed::<T>(&copy.to_string()) else { break };
            let value = shown(at(&copy, &path));
            let named = message.field().filter(|named| path.last().is_none_or(|last| last != named));
            let named = named.map(str::to_owned);
            let path: Vec<String> = path.into_iter().chain(named).collect();
            let finding = self.finding(&path.join("."), message.words(&value));
            if findings.contains(&finding) {
                break;
            }
            findings.push(finding);
            let unknown = matches!(message, Message::Unknown { .. });
            if !put_right(&mut copy, &path, if unknown { None } else { Some(example) }) {
                break;
            }
        }
        findings.sort_by_key(|finding| (finding.line, finding.column));
        findings
    }
}

/// Reads the form; an error with the path at which it was found.
fn typed<T: DeserializeOwned>(text: &str) -> Result<T, (Vec<String>, Message)> {
    let mut path = Vec::new();
    let read = yaml_with(text, |deserializer| {
        serde_path_to_error::deserialize::<_, T>(deserializer).map_err(|error| {
            path = names(error.path());
            error.into_inner()
        })
    });
    read.map_err(|error| (path, Message::of(&error)))
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

/// A value of which only the place is known.
const HERE: &str = "what is here";

fn names(path: &Path) -> Vec<String> {
    let name = |segment: &Segment| match segment {
        Segment::Map { key } => Some(key.clone()),
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    path.iter().filter_map(name).collect()
}

/// Takes what is at `path` from the example, or removes it where that has none; whether anything changed.
fn put_right(copy: &mut Json, path: &[String], example: Option<&Json>) -> bool {
    let Some((last, above)) = path.split_last() else { return false };
    let below = |value: &Json, name: &String| value.get(name).cloned();
    let instead =
        example.and_then(|example| path.iter().try_fold(example.clone(), |at, name| below(&at, name)));
    let at = above.iter().try_fold(copy, |at, name| match at {
        Json::Object(fields) => fields.get_mut(name),
        Json::Array(items) => items.get_mut(name.parse::<usize>().ok()?),
        _ => None,
    });
    match (at, instead) {
        (Some(Json::Object(fields)), Some(instead)) => {
            fields.insert(last.clone(), instead.clone()).as_ref() != Some(&instead)
        }
        (Some(Json::Object(fields)), None) => fields.shift_remove(last).is_some(),
        (Some(Json::Array(items)), _) => {
            last.parse().ok().filter(|n| *n < items.len()).map(|n: usize| items.remove(n)).is_some()
        }
        _ => false,
    }
}

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
