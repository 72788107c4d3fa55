//! Bumped by every commit that takes instances of a service out of rotation, so that two of them can never both
//! believe the same capacity to be free. A leader also writes it before such a commit where it has to see how old its view
//! is: nothing is taken by that.

use super::Body;
use crate::TermId;
use serde::{Deserialize, Serialize};

/// The last commit that took instances out, or was about to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Budget {
    /// The term that made it.
    pub term: TermId,
    /// How many instances it took out; 0 = none, it confirmed the view.
    pub taken: u32,
}

impl Body for Budget {
    const SCHEMA: u32 = 1;
}
