//! A file of YAML or JSON that a command is given.

use super::exit::Failure;
use serde_json::Value as Json;
use std::path::Path;
use tidegate_planner::document::Finding;

/// Reads a file of YAML or JSON (which is YAML too), or stdin, with the reader of what it holds. Readers refuse a key that
/// is there twice.
pub(super) fn document<E: Into<Finding>>(
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
    read(&text).map_err(|e| Failure::usage(format!("{}; nothing was changed", e.into().in_file(shown))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_planner::document::read;
    use tidegate_planner::release::manifest;

    #[test]
    fn error_begins_with_file_line_and_column() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let shown = file.path().display();
        std::fs::write(file.path(), "a: 1\na: 2\n").unwrap();
        let wanted = format!("{shown}:2:1: the key `a` is there twice; nothing was changed");
        let said = |refused: Result<Json, Failure>| refused.unwrap_err().message;
        assert_eq!(said(document(file.path(), read::<Json>)), wanted);
        assert_eq!(said(document(file.path(), manifest::read)), wanted);
        std::fs::write(file.path(), "- 1\n").unwrap();
        let wanted = format!("{shown}: the manifest is not an object of settings; nothing was changed");
        assert_eq!(said(document(file.path(), manifest::read)), wanted);
    }
}
