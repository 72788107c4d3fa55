//! Everything that is not of its form in a document that people write, each with its place.
//!
//! A reader stops at the first thing that it does not understand. Here that is noted, put right in a copy, and the copy
//! read again: an unknown field is removed, a value of the wrong kind and a missing field are taken from an example.

mod document;

pub use document::read;

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
    /// The field, where form and document do not have the same ones.
    pub named: Option<Named>,
}

/// A field that only one of form and document has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// The form does not have it.
    Unknown(String),
    /// The document lacks it.
    Missing(String),
}

impl Flaw {
    /// Whether the field is one that the form does not have.
    pub fn is_unknown(&self) -> bool {
        matches!(self.named, Some(Named::Unknown(_)))
    }

    /// Whether the field is one that must be there.
    fn is_missing(&self) -> bool {
        matches!(self.named, Some(Named::Missing(_)))
    }

    /// The path that leads to the field itself: a reader stops at what lacks it, or at the field.
    fn complete(&mut self) {
        if let Some(Named::Unknown(field) | Named::Missing(field)) = &self.named
            && self.path.last() != Some(field)
        {
            self.path.push(field.clone());
        }
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
    let mut left_out = LeftOut::default();
    while flaws.len() < MOST {
        let mut flaw = match read(&document) {
            Ok(read) => return (flaws, Some(read)),
            Err(flaw) => flaw,
        };
        let removes = is_misnamed(&document, &flaw) || flaw.is_unknown();
        flaw.complete();
        let path = flaw.path.clone();
        left_out.restore(&mut flaw.path);
        let follows = flaw.is_missing() && left_out.paths.contains(&flaw.path);
        if !follows {
            if flaws.contains(&flaw) {
                break;
            }
            flaws.push(flaw);
        }
        let example = (!removes && !follows).then_some(example);
        if !put_right(&mut document, path, example, &mut left_out) {
            break;
        }
    }
    (flaws, None)
}

/// What was left out of the copy of a document.
#[derive(Default)]
struct LeftOut {
    /// The paths in the document.
    paths: Vec<Vec<String>>,
    /// Of these, the items of lists, in the order in which they were left out. Each path is that in the copy just before.
    items: Vec<Vec<String>>,
}

impl LeftOut {
    fn add(&mut self, mut path: Vec<String>, is_item: bool) {
        let in_copy = path.clone();
        self.restore(&mut path);
        self.paths.push(path);
        self.items.extend(is_item.then_some(in_copy));
    }

    /// A path in the copy becomes that in the document: an item has a higher index there, where one before it was left out.
    fn restore(&self, path: &mut [String]) {
        for removed in self.items.iter().rev() {
            let Some((removed, list)) = removed.split_last() else { continue };
            let Some(index) = path.strip_prefix(list).and_then(|below| below.first()) else { continue };
            let (Ok(removed), Ok(index)) = (removed.parse::<usize>(), index.parse::<usize>()) else {
                continue;
            };
            if index >= removed {
                path[list.len()] = (index + 1).to_string();
            }
        }
    }
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

/// Takes what is at `path` from the example, or leaves it out where that has none; a field that must be there is left out
/// with what holds it. Answers whether anything changed.
fn put_right(
    document: &mut Json,
    mut path: Vec<String>,
    mut example: Option<&Json>,
    left_out: &mut LeftOut,
) -> bool {
    while !path.is_empty() {
        match change(document, &path, example) {
            Change::None => {}
            Change::Replaced => return true,
            Change::LeftOut { is_item } => {
                left_out.add(path, is_item);
                return true;
            }
        }
        path.pop();
        example = None;
    }
    false
}

/// What was changed in a document.
enum Change {
    None,
    Replaced,
    LeftOut { is_item: bool },
}

fn change(document: &mut Json, path: &[String], example: Option<&Json>) -> Change {
    let Some((last, above)) = path.split_last() else { return Change::None };
    let instead = example.and_then(|example| exemplary(example, path));
    let at = above.iter().try_fold(document, |at, name| match at {
        Json::Object(fields) => fields.get_mut(name),
        Json::Array(items) => items.get_mut(name.parse::<usize>().ok()?),
        _ => None,
    });
    match (at, instead) {
        (Some(Json::Object(fields)), Some(instead)) => {
            let is_new = fields.insert(last.clone(), instead.clone()).as_ref() != Some(&instead);
            if is_new { Change::Replaced } else { Change::None }
        }
        (Some(Json::Object(fields)), None) => match fields.shift_remove(last) {
            Some(_) => Change::LeftOut { is_item: false },
            None => Change::None,
        },
        (Some(Json::Array(items)), _) => match last.parse().ok().filter(|n| *n < items.len()) {
            Some(n) => {
                items.remove(n);
                Change::LeftOut { is_item: true }
            }
            None => Change::None,
        },
        _ => Change::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its form matters")]
    struct Form {
        #[serde(default)]
        upload: Option<Upload>,
        #[serde(default)]
        counts: Vec<u8>,
        name: String,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its form matters")]
    struct Upload {
        bytes: u64,
        over: String,
    }

    /// The paths of the flaws, and whether the rest could be read.
    fn found(document: Json) -> (Vec<String>, bool) {
        let (flaws, read) = flaws(document, &json!({"name": "a"}), document::read::<Form>);
        (flaws.iter().map(|flaw| flaw.path.join(".")).collect(), read.is_some())
    }

    #[test]
    fn required_field_of_wrong_kind_is_one_flaw() {
        let document = json!({"upload": {"bytes": 5, "over": 2}, "name": 3});
        assert_eq!(found(document), (vec!["upload.over".to_owned(), "name".to_owned()], true));
    }

    #[test]
    fn text_of_a_value_is_not_taken_for_that_of_an_error() {
        let document = json!({"upload": {"bytes": "unknown field `over`", "over": "a"}, "name": "a"});
        assert_eq!(found(document), (vec!["upload.bytes".to_owned()], true));
    }

    #[test]
    fn missing_field_without_example_hides_no_later_flaw() {
        let document = json!({"upload": {"bytes": 5}, "nam": "a"});
        let all = ["upload.over", "nam", "name"].map(str::to_owned).to_vec();
        assert_eq!(found(document), (all, true));
    }

    #[test]
    fn each_wrong_item_of_a_list_has_its_own_index() {
        let document = json!({"counts": [1, "a", 2, "b", "c"], "name": "a"});
        let all = ["counts.1", "counts.3", "counts.4"].map(str::to_owned).to_vec();
        assert_eq!(found(document), (all, true));
    }
}
