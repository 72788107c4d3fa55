//! What gate jobs have found.

use super::Fleet;
use std::collections::BTreeMap;
use tidegate_proto::record::evidence::Verdict;
use tidegate_proto::{Key, Revision};

/// Each verdict, by its key, with its mod_revision.
pub(super) type GateVerdicts = BTreeMap<Key, (Verdict, Revision)>;

impl Fleet {
    /// The verdict of a gate job under this key, and its mod_revision.
    pub fn gate_verdict(&self, key: &Key) -> Option<(Verdict, Revision)> {
        self.gates.get(key).copied()
    }
}
