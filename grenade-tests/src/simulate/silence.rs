//! Which instances are silent by the store, and since when, as far as version gates go.

use super::slot::At;
use std::collections::BTreeMap;

/// Silent instances.
#[derive(Debug, Default)]
pub(super) struct SilentInstances {
    /// Those that were admitted, and not decommissioned since; each with when that was first.
    admitted: BTreeMap<At, u64>,
    silent: BTreeMap<At, Silence>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Silence {
    since: u64,
    /// There is an unreadable report.
    is_unreadable: bool,
}

impl SilentInstances {
    /// An instance reported, and can be read.
    pub(super) fn reported(&mut self, at: At) {
        self.silent.remove(&at);
    }

    /// Its report is gone, or cannot be read.
    pub(super) fn lost(&mut self, at: At, now: u64, is_unreadable: bool) {
        let silence = self.silent.entry(at).or_insert(Silence { since: now, is_unreadable });
        silence.is_unreadable = is_unreadable;
    }

    /// It was admitted.
    pub(super) fn admitted(&mut self, at: At, now: u64) {
        self.admitted.entry(at).or_insert(now);
    }

    /// A person decommissioned it.
    pub(super) fn decommissioned(&mut self, at: At) {
        self.admitted.remove(&at);
    }

    /// Whether it counts: it was admitted once, and not decommissioned.
    pub(super) fn counts(&self, at: At) -> bool {
        self.admitted.contains_key(&at)
    }

    /// Since when it counts.
    pub(super) fn counts_since(&self, at: At) -> Option<u64> {
        self.admitted.get(&at).copied()
    }

    /// The instances of a service that count and have been silent since before `then`, each with the rule that a version
    /// gate breaks if it opens.
    pub(super) fn silent_since(&self, service: usize, then: u64) -> Vec<(At, u8)> {
        let of = self.silent.iter().filter(|(at, silence)| at.0 == service && silence.since < then);
        let counted = of.filter(|(at, _)| self.counts(**at));
        counted.map(|(at, silence)| (*at, if silence.is_unreadable { 11 } else { 3 })).collect()
    }

    /// Falsifies what is known: an instance has been silent since the beginning.
    pub(super) fn falsify(&mut self, at: At, is_unreadable: bool) {
        self.silent.insert(at, Silence { since: 0, is_unreadable });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_counts_until_a_report_or_a_decommission() {
        let mut silent = SilentInstances::default();
        silent.lost((0, 1), 5, false);
        assert_eq!(silent.silent_since(0, 10), [], "it was never admitted");
        silent.admitted((0, 1), 5);
        assert_eq!(silent.silent_since(0, 5), [], "it fell silent only then");
        assert_eq!(silent.silent_since(0, 10), [((0, 1), 3)]);
        silent.lost((0, 1), 8, true);
        assert_eq!(silent.silent_since(0, 6), [((0, 1), 11)], "silent since 5, unreadable by now");
        silent.decommissioned((0, 1));
        assert_eq!(silent.silent_since(0, 10), []);
        silent.admitted((0, 1), 12);
        silent.reported((0, 1));
        assert_eq!(silent.silent_since(0, 10), []);
    }

    #[test]
    fn it_counts_from_its_first_admission_on() {
        let mut silent = SilentInstances::default();
        assert_eq!(silent.counts_since((0, 1)), None);
        silent.admitted((0, 1), 5);
        silent.admitted((0, 1), 8);
        assert_eq!(silent.counts_since((0, 1)), Some(5));
        silent.decommissioned((0, 1));
        silent.admitted((0, 1), 12);
        assert_eq!(silent.counts_since((0, 1)), Some(12), "it did not count meanwhile");
    }
}
