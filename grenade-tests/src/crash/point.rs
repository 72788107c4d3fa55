//! The name of a place at which a process may end.

use std::fmt;

/// On which side of the act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum When {
    /// It never happens.
    Before,
    /// It has happened, and the process does not know.
    After,
}

impl When {
    /// The other side.
    pub fn other(self) -> Self {
        match self {
            Self::Before => Self::After,
            Self::After => Self::Before,
        }
    }
}

/// A place at which a process may end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// The process, by its name in the world.
    pub process: String,
    /// The kind of step.
    pub kind: String,
    /// Counted from 1 among those of this kind that the process has carried out, over all of its lives.
    pub number: u32,
    /// On which side.
    pub when: When,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.when == When::Before { "before" } else { "after" };
        write!(f, "{} {side} {} ({})", self.process, self.kind, self.number)
    }
}
