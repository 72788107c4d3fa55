//! Texts of agents, as they go into records of ours.

use tidegate_proto::mutant;

/// The longest text of an agent that goes into records of ours, in characters: what is hostile must not outgrow them.
const LONGEST_TEXT: usize = 500;

/// The beginning of a text.
pub(super) fn short(text: &str) -> String {
    if mutant::is("failure-texts-are-unbounded") {
        return text.to_owned();
    }
    text.chars().take(LONGEST_TEXT).collect()
}
