//! How a pull request is named: by its number, or by its branch. Streams and keys have names without slashes, so a branch
//! becomes one: what does not fit is replaced, and a digest of the whole keeps two apart that would then be the same.

use crate::name::NotAName;
use crate::{Digest, GroupLabel};
use serde::de::{Deserialize, Deserializer, Error};

/// The longest branch, in bytes: that of a file's name, in which git keeps it.
const MAX_BRANCH_BYTES: usize = 255;

/// How much of a branch is kept, in bytes, so that the name of the stream fits.
const KEPT_BYTES: usize = 30;

/// The label of a pull request.
///
/// # Errors
/// [`NotAName`] where it is neither a name nor a branch.
pub fn label(text: &str) -> Result<GroupLabel, NotAName> {
    let refused = match text.parse() {
        Ok(label) => return Ok(label),
        Err(refused) => refused,
    };
    let of_a_branch = |b: u8| b.is_ascii_alphanumeric() || b"._-/+#@".contains(&b);
    let fits = (1..=MAX_BRANCH_BYTES).contains(&text.len()) && text.bytes().all(of_a_branch);
    let words: String = text
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
        .collect();
    let words: String =
        words.trim_start_matches(|c: char| !c.is_ascii_alphanumeric()).chars().take(KEPT_BYTES).collect();
    if !fits || words.is_empty() {
        return Err(refused);
    }
    let digest: String = Digest::of(text.as_bytes()).to_string().chars().take(8).collect();
    format!("{words}-{digest}").parse()
}

/// Reads one that may be left out.
pub(super) fn maybe<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<GroupLabel>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| label(&text).map_err(D::Error::custom)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_with_slashes_becomes_a_name_of_its_own() {
        let named = |text: &str| label(text).unwrap().to_string();
        assert_eq!(named("417"), "417");
        assert_eq!(named("feature-x"), "feature-x", "what is a name stays as it is");
        let branch = named("feature/x");
        assert!(branch.starts_with("feature-x-") && branch.len() == "feature-x-".len() + 8, "{branch}");
        assert_eq!(named(&branch), branch, "the next region finds the same stream");
        assert_ne!(branch, named("feature/x/"), "two branches have two names");
        assert!(named(&"long/".repeat(40)).len() < 40);
        for bad in ["", "/", "a b", "a\nb", "ü", &"x/".repeat(200)] {
            assert!(label(bad).is_err(), "{bad:?} was taken for a pull request");
        }
    }
}
