//! The manifest of a compute release, as `compute/manifest.yaml` has it: read from YAML or JSON with the place of what
//! cannot be read, and checked: values are strings, `on` or `off` for booleans, numbers without a unit.
//!
//! ```yaml
//! pg_settings:
//!   common: {wal_log_hints: "off"}
//!   per_version:
//!     17:
//!       common: {max_wal_size: "1024"}
//!       replica: {recovery_prefetch: "off"}
//! ```
//!
//! What else a manifest holds (extensions, flags) is kept as it is: it means something to whoever starts computes.

use serde_json::{Map, Value as Json};
use std::collections::HashSet;
use std::sync::LazyLock;
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

/// Reads a manifest: YAML, of which JSON is a part. Two identical keys in one object are refused.
pub fn read(text: &str) -> Result<Json, Unreadable> {
    if text.len() > MAX_MANIFEST_BYTES {
        return Err(Unreadable::Oversized(text.len()));
    }
    if text.trim().is_empty() {
        return Ok(Json::Object(Map::new()));
    }
    let read: Json = serde_saphyr::from_str(text).map_err(|error| malformed(&error))?;
    if read.is_object() { Ok(read) } else { Err(Unreadable::NotAnObject) }
}

fn malformed(error: &serde_saphyr::Error) -> Unreadable {
    let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
    // The first line says what; the library then draws the place.
    let what = error.to_string().lines().next().unwrap_or_default().trim().to_owned();
    Unreadable::Malformed { what, line, column }
}

/// One thing that is wrong with a manifest, or strange.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// Whether it is refused; else it is a warning.
    pub blocks: bool,
    /// Where: `pg_settings.per_version.17.common.max_wal_size`.
    pub path: String,
    /// What was found, and what is allowed.
    pub what: String,
}

/// The sections of settings that a manifest has for one version of PostgreSQL.
const SECTIONS: [&str; 2] = ["common", "replica"];

/// Everything that is wrong with a manifest, or strange.
pub fn findings(manifest: &Json) -> Vec<Finding> {
    let mut found = Vec::new();
    let Some(settings) = manifest.get("pg_settings") else { return found };
    let Some(settings) = object(settings, "pg_settings", &mut found) else { return found };
    for (key, value) in settings {
        let path = format!("pg_settings.{key}");
        match key.as_str() {
            "common" => section(value, &path, &mut found),
            "per_version" => per_version(value, &path, &mut found),
            _ => found.push(refused(path, "is neither common nor per_version")),
        }
    }
    found
}

fn per_version(value: &Json, path: &str, found: &mut Vec<Finding>) {
    let Some(versions) = object(value, path, found) else { return };
    for (version, sections) in versions {
        let path = format!("{path}.{version}");
        if !version.parse::<u32>().is_ok_and(|number| number > 0) {
            found.push(refused(
                path.clone(),
                "is no major version of PostgreSQL: a number such as 17 is allowed",
            ));
        }
        let Some(sections) = object(sections, &path, found) else { continue };
        for (name, value) in sections {
            let path = format!("{path}.{name}");
            if SECTIONS.contains(&name.as_str()) {
                section(value, &path, found);
            } else {
                found.push(refused(path, "is neither common nor replica"));
            }
        }
    }
}

fn section(value: &Json, path: &str, found: &mut Vec<Finding>) {
    let Some(settings) = object(value, path, found) else { return };
    for (name, value) in settings {
        let path = format!("{path}.{name}");
        if let Err(why) = plain(value) {
            found.push(refused(path.clone(), why));
        }
        if !is_known(name) {
            found.push(Finding {
                blocks: false,
                path,
                what: "is no setting of PostgreSQL that is known here; is it spelt right?".to_owned(),
            });
        }
    }
}

fn object<'a>(value: &'a Json, path: &str, found: &mut Vec<Finding>) -> Option<&'a Map<String, Json>> {
    if value.as_object().is_none() {
        found.push(refused(path.to_owned(), "is not an object"));
    }
    value.as_object()
}

fn refused(path: String, what: impl Into<String>) -> Finding {
    Finding { blocks: true, path, what: what.into() }
}

/// Whether a value has the form that settings have.
fn plain(value: &Json) -> Result<(), String> {
    match value {
        Json::String(text) => plain_text(text),
        Json::Bool(on) => {
            Err(format!("is a boolean: write \"{}\", with quotes", if *on { "on" } else { "off" }))
        }
        Json::Number(number) => Err(format!("is a number: write \"{number}\", with quotes")),
        Json::Null => Err("is empty: a string is needed".to_owned()),
        Json::Array(_) | Json::Object(_) => Err("is not a string".to_owned()),
    }
}

/// The units that PostgreSQL knows: a number with one of them depends on the setting's own unit.
const UNITS: [&str; 11] = ["B", "kB", "MB", "GB", "TB", "us", "ms", "s", "min", "h", "d"];

