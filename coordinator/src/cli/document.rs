//! A file of YAML or JSON that a command is given.

use super::exit::Failure;
use serde_json::Value as Json;
use std::fmt::Display;
use std::path::Path;

/// Reads a file of YAML or JSON (which is YAML too), or stdin, with the reader of what it holds. Readers refuse a key that
/// is there twice, and tell line and column.
pub(super) fn document<E: Display>(
    path: &Path,
    read: impl FnOnce(&str) -> Result<Json, E>,
) -> Result<Json, Failure> {
    let shown = path.display();
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.map_err(|e| Failure::usage(format!("could not read {shown}: {e}")))?;
    read(&text).map_err(|e| Failure::usage(format!("{shown}: {e}; nothing was changed")))
}
