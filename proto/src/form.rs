//! Everything that is not of its form in a document that people write, each with its place.
//!
//! A reader stops at the first thing that it does not understand. Here that is noted, put right in a copy, and the copy
//! read again: an unknown field is removed, a value of the wrong kind and a missing field are taken from an example.

use serde_json::Value as Json;
use serde_path_to_error::{Path, Segment};
use std::fmt;

/// How many flaws are listed.
pub const MOST: usize = 50;

/// The placeholder for any name in an example.
pub const ANY_NAME: &str = "*";

/// One thing that is wrong with a document, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The line, from 1; 0 = not known.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// What was found, and what is allowed.
    pub what: String,
}

impl Finding {
    /// What is wrong with the whole document, or nowhere in it.
    pub fn without_place(what: impl Into<String>) -> Self {
        Self { line: 0, column: 0, what: what.into() }
    }

    /// The same with the name of the file, as compilers write it: `FILE:LINE:COLUMN: what`.
    pub fn in_file(&self, file: impl fmt::Display) -> String {
        if self.line == 0 { format!("{file}: {self}") } else { format!("{file}:{self}") }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, what } = self;
        if *line == 0 { f.write_str(what) } else { write!(f, "{line}:{column}: {what}") }
    }
}

/// One thing that is wrong with a document, with the path of its field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// The names and indexes that lead to it; of a missing field to where it should be.
    pub path: Vec<String>,
    /// What was found, and what is allowed.
    pub what: String,
}

impl Flaw {
    /// Whether the field is one that the form does not have.
    pub fn is_unknown(&self) -> bool {
        self.what.contains("unknown field")
    }
}

/// Everything in a document that is not of the form which `read` reads, in no order, and what the document is read as when
/// all of that is put right; none = it could not be. The example is a whole document of that form.
pub fn flaws<T>(
    mut document: Json,
    example: &Json,
    read: impl Fn(&Json) -> Result<T, Flaw>,
) -> (Vec<Flaw>, Option<T>) {
    let mut flaws: Vec<Flaw> = Vec::new();
    while flaws.len() < MOST {
        let mut flaw = match read(&document) {
            Ok(read) => return (flaws, Some(read)),
            Err(flaw) => flaw,
        };
        let removes = is_misnamed(&document, &flaw) || flaw.is_unknown();
        let named = quoted(&flaw.what).filter(|named| flaw.path.last() != Some(named));
        flaw.path.extend(named);
        if flaws.contains(&flaw) {
            break;
        }
        let is_right = put_right(&mut document, &flaw.path, (!removes).then_some(example));
        flaws.push(flaw);
        if !is_right {
            break;
        }
    }
    (flaws, None)
}

/// The names and indexes of a path.
pub fn names(path: &Path) -> Vec<String> {
    let name = |segment: &Segment| match segment {
        Segment::Map { key } | Segment::Enum { variant: key } => Some(key.clone()),
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Unknown => None,
    };
    path.iter().filter_map(name).collect()
}

/// The field that an error names as unknown or missing.
fn quoted(what: &str) -> Option<String> {
    let rest = ["unknown field `", "missing field `"].iter().find_map(|begin| what.split_once(begin))?.1;
    rest.split('`').next().map(str::to_owned)
}

/// Whether the name at the end of a path is none for what its object holds.
fn is_misnamed(document: &Json, flaw: &Flaw) -> bool {
    let Some(name) = flaw.path.last() else { return false };
    let at = flaw.path.iter().try_fold(document, |at, name| match at {
        Json::Object(fields) => fields.get(name),
        Json::Array(items) => items.get(name.parse::<usize>().ok()?),
        _ => None,
    });
    at.is_some_and(|value| value != name) && flaw.what.contains(&format!("{name:?} is not"))
}

/// What an example has at a path. Of a list any item is like the first.
fn exemplary(example: &Json, path: &[String]) -> Option<Json> {
    let found = path.iter().try_fold(example, |at, name| match at {
        Json::Object(fields) => fields.get(name).or_else(|| fields.get(ANY_NAME)),
        Json::Array(items) => items.first(),
        _ => None,
    });
    found.cloned().map(without_any_name)
}

fn without_any_name(example: Json) -> Json {
    match example {
        Json::Object(fields) => fields
            .into_iter()
            .filter(|(name, _)| name != ANY_NAME)
            .map(|(name, value)| (name, without_any_name(value)))
            .collect(),
        other => other,
    }
}

/// Takes what is at `path` from the example, or removes it where that has none; whether anything changed.
fn put_right(document: &mut Json, path: &[String], example: Option<&Json>) -> bool {
    let Some((last, above)) = path.split_last() else { return false };
    let instead = example.and_then(|example| exemplary(example, path));
    let at = above.iter().try_fold(document, |at, name| match at {
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
