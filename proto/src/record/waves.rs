//! Who is in which wave, in pages, drawn when the roll begins and not changed by who comes or goes afterwards.

use super::Body;
use crate::NodeId;
use serde::{Deserialize, Serialize};

/// The most instances on one page.
pub const PAGE_MEMBERS: usize = 1000;

/// One page: nodes of consecutive waves, in the order in which they are taken.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WavePage {
    /// The nodes with their wave, counted from 0.
    pub members: Vec<(NodeId, u32)>,
}

impl Body for WavePage {
    const SCHEMA: u32 = 1;
}
