//! What gate jobs have found.

use super::{Fleet, Stored};
use std::collections::BTreeMap;
use tidegate_proto::record::evidence::Verdict;
use tidegate_proto::record::gate::GateVerdict;
use tidegate_proto::{Key, Revision};

/// What is recorded of gate jobs, by its key.
pub(super) type GateVerdicts = BTreeMap<Key, Stored<GateVerdict>>;

impl Fleet {
    /// The verdict of a gate job under this key, and its mod_revision.
    pub fn gate_verdict(&self, key: &Key) -> Option<(Verdict, Revision)> {
        self.gate_record(key).map(|stored| (stored.record.body.verdict, stored.at))
    }

    /// What is recorded of gate jobs under this key.
    pub fn gate_record(&self, key: &Key) -> Option<&Stored<GateVerdict>> {
        self.gates.get(key)
    }
}
