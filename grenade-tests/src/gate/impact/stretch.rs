//! A stretch of time in which both pools got the same load.

use crate::gate::host::HostSeen;
use crate::gate::impact::series::{BLOCK_MS, Series};
use crate::gate::watch::Change;
use crate::load::entry::Entry;

/// Both ledgers of a stretch, and what was seen of the treated pool.
#[derive(Debug, Clone, Default)]
pub struct Stretch {
    /// Of the pool that is upgraded.
    pub treated: Vec<Entry>,
    /// Of its twin.
    pub twin: Vec<Entry>,
    /// What was seen of the instances of the treated pool.
    pub changes: Vec<Change>,
    /// The machine.
    pub host: HostSeen,
}

impl Stretch {
    /// When its last request was due, in milliseconds.
    pub fn length_ms(&self) -> f64 {
        self.treated.iter().chain(&self.twin).map(|entry| entry.scheduled_ms).fold(0.0, f64::max)
    }

    /// The latencies of the pool, and of its twin.
    pub fn series(&self) -> [Series; 2] {
        [&self.treated, &self.twin].map(|entries| Series::of(entries))
    }

    /// Adds what came after it, from the next block on: a block is of one stretch.
    pub fn append(&mut self, mut later: Self) {
        if self.treated.is_empty() && self.twin.is_empty() {
            *self = later;
            return;
        }
        let by = ((self.length_ms() / BLOCK_MS).floor() + 1.0) * BLOCK_MS;
        for entry in later.treated.iter_mut().chain(&mut later.twin) {
            entry.scheduled_ms += by;
            entry.sent_ms += by;
            entry.first_ms = entry.first_ms.map(|at| at + by);
            entry.done_ms += by;
        }
        later.changes.iter_mut().for_each(|change| change.at_ms += by);
        self.treated.append(&mut later.treated);
        self.twin.append(&mut later.twin);
        self.changes.append(&mut later.changes);
        self.host = self.host.worse(later.host);
    }

    /// The instants at which an instance of the treated pool left rotation.
    pub fn drains_ms(&self) -> Vec<f64> {
        let mut serving = std::collections::BTreeMap::new();
        let leaves = |change: &&Change| {
            serving.insert(change.node.clone(), change.in_rotation) == Some(true) && !change.in_rotation
        };
        self.changes.iter().filter(leaves).map(|change| change.at_ms).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::entry::good;

    fn change(at_ms: f64, node: &str, in_rotation: bool) -> Change {
        Change { at_ms, node: node.to_owned(), version: Some(1), in_rotation }
    }

    #[test]
    fn only_an_instance_that_leaves_rotation_is_a_drain() {
        let changes = vec![
            change(0.0, "a", true),
            change(0.0, "b", false),
            change(5.0, "a", false),
            change(6.0, "a", false),
            change(7.0, "a", true),
            change(8.0, "b", true),
            change(9.0, "b", false),
        ];
        assert_eq!(Stretch { changes, ..Stretch::default() }.drains_ms(), [5.0, 9.0]);
    }

    #[test]
    fn appended_stretch_begins_with_its_own_block() {
        let stretch = |at: f64| Stretch {
            treated: vec![good(0, "a", at, 1.0)],
            twin: vec![good(0, "a", at, 1.0)],
            changes: vec![change(at, "a", true)],
            ..Stretch::default()
        };
        let mut whole = Stretch::default();
        whole.append(stretch(11_000.0));
        assert!((whole.length_ms() - 11_000.0).abs() < 1e-9);
        whole.append(stretch(100.0));
        assert!((whole.length_ms() - 15_100.0).abs() < 1e-9, "{}", whole.length_ms());
        assert!((whole.changes[1].at_ms - 15_100.0).abs() < 1e-9);
        assert!((whole.treated[1].latency_ms() - 1.0).abs() < 1e-9);
    }
}
