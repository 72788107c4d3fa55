//! Everything that is wrong with a file, gathered in one reading of it.

use tidegate_planner::document::{Finding, Located};

/// What is wrong, each with the field that it is wrong with.
#[derive(Debug, Default)]
pub struct Findings(Vec<(String, String)>);

impl Findings {
    /// One more.
    pub fn add(&mut self, field: &str, what: impl std::fmt::Display) {
        self.0.push((field.to_owned(), what.to_string()));
    }

    /// Those of a part, whose fields are below `field`.
    pub fn add_within(&mut self, field: &str, inner: Self) {
        self.0.extend(inner.0.into_iter().map(|(below, what)| (format!("{field}.{below}"), what)));
    }

    /// Those of another reading too.
    pub fn add_all(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// The same, with fields that do not have this prefix.
    #[must_use]
    pub fn without(self, prefix: &str) -> Self {
        let short = |field: String| field.strip_prefix(prefix).map(str::to_owned).unwrap_or(field);
        Self(self.0.into_iter().map(|(field, what)| (short(field), what)).collect())
    }

    /// Everything that was found.
    pub fn all(&self) -> Vec<String> {
        self.0.iter().map(|(field, what)| format!("{field}: {what}")).collect()
    }

    /// Everything that was found, each with its line and column in the document, in their order.
    pub fn located(&self, document: &Located) -> Vec<Finding> {
        let mut all: Vec<Finding> =
            self.0.iter().map(|(field, what)| located(document, field, what)).collect();
        all.sort_by_key(|finding| (finding.line, finding.column));
        all
    }

    /// The value, or a finding.
    pub fn good<T>(&mut self, field: &str, tried: Result<T, String>) -> Option<T> {
        tried.map_err(|what| self.add(field, what)).ok()
    }
}

/// The place of a field such as `load.steps[0].keep`; a note such as ` (read)` is no part of its path.
fn located(document: &Located, field: &str, what: &str) -> Finding {
    Finding { what: format!("{field}: {what}"), ..document.finding(&path(field), what) }
}

/// The path of a field such as `load.steps[0].keep` in its document.
pub fn path(field: &str) -> String {
    field.split(' ').next().unwrap_or_default().replace('[', ".").replace(']', "")
}
