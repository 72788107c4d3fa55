//! What a reader of YAML says, in the words of those who write it: what is allowed, and no names of types.

use serde_saphyr::Error;
use serde_saphyr::budget::BudgetBreach;
use tidegate_proto::form::Named;

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    /// A value of another kind than this one, with the value, where the reader names it.
    Kind { allowed: String, value: Option<String> },
    /// A field that there is not.
    Unknown { field: String, allowed: Vec<&'static str> },
    /// A field that must be there.
    Missing(&'static str),
    /// Anything else, as a sentence.
    Other(String),
}

impl Message {
    /// Of a reader's error.
    pub(super) fn of(error: &Error) -> Self {
        if let Some(allowed) = kind(error) {
            return Self::Kind { allowed, value: value(error) };
        }
        match error.without_snippet() {
            Error::AliasError { error, .. } => Self::of(error),
            Error::SerdeUnknownField { field, expected, .. } => {
                Self::Unknown { field: field.clone(), allowed: expected.clone() }
            }
            Error::SerdeMissingField { field, .. } => Self::Missing(field),
            other => Self::Other(sentence(other)),
        }
    }

    /// The field that it is about, where the form does not have it or the document lacks it.
    pub(super) fn named(&self) -> Option<Named> {
        match self {
            Self::Unknown { field, .. } => Some(Named::Unknown(field.clone())),
            Self::Missing(field) => Some(Named::Missing((*field).to_owned())),
            Self::Kind { .. } | Self::Other(_) => None,
        }
    }

    /// In words; `value` is what was found.
    pub(super) fn words(&self, value: &str) -> String {
        match self {
            Self::Kind { allowed, value: named } => {
                format!("{} is not allowed; {allowed} is", named.as_deref().unwrap_or(value))
            }
            Self::Unknown { field, allowed } if allowed.is_empty() => {
                format!("unknown field `{field}`: no field is allowed here")
            }
            Self::Unknown { field, allowed } => {
                format!("unknown field `{field}`; allowed are {}", allowed.join(", "))
            }
            Self::Missing(field) => format!("missing field `{field}`"),
            Self::Other(sentence) => sentence.clone(),
        }
    }
}

/// The value that a reader's error names. Of the others only the place is known.
fn value(error: &Error) -> Option<String> {
    match error.without_snippet() {
        Error::SerdeUnknownVariant { variant, .. } => Some(format!("`{}`", short(variant))),
        Error::NonFiniteFloat { value, .. } => Some(format!("`{}`", short(value))),
        _ => None,
    }
}

/// How many characters of a value a message quotes.
const QUOTED: usize = 40;

/// The beginning of a value.
pub(super) fn short(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What kind of value is allowed, where one of another kind was found.
fn kind(error: &Error) -> Option<String> {
    Some(match error.without_snippet() {
        Error::InvalidScalar { ty, .. } => of_type(ty),
        Error::InvalidBooleanStrict { .. } => of_type("boolean"),
        Error::NullIntoString { .. }
        | Error::TaggedScalarCannotDeserializeIntoString { .. }
        | Error::BinaryNotUtf8 { .. } => of_type("string"),
        Error::InvalidCharNull { .. } | Error::InvalidCharNotSingleScalar { .. } => {
            "a single character".to_owned()
        }
        Error::NonFiniteFloat { .. } => "a finite number".to_owned(),
        Error::Unexpected { expected, .. } => of_event(expected)?.to_owned(),
        Error::SerdeInvalidType { expected, .. } | Error::SerdeInvalidValue { expected, .. } => {
            of_type(expected)
        }
        Error::SerdeInvalidLength { expected, .. } => of_type(expected),
        Error::SerdeUnknownVariant { expected, .. } => match expected.as_slice() {
            [] => "no value".to_owned(),
            [only] => format!("`{only}`"),
            all => format!(
                "one of {}",
                all.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
            ),
        },
        Error::ExternallyTaggedEnumExpectedScalarOrMapping { .. } => {
            "a word, or a mapping with one key (`word: value`)".to_owned()
        }
        Error::ExpectedStringKeyForExternallyTaggedEnum { .. }
        | Error::ExpectedMappingEndAfterEnumVariantValue { .. } => {
            "a mapping with one key (`word: value`)".to_owned()
        }
        Error::UnexpectedValueForUnitEnumVariant { .. } => "the word alone, without a value,".to_owned(),
        Error::MergeValueNotMapOrSeqOfMaps { .. } => {
            "a mapping, or a list of mappings, after `<<`".to_owned()
        }
        _ => return None,
    })
}

/// A type by the name that the reader or a reader's visitor has for it; one that is a sentence already stays.
fn of_type(name: &str) -> String {
    let whole = |least: String, most: String| format!("a whole number from {least} to {most}");
    match name {
        "u8" => whole(u8::MIN.to_string(), u8::MAX.to_string()),
        "u16" => whole(u16::MIN.to_string(), u16::MAX.to_string()),
        "u32" => whole(u32::MIN.to_string(), u32::MAX.to_string()),
        "u64" | "usize" => whole(u64::MIN.to_string(), u64::MAX.to_string()),
        "i8" => whole(i8::MIN.to_string(), i8::MAX.to_string()),
        "i16" => whole(i16::MIN.to_string(), i16::MAX.to_string()),
        "i32" => whole(i32::MIN.to_string(), i32::MAX.to_string()),
        "i64" | "isize" => whole(i64::MIN.to_string(), i64::MAX.to_string()),
        "u128" | "i128" => "a whole number".to_owned(),
        "f32" | "f64" | "floating point" => "a number".to_owned(),
        "boolean" | "a boolean" | "bool" => "true or false".to_owned(),
        "a string" | "string" | "str" => "text".to_owned(),
        "a sequence" | "sequence" => "a list".to_owned(),
        "a map" | "map" => "a mapping (`key: value`)".to_owned(),
        "unit" => "no value".to_owned(),
        name if name.starts_with("struct ") => "a mapping (`key: value`)".to_owned(),
        name if name.starts_with("tuple ") || name.starts_with("a tuple ") => "a list".to_owned(),
        sentence => sentence.to_owned(),
    }
}

/// What begins, by the name that the reader has for it.
fn of_event(name: &str) -> Option<&'static str> {
    match name {
        "string scalar" | "scalar" => Some("a single value"),
        "sequence start" => Some("a list"),
        "mapping start" => Some("a mapping (`key: value`)"),
        _ => None,
    }
}

fn sentence(error: &Error) -> String {
    match error {
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("the key `{key}` is there twice"),
        Error::DuplicateMappingKey { key: None, .. } => "a key is there twice".to_owned(),
        Error::Eof { .. } => "the text ends before a value".to_owned(),
        Error::MultipleDocuments { .. } => {
            "there is more than one document (`---`); one is allowed".to_owned()
        }
        Error::UnknownAnchor { .. } => "the alias names no anchor (`&name`) before it".to_owned(),
        Error::AliasReplayLimitExceeded { max_total_replayed_events, .. } => {
            format!("all aliases together expand to more than {max_total_replayed_events} values")
        }
        Error::AliasReplayStackDepthExceeded { max_depth, .. } => {
            format!("aliases stand more than {max_depth} deep within each other")
        }
        Error::UnsupportedTag { tag, .. } => format!("the tag `{tag}` is not allowed"),
        Error::Budget { breach, .. } => budget(breach),
        other => plain(&other.to_string()),
    }
}

fn budget(breach: &BudgetBreach) -> String {
    match breach {
        BudgetBreach::Aliases { aliases } => format!("{aliases} aliases are too many"),
        BudgetBreach::Depth { depth } => {
            format!("lists and mappings stand {depth} deep within each other: too deep")
        }
        other => format!("the text is too large ({other:?})"),
    }
}

/// The first line of a text that draws the place below it, without the place.
fn plain(text: &str) -> String {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let what = match first.split_once(": ") {
        Some((place, rest)) if place.starts_with("line ") => rest,
        _ => first,
    };
    // Where the library puts the place at the end.
    what.rsplit_once(" at line ").map_or(what, |(what, _)| what).to_owned()
}
