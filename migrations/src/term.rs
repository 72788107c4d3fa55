//! The term under which a schema is changed: the database's own fence.

use std::fmt;

/// One leadership: the leader key's create revision in etcd, and a random id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Rises with every leadership.
    pub revision: i64,
    /// Random; distinguishes a restored store from the former one.
    pub id: String,
}

impl Term {
    /// The name under which the engine's sessions show in the database.
    pub(crate) fn session_name(&self) -> String {
        format!("tidegate/{}/schema", self.revision)
    }

    /// The revision in a name made by [`Term::session_name`].
    pub(crate) fn revision_of_session(name: &str) -> Option<i64> {
        name.strip_prefix("tidegate/")?.strip_suffix("/schema")?.parse().ok()
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.revision, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_names_its_term() {
        let term = Term { revision: 77, id: "x".into() };
        assert_eq!(Term::revision_of_session(&term.session_name()), Some(77));
        assert_eq!(Term::revision_of_session("pantry/2/node-1"), None);
    }
}