fn plain_text(text: &str) -> Result<(), String> {
    if matches!(text.to_ascii_lowercase().as_str(), "true" | "yes") {
        return Err(format!("is {text:?}: booleans are \"on\" or \"off\""));
    }
    if matches!(text.to_ascii_lowercase().as_str(), "false" | "no") {
        return Err(format!("is {text:?}: booleans are \"on\" or \"off\""));
    }
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit = text[digits..].trim_start();
    if digits > 0 && UNITS.contains(&unit) {
        return Err(format!("is {text:?}: numbers have no unit; it is the setting's own"));
    }
    Ok(())
}

/// Names with a dot belong to extensions, which say themselves what they know.
fn is_known(name: &str) -> bool {
    static KNOWN: LazyLock<HashSet<&str>> =
        LazyLock::new(|| include_str!("manifest/known_settings.txt").lines().collect());
    name.contains('.') || KNOWN.contains(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The one of Neon's document.
    const DOCUMENT: &str = r#"
pg_settings:
  # Common settings for primaries and secondaries of all versions.
  common:
    wal_log_hints: "off"
    max_wal_size: "1024"
  per_version:
    14:
      common:
        shared_preload_libraries: "neon,pg_stat_statements,extension_x"
    15:
      common:
        shared_preload_libraries: "neon,pg_stat_statements,extension_x"
      replica:
        recovery_prefetch: "off"
    17:
      common:
        shared_preload_libraries: "neon,pg_stat_statements"
      replica:
        recovery_prefetch: "off"
extensions:
  postgis: {"17": "3.5.0"}
"#;

    #[test]
    fn the_manifest_of_the_document_is_read_and_has_no_flaw() {
        let manifest = read(DOCUMENT).unwrap();
        assert_eq!(
            manifest["pg_settings"]["per_version"]["17"]["replica"]["recovery_prefetch"],
            json!("off")
        );
        assert_eq!(manifest["extensions"]["postgis"]["17"], json!("3.5.0"), "what is mixed in is kept");
        assert_eq!(findings(&manifest), []);
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_place() {
        let place = |text: &str| match read(text) {
            Err(Unreadable::Malformed { line, column, what }) => (line, column, what),
            other => panic!("{text:?}: {other:?}"),
        };
        let (line, column, what) =
            place("pg_settings:\n  common:\n    a: \"1\"\n    b: \"2\"\n    a: \"3\"\n");
        assert_eq!((line, column), (5, 5), "{what}");
        assert!(what.contains("duplicate"), "{what}");
        assert_eq!(place("{\"a\": 1, \"a\": 2}").0, 1, "two identical keys in JSON");
        assert_eq!(place("a: 1\nb: [1, 2\nc: 3\n").0, 3, "an unclosed list");
        assert_eq!(read("- a\n- b\n"), Err(Unreadable::NotAnObject));
        assert_eq!(read(""), Ok(json!({})));
        let large = format!("a: \"{}\"", "x".repeat(MAX_MANIFEST_BYTES));
        assert!(matches!(read(&large), Err(Unreadable::Oversized(_))));
    }

    #[test]
    fn values_are_strings_on_or_off_and_numbers_without_unit() {
        let found = |text: &str| {
            let manifest = read(&format!("pg_settings: {{common: {{work_mem: {text}}}}}")).unwrap();
            findings(&manifest).into_iter().map(|finding| (finding.blocks, finding.what)).next()
        };
        let refused = [
            ("1024", "write \"1024\""),
            ("true", "write \"on\""),
            ("off", "write \"off\""),
            ("\"true\"", "\"on\" or \"off\""),
            ("\"NO\"", "\"on\" or \"off\""),
            ("\"4MB\"", "no unit"),
            ("\"10 min\"", "no unit"),
            ("", "is empty"),
            ("[a]", "not a string"),
        ];
        for (text, expected) in refused {
            let (blocks, what) = found(text).unwrap_or_else(|| panic!("{text} was taken"));
            assert!(blocks && what.contains(expected), "{text}: {what}");
        }
        for good in ["\"on\"", "\"off\"", "\"1024\"", "\"0.5\"", "\"%m [%p]\"", "\"9 lives\""] {
            assert_eq!(found(good), None, "{good}");
        }
    }

    #[test]
    fn unknown_settings_are_warned_of_and_unknown_sections_refused() {
        let manifest = read(
            "pg_settings:\n  common: {wal_log_hint: \"on\", neon.whatever: \"1\"}\n  commn: {}\n  per_version: {x: {}, 17: {primary: {}}}\n",
        );
        let told: Vec<(String, bool)> =
            findings(&manifest.unwrap()).into_iter().map(|finding| (finding.path, finding.blocks)).collect();
        let expected = [
            ("pg_settings.common.wal_log_hint", false),
            ("pg_settings.commn", true),
            ("pg_settings.per_version.x", true),
            ("pg_settings.per_version.17.primary", true),
        ];
        assert_eq!(told, expected.map(|(path, blocks)| (path.to_owned(), blocks)));
    }
}
