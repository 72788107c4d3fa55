//! The objects of a load, read again at its end.

/// What became of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sweep {
    /// How many were read, or were to be read.
    pub read: usize,
    /// What was wrong with those that are not as they were left.
    pub wrong: Vec<String>,
    /// Why others could not be read: no connection, no answer in time, or an instance that says that it cannot keep up.
    pub unread: Vec<String>,
}

impl Sweep {
    /// Whether all of them were read, and are as they were left.
    pub fn is_good(&self) -> bool {
        self.wrong.is_empty() && self.unread.is_empty()
    }
}
