//! What a falsification is about.

/// What a history must hold for a falsification of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// A completed upgrade with a schema.
    Completed,
    /// The same, whose spec requires a gate job.
    Required,
    /// A rollback that ended.
    RolledBack,
    /// Any: the falsification brings its own records.
    Anything,
}
