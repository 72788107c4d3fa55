//! A few names out of many, for sentences.

use serde::{Deserialize, Serialize};
use std::fmt;
use tidegate_proto::NodeId;

/// A few names out of many, and how many there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The first of them.
    pub first: Vec<NodeId>,
    /// How many in all.
    pub count: usize,
}

impl Sample {
    /// How many are named.
    pub const NAMED: usize = 5;

    /// A sample of `nodes`; `count` is their number.
    pub fn of<'a>(nodes: impl Iterator<Item = &'a NodeId>, count: usize) -> Self {
        Self { first: nodes.take(Self::NAMED).cloned().collect(), count }
    }

    /// A sample of nodes that have to be counted.
    pub fn counted<'a>(nodes: impl Iterator<Item = &'a NodeId>) -> Self {
        let mut sample = Self::default();
        for node in nodes {
            if sample.count < Self::NAMED {
                sample.first.push(node.clone());
            }
            sample.count += 1;
        }
        sample
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.first.iter().map(NodeId::as_str).collect();
        f.write_str(&names.join(", "))?;
        match self.count - self.first.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
