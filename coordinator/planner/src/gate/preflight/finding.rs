//! What preflight finds.

/// One thing that preflight found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Finding {
    /// Whether the upgrade cannot go on with it.
    pub blocks: bool,
    /// What was found, and what is needed.
    pub what: String,
}

pub(super) fn blocker(what: impl Into<String>) -> Finding {
    Finding { blocks: true, what: what.into() }
}

pub(super) fn warning(what: impl Into<String>) -> Finding {
    Finding { blocks: false, what: what.into() }
}
