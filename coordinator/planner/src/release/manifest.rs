//! The manifest of a compute release, as `compute/manifest.yaml` has it, and what is checked of it: values are strings of
//! the setting's own type, `on` or `off` for booleans, numbers without a unit. Only what is posted is checked: a manifest
//! that is stored already is used as it is.
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
//! What else a manifest holds (extensions, flags) is kept as it is: the compute's starter interprets it.

mod path;
mod read;
mod value;

pub use read::{Unreadable, read};

use path::{below, item_of};
use serde_json::{Map, Value as Json};

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

/// How many findings an answer lists: each warning is a header of HTTP, which has some 100.
const LISTED: usize = 20;

/// Those findings that block, or those that do not, each in words; what is beyond the first 20 is counted.
pub fn listed(found: &[Finding], blocks: bool) -> Vec<String> {
    let of_kind = || found.iter().filter(|finding| finding.blocks == blocks);
    let mut listed: Vec<String> =
        of_kind().take(LISTED).map(|finding| format!("{} {}", finding.path, finding.what)).collect();
    let more = of_kind().count().saturating_sub(LISTED);
    if more > 0 {
        listed.push(format!("and {more} more"));
    }
    listed
}

/// The sections of settings that a manifest has for one version of PostgreSQL.
const SECTIONS: [&str; 2] = ["common", "replica"];

/// Everything that is wrong with a manifest, or strange.
pub fn findings(manifest: &Json) -> Vec<Finding> {
    let mut found = Vec::new();
    inexact(manifest, "", &mut found);
    for name in manifest.as_object().into_iter().flatten().map(|(name, _)| name) {
        misspelt(name, &mut found);
    }
    let Some(settings) = manifest.get("pg_settings") else { return found };
    let Some(settings) = object(settings, "pg_settings", &mut found) else { return found };
    for (key, value) in settings {
        let path = below("pg_settings", key);
        match key.as_str() {
            "common" => section(value, &path, &mut found),
            "per_version" => per_version(value, &path, &mut found),
            _ => found.push(refused(path, "is neither common nor per_version")),
        }
    }
    found
}

/// Refuses integers that JSON readers round without a word: those beyond 64 bits have become floating point here.
fn inexact(value: &Json, path: &str, found: &mut Vec<Finding>) {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Json::Number(number)
            if number.is_f64() && number.as_f64().is_some_and(|number| number.abs() >= EXACT) =>
        {
            let why = "is too large to be kept to the last digit: write it with quotes";
            found.push(refused(path.to_owned(), why));
        }
        Json::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| inexact(item, &item_of(path, n), found));
        }
        Json::Object(map) => map.iter().for_each(|(key, value)| inexact(value, &below(path, key), found)),
        _ => {}
    }
}

/// What is meant by a key that is nearly `pg_settings` and would be kept without a look.
fn misspelt(name: &str, found: &mut Vec<Finding>) {
    const MEANT: &str = "pg_settings";
    if name != MEANT && strsim::osa_distance(&plain_name(name), MEANT) <= 3 {
        let what = format!("is kept as it is and sets nothing; is {MEANT} meant?");
        found.push(Finding { blocks: false, path: below("", name), what });
    }
}

/// A name as it is compared with others for its spelling.
fn plain_name(name: &str) -> String {
    name.to_ascii_lowercase().replace('-', "_")
}

