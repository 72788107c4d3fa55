//! Where the fields of a gate are in its file, for errors that are found after it was read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidegate_planner::document::Located;

use crate::load::findings;

/// A gate file with the place of each field.
#[derive(Debug, Clone)]
pub struct Origin {
    file: PathBuf,
    document: Arc<Located>,
    /// Before the name of each field: of a companion, `companions[N].`.
    within: String,
}

impl Origin {
    /// Of the gate file itself.
    pub(super) fn new(file: &Path, document: Located) -> Self {
        Self { file: file.to_owned(), document: Arc::new(document), within: String::new() }
    }

    /// Of a part of it.
    #[must_use]
    pub(super) fn within(&self, field: &str) -> Self {
        Self { within: format!("{}{field}.", self.within), ..self.clone() }
    }

    pub(super) fn document(&self) -> &Located {
        &self.document
    }

    /// A field such as `database.init[0]` with its place: `FILE:LINE:COLUMN: FIELD`. The place of a field that the file
    /// does not have is that of the part that lacks it.
    pub fn at(&self, field: &str) -> String {
        let field = format!("{}{field}", self.within);
        let found = self.document.finding(&findings::path(&field), "");
        format!("{}:{}:{}: {field}", self.file.display(), found.line, found.column)
    }
}
