//! Everything that is wrong with a file, gathered in one reading of it.

/// What is wrong, each with the field that it is wrong with.
#[derive(Debug, Default)]
pub struct Findings(Vec<String>);

impl Findings {
    /// One more.
    pub fn add(&mut self, field: &str, what: impl std::fmt::Display) {
        self.0.push(format!("{field}: {what}"));
    }

    /// Everything that was found.
    pub fn all(&self) -> &[String] {
        &self.0
    }

    /// The value, or a finding.
    pub fn good<T>(&mut self, field: &str, tried: Result<T, String>) -> Option<T> {
        tried.map_err(|what| self.add(field, what)).ok()
    }
}