fn per_version(value: &Json, path: &str, found: &mut Vec<Finding>) {
    let Some(versions) = object(value, path, found) else { return };
    for (version, sections) in versions {
        let path = below(path, version);
        // Settings are looked up by the number as it is usually written, so that any other form would never be found.
        if !version.parse::<u32>().is_ok_and(|number| number > 0 && number.to_string() == *version) {
            found.push(refused(
                path.clone(),
                "is no major version of PostgreSQL: a number such as 17 is allowed, without sign and leading zeros",
            ));
        }
        let Some(sections) = object(sections, &path, found) else { continue };
        for (name, value) in sections {
            let path = below(&path, name);
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
        let path = below(path, name);
        if let Err(why) = named(name).and_then(|()| plain(name, value)) {
            found.push(refused(path.clone(), why));
        }
        // Names with a dot belong to extensions, which say themselves what they know.
        if !name.contains('.') && value::type_of(name).is_none() {
            let what = "is no setting of PostgreSQL that is known here; is it spelt right?".to_owned();
            found.push(Finding { blocks: false, path, what });
        }
    }
}

/// Whether a text can name a setting.
fn named(name: &str) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err("has a setting with an empty name".to_owned());
    }
    match name.chars().find(|c| c.is_control()) {
        Some(c) => Err(format!("has the control character {c:?} in its name: none is allowed")),
        None => Ok(()),
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

/// Whether a value has the form that this setting has.
fn plain(name: &str, value: &Json) -> Result<(), String> {
    match value {
        Json::String(text) => value::check(value::type_of(name), text),
        Json::Bool(on) => {
            Err(format!("is a boolean: write \"{}\", with quotes", if *on { "on" } else { "off" }))
        }
        Json::Number(number) => Err(format!("is a number: write \"{number}\", with quotes")),
        Json::Null => Err("is empty: a string is needed".to_owned()),
        Json::Array(_) | Json::Object(_) => Err("is not a string".to_owned()),
    }
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
    fn values_are_strings_on_or_off_and_numbers_without_unit() {
        let found = |text: &str| {
            let manifest = read(&format!("pg_settings: {{common: {{work_mem: {text}}}}}")).unwrap();
            findings(&manifest).into_iter().map(|finding| (finding.blocks, finding.what)).next()
        };
        let refused = [
            ("1024", "write \"1024\""),
            ("true", "write \"on\""),
            ("off", "write \"off\""),
            ("\"true\"", "whole number"),
            ("\"NO\"", "whole number"),
            ("\"4MB\"", "no unit"),
            ("\"10 min\"", "no unit"),
            ("", "is empty"),
            ("[a]", "not a string"),
        ];
        for (text, expected) in refused {
            let (blocks, what) = found(text).unwrap_or_else(|| panic!("{text} was taken"));
            assert!(blocks && what.contains(expected), "{text}: {what}");
        }
        for good in ["\"1024\"", "\"-1\"", "\"0\""] {
            assert_eq!(found(good), None, "{good}");
        }
        for bad in ["\"on\"", "\"0.5\"", "\"010\"", "\"%m [%p]\"", "\"9 lives\"", "\"\""] {
            assert!(found(bad).is_some_and(|(blocks, _)| blocks), "work_mem took {bad}");
        }
    }

    fn reported(text: &str) -> Vec<(String, bool, String)> {
        let found = findings(&read(text).unwrap());
        found.into_iter().map(|finding| (finding.path, finding.blocks, finding.what)).collect()
    }

    #[test]
    fn findings_beyond_the_first_20_are_counted() {
        let settings: String = (0..25).map(|n| format!("s{n}: \"1\", ")).collect();
        let found = findings(&read(&format!("pg_settings: {{common: {{{settings}}}}}")).unwrap());
        let warnings = listed(&found, false);
        assert_eq!((warnings.len(), warnings[20].as_str()), (21, "and 5 more"));
        assert!(listed(&found, true).is_empty());
    }

    #[test]
    fn path_under_a_long_key_is_cut() {
        let long = "v".repeat(10_000);
        let reported = reported(&format!("pg_settings: {{? {long}\n: {{common: {{a: 1}}}}}}"));
        assert!(reported.iter().all(|(path, ..)| path.len() < 200 && path.contains('…')), "{reported:?}");
        let deep = format!("{}1e22{}", "{\"k\":[".repeat(60), "]}".repeat(60));
        let found = findings(&serde_json::from_str(&deep).unwrap());
        assert!(found.len() == 1 && found[0].path.len() < 500, "{found:?}");
    }

    #[test]
    fn names_are_not_empty_and_have_no_control_characters() {
        for name in [r#""""#, r#"" ""#, r#""work\nmem""#, r#""neon.\e[2J""#] {
            let reported = reported(&format!("pg_settings: {{common: {{{name}: \"1\"}}}}"));
            assert!(reported.iter().any(|(_, blocks, _)| *blocks), "{name}: {reported:?}");
            assert!(
                reported.iter().all(|(path, _, what)| !format!("{path}{what}").contains(char::is_control)),
                "{reported:?}"
            );
        }
    }

    #[test]
    fn versions_of_postgresql_are_written_in_one_form() {
        for version in [r#""017""#, r#""+17""#, r#"" 17""#, r#""0""#, r#""17.2""#] {
            let reported = reported(&format!("pg_settings: {{per_version: {{{version}: {{}}}}}}"));
            assert!(reported.len() == 1 && reported[0].1, "{version}: {reported:?}");
        }
        assert_eq!(reported("pg_settings: {per_version: {17: {}, \"16\": {}}}"), []);
    }

    #[test]
    fn integers_that_would_be_rounded_are_refused() {
        let large = json!({"extensions": {"ids": [1, 1.5, u64::MAX, 1e22]}});
        let found = findings(&large);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].blocks && found[0].path == "extensions.ids[3]", "{found:?}");
        // In YAML too nothing is kept that is not what was written.
        let text = "extensions: {id: 123456789012345678901234567890}";
        if let Ok(manifest) = read(text) {
            let kept = manifest["extensions"]["id"].to_string().contains("123456789012345678901234567890");
            assert!(kept || findings(&manifest).iter().any(|finding| finding.blocks), "{manifest}");
        }
    }

    #[test]
    fn near_misses_of_known_keys_are_warned_of() {
        for name in ["pgsettings", "pg-settings", "PG_SETTINGS", "pg_setings", "settings"] {
            let reported = reported(&format!("{name}: {{common: {{work_mem: \"1\"}}}}"));
            assert!(
                reported.len() == 1 && !reported[0].1 && reported[0].2.contains("pg_settings"),
                "{name}: {reported:?}"
            );
        }
        assert_eq!(reported("extensions: {}"), [], "what is mixed in on purpose is no near miss");
    }

    #[test]
    fn unknown_settings_are_warned_of_and_unknown_sections_refused() {
        let manifest = read(
            "pg_settings:\n  common: {wal_log_hint: \"on\", neon.whatever: \"1\"}\n  commn: {}\n  per_version: {x: {}, 17: {primary: {}}}\n",
        );
        let reported: Vec<(String, bool)> =
            findings(&manifest.unwrap()).into_iter().map(|finding| (finding.path, finding.blocks)).collect();
        let expected = [
            ("pg_settings.common.wal_log_hint", false),
            ("pg_settings.commn", true),
            ("pg_settings.per_version.x", true),
            ("pg_settings.per_version.17.primary", true),
        ];
        assert_eq!(reported, expected.map(|(path, blocks)| (path.to_owned(), blocks)));
    }
}
