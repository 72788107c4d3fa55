//! The document of the metadata group, as nodes show it.

/// The group's name.
pub(super) const GROUP: &str = "edge";

/// The path of the document on each node.
pub(super) const METADATA_FILE: &str = "/srv/edge.json";

/// A node that shows an earlier document than before.
#[derive(Debug, Clone)]
pub(super) struct Fall {
    /// When.
    pub at: u64,
    /// Which node.
    pub node: String,
    /// The number of the document that it showed.
    pub from: u64,
    /// The one that it shows now.
    pub to: u64,
}

/// The number of the document that a file holds.
pub(super) fn number(file: &[u8]) -> Option<u64> {
    serde_json::from_slice::<serde_json::Value>(file).ok()?.get("n")?.as_u64()
}
