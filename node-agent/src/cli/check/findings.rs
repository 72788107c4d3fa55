//! What a check has found.

use crate::config::Service;
use std::path::Path;

/// What was found: what keeps the agent from its work, and what may be as it should.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) blocking: Vec<String>,
    pub(super) notes: Vec<String>,
}

impl Findings {
    pub(super) fn wrong(&mut self, service: &Service, what: impl std::fmt::Display) {
        self.blocking.push(format!("service {}: {what}", service.name));
    }

    pub(super) fn note(&mut self, service: &Service, what: impl std::fmt::Display) {
        self.notes.push(format!("service {}: {what}", service.name));
    }
}

pub(super) fn parent(file: &Path) -> &Path {
    match file.parent() {
        // A relative name.
        Some(here) if here.as_os_str().is_empty() => Path::new("."),
        directory => directory.unwrap_or(Path::new("/")),
    }
}
