//! Which instances are silent by the store, and since when, as far as version gates go.

use super::slot::At;
use std::collections::{BTreeMap, BTreeSet};

/// Silent instances.
#[derive(Debug, Default)]
pub(super) struct SilentInstances {
    /// Those that were admitted, and not decommissioned since; each with the number of its first admission.
    admitted: BTreeMap<At, u64>,
    /// Those that a person decommissioned, and that were not admitted since.
    decommissioned: BTreeSet<At>,
    /// Those that have reported, and were not decommissioned since.
    returned: BTreeSet<At>,
    /// How many admissions there were, in all stores.
    admissions: u64,
    /// Those that a store has admitted, also one that was lost.
    known: BTreeSet<At>,
    /// Those that have reported to the store as it is now.
    heard: BTreeSet<At>,
    silent: BTreeMap<At, Silence>,
    /// When those that had been silent were heard again.
    heard_again: BTreeMap<At, u64>,
}

/// What the store knew of instances at a moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    /// How many admissions there were, in all stores. Their number tells what came first within a millisecond.
    admissions: u64,
    /// Those that counted.
    counts: BTreeSet<At>,
    /// Those that a person had decommissioned.
    decommissioned: BTreeSet<At>,
    /// Those that had reported.
    heard: BTreeSet<At>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Silence {
    /// Since when it is silent, or counts again while it is.
    since: u64,
    /// There is an unreadable report.
    is_unreadable: bool,
}

impl SilentInstances {
    /// An instance reported, and can be read.
    pub(super) fn reported(&mut self, at: At, now: u64) {
        self.heard.insert(at);
        self.returned.insert(at);
        if self.silent.remove(&at).is_some() {
            self.heard_again.insert(at, now);
        }
    }

    /// Since when it has not been silent: 0 where it never was, none while it is.
    pub(super) fn heard_since(&self, at: At) -> Option<u64> {
        let is_heard = !self.silent.contains_key(&at);
        is_heard.then(|| self.heard_again.get(&at).copied().unwrap_or(0))
    }

    /// Its report is gone, or cannot be read.
    pub(super) fn lost(&mut self, at: At, now: u64, is_unreadable: bool) {
        let silence = self.silent.entry(at).or_insert(Silence { since: now, is_unreadable });
        silence.is_unreadable = is_unreadable;
    }

    /// Another store took the place of the one in which all this was.
    pub(super) fn begin_again(&mut self) {
        let known = std::mem::take(&mut self.known);
        *self = Self { admissions: self.admissions, known, ..Self::default() };
    }

    /// It was admitted. Where it did not count before, as after a decommission, its silence closes gates only from now on.
    pub(super) fn admitted(&mut self, at: At, now: u64) {
        self.admissions += 1;
        self.known.insert(at);
        self.decommissioned.remove(&at);
        if !self.counts(at)
            && let Some(silence) = self.silent.get_mut(&at)
        {
            silence.since = silence.since.max(now);
        }
        self.admitted.entry(at).or_insert(self.admissions);
    }

    /// A person decommissioned it.
    pub(super) fn decommissioned(&mut self, at: At) {
        self.admitted.remove(&at);
        self.decommissioned.insert(at);
        self.returned.remove(&at);
    }

    /// Whether a person decommissioned it, and it was not admitted since.
    pub(super) fn is_decommissioned(&self, at: At) -> bool {
        self.decommissioned.contains(&at)
    }

    /// Whether a person decommissioned it, and it was neither admitted nor heard since.
    pub(super) fn is_gone(&self, at: At) -> bool {
        self.is_decommissioned(at) && !self.returned.contains(&at)
    }

    /// Whether it counts: it was admitted once, and not decommissioned.
    pub(super) fn counts(&self, at: At) -> bool {
        self.admitted.contains_key(&at)
    }

    /// What the store knows now.
    pub(super) fn counted(&self) -> Counted {
        Counted {
            admissions: self.admissions,
            counts: self.admitted.keys().copied().collect(),
            decommissioned: self.decommissioned.clone(),
            heard: self.heard.clone(),
        }
    }

    /// Whether the store, as it is now, has its admission, or the decommission of what was admitted.
    pub(super) fn is_recorded(&self, at: At) -> bool {
        self.counts(at) || self.is_known(at) && self.is_decommissioned(at)
    }

    /// Whether the store, as it is now, has its admission, the decommission of what was admitted, or had a report of it.
    pub(super) fn is_named(&self, at: At) -> bool {
        self.is_recorded(at) || self.heard.contains(&at)
    }

    /// Whether a store has ever admitted it.
    pub(super) fn is_known(&self, at: At) -> bool {
        self.known.contains(&at)
    }

    /// Whether it counts only since a moment, or does not count, and the store of that moment did not know it. One that was
    /// decommissioned then was known for as long as it still is: it came after where that was lost with its store.
    pub(super) fn came_after(&self, at: At, then: &Counted) -> bool {
        let is_still_gone = then.decommissioned.contains(&at) && self.is_decommissioned(at);
        let was_known = then.counts.contains(&at) || is_still_gone;
        self.admitted.get(&at).map_or(!was_known, |since| *since > then.admissions)
    }

