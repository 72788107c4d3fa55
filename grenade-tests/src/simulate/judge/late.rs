//! Instances that use the form which a rollback undoes or has undone, where neither a coordinator nor an agent could know of
//! them in time.

use super::Facts;
use crate::simulate::slot::At;

impl Facts {
    /// Whether an instance came only after a rollback that undid what its version uses, or no component can know of it: it is
    /// in rotation, and its agent was never heard, or only by a store that was lost, or once the rollback had ended.
    pub(in crate::simulate) fn is_late(&self, at: At, version: u32, now: u64) -> bool {
        let undoing = self.services.get(at.0).and_then(|service| service.undoing);
        let uses_it = undoing.is_some_and(|(needs, _)| version >= needs);
        let is_unknown = !self.silent.is_known(at)
            || self.is_untraced(at, now)
            || self.is_lost_with_its_store(at, now)
            || self.is_heard_in_vain(at);
        self.late.contains(&at) || uses_it && is_unknown
    }

    /// Whether the agent of an instance has obeyed a store that was lost, nothing names the instance to the store that is there
    /// now, and its agent is kept from reporting to that: no component can know of it, also where it has acknowledged a window.
    pub(super) fn is_lost_with_its_store(&self, at: At, now: u64) -> bool {
        let is_unnamed = self.obeyed.former.contains(&at) && !self.silent.is_named(at);
        is_unnamed && self.is_kept_from_reporting(at, now)
    }

    /// Whether nothing named an instance to the store in which the last rollback of its schema ended, and its agent, which was
    /// heard too late for that, does not take it out: it can do no more than put the disable-file beside which the instance
    /// answers 200, or it has obeyed a store that was lost, and leaves in rotation what that had admitted. The latter has no
    /// end in time: such an agent may obey nothing before a person covers its claim, and no coordinator orders it to drain
    /// while no upgrade in the store says how many must stay.
    fn is_heard_in_vain(&self, at: At) -> bool {
        let service =
            self.services.get(at.0).filter(|service| service.undoing.is_some_and(|(_, is_over)| is_over));
        let undone = service.and_then(|service| service.undone.as_ref());
        let is_left = self.unheeded.contains(&at) || self.obeyed.former.contains(&at);
        is_left && undone.is_some_and(|(_, then)| self.silent.was_unheard(at, then))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SEEN, ServiceFacts};
    use super::*;

    const PLACE: At = (0, 0);

    /// The judge of a newcomer at version 2, which the lost store had admitted. Its agent has obeyed that store, and is cut off
    /// since before a copy took its place, which was reconciled long ago. A rollback undoes what version 2 uses.
    fn facts() -> Facts {
        let mut service = ServiceFacts { windows: vec![(1_000, 1, 2)], ..ServiceFacts::default() };
        service.loses_its_store(10_000);
        service.has_no_window = false;
        service.windows.extend([(10_000, 1, 2), (30_000, 1, 1)]);
        service.is_obeyed_again(20_000);
        service.undoing = Some((2, false));
        let mut judged = Facts { services: vec![service], bound: [PLACE].into(), ..Facts::default() };
        judged.silent.admitted(PLACE, 0);
        judged.silent.begin_again();
        judged.obeyed.former.insert(PLACE);
        judged.agents_cut.insert(PLACE.1, u64::MAX);
        judged
    }

    /// What else makes the newcomer known, or shows that it could be.
    const KNOWN: [(&str, fn(&mut Facts)); 4] = [
        ("its agent has obeyed no store that was lost", |judged| judged.obeyed.former.clear()),
        ("the copy has its admission", |judged| judged.silent.admitted(PLACE, 0)),
        ("the copy had a report of it", |judged| judged.silent.reported(PLACE, 0)),
        ("it has reached the store for long enough", |judged| judged.reconnected(PLACE.1, 60_000 - SEEN)),
    ];

    #[test]
    fn newcomer_lost_with_its_store_is_late() {
        let is_late = |version: u32, change: fn(&mut Facts)| {
            let mut judged = facts();
            change(&mut judged);
            judged.is_late(PLACE, version, 60_000)
        };
        assert!(is_late(2, |_| ()));
        assert!(!is_late(1, |_| ()), "it does not use the form");
        assert!(!is_late(2, |judged| judged.services[0].undoing = None), "nothing is undone");
        for (why, change) in KNOWN {
            assert!(!is_late(2, change), "{why}");
        }
    }

    /// Its agent reaches the copy only once the rollback has ended, and obeys nothing of it.
    #[test]
    fn newcomer_of_a_lost_store_heard_after_a_rollback_is_late() {
        let is_late = |before: fn(&mut Facts), after: fn(&mut Facts)| {
            let mut judged = facts();
            before(&mut judged);
            judged.services[0].undoing = Some((2, true));
            judged.services[0].undone = Some((2, judged.silent.counted()));
            judged.reconnected(PLACE.1, 50_000);
            judged.silent.reported(PLACE, 50_000);
            after(&mut judged);
            judged.is_late(PLACE, 2, 60_000)
        };
        assert!(is_late(|_| (), |_| ()));
        assert!(!is_late(|judged| judged.silent.reported(PLACE, 0), |_| ()), "the rollback waits for it");
        assert!(!is_late(|judged| judged.silent.admitted(PLACE, 0), |_| ()), "the copy knew of it");
        assert!(!is_late(|_| (), |judged| judged.starts_without_journal(PLACE)), "its agent refuses it");
        assert!(!is_late(|_| (), |judged| judged.services[0].undoing = None), "an upgrade goes on");
    }

    /// Its health URL fails for a while, and its agent is cut off all the time.
    #[test]
    fn newcomer_lost_with_its_store_comes_in_again() {
        let broken = |change: fn(&mut Facts)| {
            let mut judged = facts();
            change(&mut judged);
            judged.came_in(60_000, PLACE, (2, None), "pantry/n0");
            judged.breaches.first().map(|breach| breach.rule)
        };
        assert_eq!(broken(|_| ()), None);
        let outside = |judged: &mut Facts| judged.services[0].former = Some((35_000, vec![1..=1]));
        assert_eq!(broken(outside), Some(2), "the window of the lost store does not admit it");
        for (why, change) in KNOWN {
            assert_eq!(broken(change), Some(2), "{why}");
        }
    }
}
