//! What a witness says against the store.

use std::fmt;
use tidegate_proto::{Revision, TermId};

/// What a witness says against the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Against {
    /// It obeyed a term that the store does not know.
    UnknownTerm(TermId),
    /// It obeyed a directive of a term that, by the store, had ended before.
    EndedTerm(TermId),
    /// It holds a record of a later revision than the store's own.
    Ahead {
        /// Which record.
        record: &'static str,
        /// The revision that it holds.
        holds: Revision,
        /// The one that the store has; 0 = none.
        found: Revision,
    },
    /// It obeyed more than the store had when a person disregarded that, and the store has caught up since.
    Overtaken {
        /// The revision that it obeyed.
        obeyed: Revision,
    },
    /// A coordinator saw the store at a later revision.
    Fell {
        /// Where it was.
        seen: Revision,
        /// Where it is now.
        found: Revision,
    },
}

impl fmt::Display for Against {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownTerm(term) => write!(f, "obeyed term {term}, which the store does not know"),
            Self::EndedTerm(term) => {
                write!(f, "obeyed term {term} after the store's next one had begun")
            }
            Self::Ahead { record, holds, found } if found.exists() => {
                write!(f, "holds the {record} of revision {holds}, and the store has the one of {found}")
            }
            Self::Ahead { record, holds, .. } => {
                write!(f, "holds the {record} of revision {holds}, and the store has none")
            }
            Self::Overtaken { obeyed } => {
                write!(f, "had obeyed revision {obeyed}, and the store was behind it when it was disregarded")
            }
            Self::Fell { seen, found } => {
                write!(f, "saw the store at revision {seen}, and found it at {found}")
            }
        }
    }
}
