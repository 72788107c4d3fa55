//! What the value of one setting may be, by the type that PostgreSQL gives the setting.
//!
//! `known_settings.txt` has a setting and its type on each line, as `pg_settings.vartype` of PostgreSQL 14 to 17 names
//! them; `octal` marks the integers that are file modes. A type that differs between these versions is the wider one.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The type of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    /// `on` or `off`.
    Bool,
    /// A whole number of 32 bits.
    Integer,
    /// A file mode, such as `0600`.
    Octal,
    /// A number.
    Real,
    /// One of a few words, which differ between versions of PostgreSQL.
    Enum,
    /// Any text.
    Text,
}

impl Type {
    fn of_word(word: &str) -> Self {
        match word {
            "bool" => Self::Bool,
            "integer" => Self::Integer,
            "octal" => Self::Octal,
            "real" => Self::Real,
            "enum" => Self::Enum,
            "string" => Self::Text,
            other => unreachable!("known_settings.txt has the type {other}"),
        }
    }
}

static KNOWN: LazyLock<BTreeMap<&str, Type>> = LazyLock::new(|| {
    let lines = include_str!("known_settings.txt").lines();
    lines
        .map(|line| line.split_once(' ').expect("known_settings.txt has a type on each line"))
        .map(|(name, word)| (name, Type::of_word(word)))
        .collect()
});

/// The type of a setting of PostgreSQL; none = it is not known here. PostgreSQL ignores the case of names.
pub(super) fn type_of(name: &str) -> Option<Type> {
    KNOWN.get(name.to_ascii_lowercase().as_str()).copied()
}

/// Whether a text is a value of a setting of this type; if not, what was found and what is allowed. No type = the
/// setting is not known, and only what no setting has is refused.
pub(super) fn check(kind: Option<Type>, text: &str) -> Result<(), String> {
    if let Some(found) = text.chars().find(|c| c.is_control()) {
        return Err(format!("has the control character {found:?}: none is allowed"));
    }
    let allowed = match kind {
        Some(Type::Bool) if matches!(text, "on" | "off") => return Ok(()),
        Some(Type::Integer) if is_integer(text) => return Ok(()),
        Some(Type::Octal) if is_octal(text) => return Ok(()),
        Some(Type::Real) if is_real(text) => return Ok(()),
        Some(Type::Text) => return Ok(()),
        Some(Type::Enum) if text.is_empty() => "one of the setting's words is needed",
        Some(Type::Enum) | None => return untyped(text),
        Some(Type::Bool) => "booleans are \"on\" or \"off\"",
        Some(Type::Integer | Type::Real) if has_unit(text) => NO_UNIT,
        Some(Type::Integer) => {
            "the setting is a whole number of 32 bits, written in decimal digits without leading zeros"
        }
        Some(Type::Octal) => "the setting is a file mode in octal digits, such as \"0600\"",
        Some(Type::Real) => "the setting is a number, such as \"0.5\"",
    };
    Err(format!("is {}: {allowed}", shown(text)))
}

const NO_UNIT: &str = "numbers have no unit; it is the setting's own";

/// The first 60 characters, quoted.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(60).collect();
    format!("{start:?}{}", if start.len() < text.len() { "…" } else { "" })
}

fn untyped(text: &str) -> Result<(), String> {
    if matches!(text.to_ascii_lowercase().as_str(), "true" | "yes" | "false" | "no") {
        return Err(format!("is {}: booleans are \"on\" or \"off\"", shown(text)));
    }
    if has_unit(text) {
        return Err(format!("is {}: {NO_UNIT}", shown(text)));
    }
    Ok(())
}

/// The units that PostgreSQL knows: a number with one of them depends on the setting's own unit.
const UNITS: [&str; 11] = ["B", "kB", "MB", "GB", "TB", "us", "ms", "s", "min", "h", "d"];

fn has_unit(text: &str) -> bool {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    digits > 0 && UNITS.contains(&text[digits..].trim())
}

/// PostgreSQL reads `010` as eight and rounds `1.5` to two: neither says what is meant.
fn is_integer(text: &str) -> bool {
    text.parse::<i32>().is_ok_and(|number| number.to_string() == text)
}

fn is_octal(text: &str) -> bool {
    text.len() <= 5 && !text.is_empty() && text.bytes().all(|b| matches!(b, b'0'..=b'7'))
}

fn is_real(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let digit = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_digit());
    digit(unsigned.bytes().next())
        && digit(unsigned.bytes().next_back())
        && text.parse::<f64>().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_setting_has_a_type() {
        assert!(KNOWN.len() > 300);
        let types =
            ["wal_log_hints", "max_wal_size", "seq_page_cost", "wal_level", "search_path"].map(type_of);
        let expected = [Type::Bool, Type::Integer, Type::Real, Type::Enum, Type::Text];
        assert_eq!(types, expected.map(Some));
        assert_eq!(type_of("Work_Mem"), Some(Type::Integer), "the case of names does not matter");
        assert_eq!(type_of("no_such_setting"), None);
    }

    #[test]
    fn a_value_has_the_type_of_its_setting() {
        let cases: [(Type, &[&str], &[&str]); 6] = [
            (Type::Bool, &["on", "off"], &["", "true", "ON", "1", "yes", " on"]),
            (
                Type::Integer,
                &["0", "-1", "1024", "2147483647"],
                &["", "1.5", "010", "+1", "1e3", "0x10", "4MB", "4 MB", "2147483648", "on", " 1"],
            ),
            (Type::Octal, &["0600", "0777", "600"], &["", "0800", "rw", "-1"]),
            (
                Type::Real,
                &["0", "0.5", "-1", "1e-3"],
                &["", "inf", "NaN", ".5", "5.", "1,5", "4ms", "1e999", "+1"],
            ),
            (Type::Enum, &["replica", "on", "pglz"], &["", "true", "No"]),
            (
                Type::Text,
                &["", "no", "4MB", "%m [%p] ", "neon,pg_stat_statements"],
                &["a\nb", "a\u{1b}[2J", "\u{7f}"],
            ),
        ];
        for (kind, good, bad) in cases {
            for text in good {
                assert_eq!(check(Some(kind), text), Ok(()), "{kind:?} {text:?}");
            }
            for text in bad {
                assert!(check(Some(kind), text).is_err(), "{kind:?} took {text:?}");
            }
        }
    }

    #[test]
    fn a_refusal_says_what_was_found_and_what_is_allowed() {
        let why = |kind, text: &str| check(kind, text).unwrap_err();
        assert_eq!(why(Some(Type::Integer), "4MB"), format!("is \"4MB\": {NO_UNIT}"));
        assert!(why(Some(Type::Integer), "1.5").contains("whole number"));
        assert!(why(None, "TRUE").contains("\"on\" or \"off\""));
        assert!(!why(Some(Type::Text), "a\u{1b}[2J").contains('\u{1b}'), "the message itself is clean");
        assert!(why(Some(Type::Bool), &"x".repeat(5_000)).len() < 200);
    }
}