    /// The same of one that had not reported to the store of that moment either: nothing there named it.
    pub(super) fn was_unheard(&self, at: At, then: &Counted) -> bool {
        self.came_after(at, then) && !then.heard.contains(&at)
    }

    /// The instances of a service that have counted and been silent since before `then`, each with the rule that a version
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
        silent.admitted((0, 1), 0);
        assert_eq!(silent.silent_since(0, 5), [], "it fell silent only then");
        assert_eq!(silent.silent_since(0, 10), [((0, 1), 3)]);
        silent.lost((0, 1), 8, true);
        assert_eq!(silent.silent_since(0, 6), [((0, 1), 11)], "silent since 5, unreadable by now");
        silent.decommissioned((0, 1));
        assert_eq!(silent.silent_since(0, 10), []);
        silent.admitted((0, 1), 0);
        silent.reported((0, 1), 11);
        assert_eq!(silent.silent_since(0, 10), []);
    }

    #[test]
    fn decommissioned_one_is_gone_until_it_reports() {
        let mut silent = SilentInstances::default();
        silent.admitted((0, 1), 0);
        silent.reported((0, 1), 5);
        silent.lost((0, 1), 10, false);
        assert!(!silent.is_gone((0, 1)), "it counts");
        silent.decommissioned((0, 1));
        assert!(silent.is_gone((0, 1)));
        silent.reported((0, 1), 20);
        silent.lost((0, 1), 30, false);
        assert!(silent.is_decommissioned((0, 1)) && !silent.is_gone((0, 1)), "its report has voided that");
        silent.decommissioned((0, 1));
        assert!(silent.is_gone((0, 1)), "a person decommissioned it once more");
    }

    #[test]
    fn silence_counts_from_the_end_of_a_decommission() {
        let mut silent = SilentInstances::default();
        silent.admitted((0, 1), 0);
        silent.lost((0, 1), 5, false);
        silent.decommissioned((0, 1));
        silent.admitted((0, 1), 40);
        assert_eq!(silent.silent_since(0, 40), [], "it counts only from then on");
        silent.admitted((0, 1), 50);
        assert_eq!(silent.silent_since(0, 41), [((0, 1), 3)], "it counted before the second admission");
    }

    #[test]
    fn it_counts_from_its_first_admission_on() {
        let mut silent = SilentInstances::default();
        assert!(silent.came_after((0, 1), &silent.counted()), "no store knows of it");
        silent.admitted((0, 1), 0);
        let end = &silent.counted();
        silent.admitted((0, 2), 0);
        silent.admitted((0, 1), 0);
        assert!(!silent.came_after((0, 1), end), "its second admission changes nothing");
        assert!(silent.came_after((0, 2), end));
        silent.decommissioned((0, 1));
        assert!(!silent.came_after((0, 1), end), "it was admitted before");
        assert!(silent.is_decommissioned((0, 1)));
        silent.admitted((0, 1), 0);
        assert!(silent.came_after((0, 1), end), "it did not count meanwhile");
        assert!(!silent.is_decommissioned((0, 1)), "it counts again");
    }

    #[test]
    fn admission_by_a_lost_store_is_remembered() {
        let mut silent = SilentInstances::default();
        silent.admitted((0, 1), 0);
        let end = &silent.counted();
        silent.begin_again();
        assert!(!silent.counts((0, 1)) && silent.is_known((0, 1)));
        assert!(!silent.came_after((0, 1), end), "a former store knew of it");
        assert!(silent.came_after((0, 2), end));
        silent.admitted((0, 1), 0);
        assert!(silent.came_after((0, 1), end), "this store admitted it only then");
        silent.admitted((0, 3), 0);
        silent.begin_again();
        assert!(!silent.came_after((0, 1), end), "the first store knew of it");
        assert!(silent.came_after((0, 3), end), "the first store that knew of it admitted it only then");
    }

    #[test]
    fn what_a_restored_store_does_not_know_comes_after() {
        let mut silent = SilentInstances::default();
        silent.admitted((0, 1), 0);
        silent.begin_again();
        let end = &silent.counted();
        assert!(silent.is_known((0, 1)) && silent.came_after((0, 1), end), "this store never knew of it");
        silent.decommissioned((0, 1));
        assert!(silent.came_after((0, 1), end), "it was decommissioned only after the end");
    }

    #[test]
    fn decommission_lost_with_its_store_binds_nothing() {
        let mut silent = SilentInstances::default();
        silent.admitted((0, 1), 0);
        silent.admitted((0, 2), 0);
        silent.decommissioned((0, 1));
        let end = &silent.counted();
        assert!(!silent.came_after((0, 1), end), "an order waits for it");
        silent.begin_again();
        assert!(silent.came_after((0, 1), end), "the order is lost");
        assert!(!silent.came_after((0, 2), end), "it counted at the end");
        silent.decommissioned((0, 1));
        assert!(!silent.came_after((0, 1), end), "the copy has the order");
    }
}
