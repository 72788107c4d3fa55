//! How the path of a setting is shown: cut where it is long, and without control characters.

/// The longest part of a path that is shown, in characters, and the length in bytes from which a path grows no more: each
/// of many findings under one long key would repeat it.
const SHOWN_KEY: usize = 80;
const SHOWN_PATH: usize = 400;

/// The path of what is under this key. One with a control character is quoted, so that it does not reach a terminal.
pub(super) fn below(path: &str, key: &str) -> String {
    if path.len() > SHOWN_PATH {
        return path.to_owned();
    }
    let mut shown: String = key.chars().take(SHOWN_KEY).collect();
    let is_cut = shown.len() < key.len();
    if shown.chars().any(char::is_control) {
        shown = format!("{shown:?}");
    }
    if is_cut {
        shown.push('…');
    }
    if path.is_empty() { shown } else { format!("{path}.{shown}") }
}

/// The path of an item of a list.
pub(super) fn item_of(path: &str, n: usize) -> String {
    if path.len() > SHOWN_PATH { path.to_owned() } else { format!("{path}[{n}]") }
}
