//! YAML as people write it, read within limits: aliases make a short text mean a long one.

mod findings;
mod message;

pub use findings::{Located, found};
pub use tidegate_proto::form::Finding;

use serde::de::DeserializeOwned;

/// The most aliases of one text. Specs and manifests that share settings between sections have a few.
const MAX_ALIASES: usize = 100;

/// The most values that all aliases together expand to. Each may be as long as the text, so this also bounds the memory
/// that a text takes, as a multiple of its length.
const MAX_REPLAYED: usize = 1_000;

/// How deep aliases may be nested within what other aliases name.
const MAX_ALIAS_DEPTH: usize = 8;

/// Reads YAML; JSON is YAML too. Two identical keys in one object are refused.
///
/// # Errors
/// serde_saphyr's own, with line and column; also where aliases go beyond their limits.
pub fn yaml<T: DeserializeOwned>(text: &str) -> Result<T, serde_saphyr::Error> {
    yaml_with(text, |deserializer| T::deserialize(deserializer))
}

/// The same; an error has its place, and says in plain words what is allowed there.
///
/// # Errors
/// The first thing that is wrong.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Finding> {
    yaml(text).map_err(|error| found(&error))
}

/// Reads a document of the form `T`, with the place of each part of it.
///
/// # Errors
/// Everything that is not of that form; the example is a whole document of it.
pub fn checked<T: DeserializeOwned>(text: &str, example: &str) -> Result<(T, Located), Vec<Finding>> {
    let located = Located::of(text).map_err(|finding| vec![finding])?;
    match yaml(text) {
        Ok(read) => Ok((read, located)),
        Err(error) => {
            let findings = located.flaws_of_form::<T>(&yaml(example).unwrap_or_default());
            Err(if findings.is_empty() { vec![found(&error)] } else { findings })
        }
    }
}

fn yaml_with<'de, T>(
    text: &'de str,
    read: impl FnOnce(serde_saphyr::Deserializer<'de, '_>) -> Result<T, serde_saphyr::Error>,
) -> Result<T, serde_saphyr::Error> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_aliases: MAX_ALIASES },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_REPLAYED,
            max_replay_stack_depth: MAX_ALIAS_DEPTH,
        },
    };
    serde_saphyr::with_deserializer_from_str_with_options(text, options, read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    #[test]
    fn alias_is_read_as_what_it_names() {
        let read: Json = yaml("base: &base {work_mem: \"1\"}\na: *base\nb: {<<: *base, x: \"2\"}\n").unwrap();
        assert_eq!(read["a"], json!({"work_mem": "1"}));
        assert_eq!(read["b"], json!({"work_mem": "1", "x": "2"}));
    }

    #[test]
    fn item_of_a_list_is_found_and_a_missing_one_is_the_list() {
        let located = Located::of("steps:\n  - name: a\n  - name: b\n").unwrap();
        let at = |field: &str| {
            let finding = located.finding(field, "is wrong");
            (finding.line, finding.column)
        };
        assert_eq!((at("steps.1.name"), at("steps.1")), ((3, 5), (3, 5)));
        assert_eq!((at("steps.2.name"), at("steps.x")), ((1, 1), (1, 1)));
    }

    #[test]
    fn aliases_that_double_are_refused() {
        let mut text = "a0: &a0 [x, x]\n".to_owned();
        (1..30).for_each(|n| text.push_str(&format!("a{n}: &a{n} [*a{m}, *a{m}]\n", m = n - 1)));
        let refused = yaml::<Json>(&text).unwrap_err().to_string();
        assert!(refused.contains("alias"), "{refused}");
    }

    #[test]
    fn aliases_beyond_the_limit_are_refused() {
        let text = |aliases: usize| format!("a: &a x\nb: [{}]\n", vec!["*a"; aliases].join(", "));
        assert!(yaml::<Json>(&text(MAX_ALIASES / 2)).is_ok());
        assert!(yaml::<Json>(&text(MAX_ALIASES + 1)).is_err());
    }
}
