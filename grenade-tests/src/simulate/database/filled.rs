//! Rows that lack their new form because another database took the place of the one in which they were filled.

use super::Database;
use std::collections::BTreeSet;

impl Database {
    /// The migrations whose fill the engine's history shows as done; none where there is no such history.
    pub(super) async fn filled(&mut self) -> Option<BTreeSet<String>> {
        let done = "(SELECT migration FROM tidegate_history WHERE phase = 'migrate' AND state = 'done')";
        let found = self.texts(done, ("migration", "migration")).await.ok()?;
        Some(found.into_iter().map(|(migration, _)| migration).collect())
    }

    /// Whether rows lack the form of a version since another database took its place, until the engine has filled them.
    pub(crate) async fn lacks_fill(&mut self, version: u32) -> bool {
        if self.unfilled.is_empty() {
            return false;
        }
        let filled = self.filled().await.unwrap_or_default();
        self.unfilled.retain(|migration| !filled.contains(migration));
        let last = format!("{version:04}_change");
        self.unfilled.iter().any(|migration| *migration <= last)
    }
}
