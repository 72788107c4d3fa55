//! Which schema it is.

use crate::term::Term;

/// The random id that a schema keeps in its own database.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SchemaId(pub String);

impl std::fmt::Display for SchemaId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who a schema is and whom it obeyed last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaIdentity {
    /// None until the first claim.
    pub id: Option<SchemaId>,
    /// The last term it obeyed; none until the first claim.
    pub term: Option<Term>,
}

/// What a database has to be before its term is raised.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expected {
    /// The schema that it holds; none = whichever it is, and a new one where it holds none.
    pub schema: Option<SchemaId>,
    /// The term that it obeyed when it was looked at, if any; none = it was not looked at, and any lower one is raised.
    pub term: Option<Option<Term>>,
}
