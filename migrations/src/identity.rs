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
