//! Instances that a person shows: the disable-file was removed, or nothing heeds it.

use super::super::slot::{At, Slot};
use super::{Facts, OLD, SEEN};

impl Facts {
    /// An instance is in again, or may be, without its agent: a person removed the disable-file, or nothing heeds it.
    pub(in crate::simulate) fn shown_again(&mut self, now: u64, at: At) {
        self.shown.insert(at, now);
    }

    /// A person removes the disable-file of an instance.
    pub(in crate::simulate) fn person_removed_file(&mut self, now: u64, at: At) {
        self.shown_again(now, at);
        self.file_removed.insert(at, now);
    }

    /// Whether the agent of an instance may not have seen yet that a person removed the disable-file. Beside a person's file it
    /// puts none of its own, so that what it refuses comes in with the removal, or once its health URL answers 200 after that. An
    /// agent that has seen it puts its file, and one that starts a release looks right before that.
    pub(super) fn is_removal_unseen(&self, at: At, now: u64) -> bool {
        self.file_removed.get(&at).is_some_and(|removed| now < removed + SEEN)
    }

    /// Whether a person showed an instance not `OLD` ago at a version that the window does not admit. Its agent hides it again,
    /// but does not run beside a second one of its node until the lease of that has ended. A release that began to run there
    /// later is none that a person showed.
    pub(in crate::simulate) fn is_shown_outside(&self, at: At, slot: &Slot, now: u64) -> bool {
        let is_of_it = |shown: &u64| slot.release_since <= *shown && now < shown + OLD;
        let is_shown = self.shown.get(&at).is_some_and(is_of_it);
        let service = self.services.get(at.0).filter(|_| is_shown);
        let version = slot.alive(now).map(|run| run.is.version);
        service.zip(version).is_some_and(|(service, version)| !service.admitted().contains(&version))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ServiceFacts;
    use super::*;
    use crate::simulate::slot::{Behaviour, Running};

    const PLACE: At = (0, 0);

    /// A release of version 2 that was started 10 s after the beginning.
    fn release() -> Slot {
        let is = Behaviour::good(2, 0);
        let running = Running { tag: "pantry-2".to_owned(), is, since: 10_000, pid: 1, put_back: false };
        Slot { running: Some(running), release_since: 10_000, ..Slot::default() }
    }

    /// The judge of a service whose window admits version 1.
    fn facts() -> Facts {
        let service = ServiceFacts { windows: vec![(0, 1, 1)], ..ServiceFacts::default() };
        Facts { services: vec![service], ..Facts::default() }
    }

    #[test]
    fn version_outside_the_window_may_be_shown_for_a_while() {
        let mut judged = facts();
        let slot = release();
        assert!(!judged.is_shown_outside(PLACE, &slot, 60_000), "no person showed it");
        judged.shown_again(60_000, PLACE);
        assert!(judged.is_shown_outside(PLACE, &slot, 60_000 + OLD - 1));
        assert!(!judged.is_shown_outside(PLACE, &slot, 60_000 + OLD), "its agent has had time to hide it");
        let later = Slot { release_since: 60_001, ..release() };
        assert!(!judged.is_shown_outside(PLACE, &later, 60_001), "its agent has started it since");
        judged.services[0].windows.push((1_000, 1, 2));
        assert!(!judged.is_shown_outside(PLACE, &slot, 60_000), "the window admits it");
    }

    #[test]
    fn removed_file_lets_in_until_its_agent_can_see_that() {
        let broken = |now: u64, change: fn(&mut Facts)| {
            let mut judged = facts();
            judged.person_removed_file(60_000, PLACE);
            change(&mut judged);
            judged.came_in(now, PLACE, (2, None), "pantry/n0");
            judged.breaches.first().map(|breach| breach.rule)
        };
        assert_eq!(broken(59_999 + SEEN, |_| ()), None);
        assert_eq!(broken(60_000 + SEEN, |_| ()), Some(2), "its agent has had time to hide it");
        assert_eq!(broken(61_000, |judged| judged.started(PLACE, 2)), Some(2), "its agent has looked since");
        let is_of_another = |judged: &mut Facts| {
            judged.file_removed.clear();
            judged.person_removed_file(60_000, (0, 1));
        };
        assert_eq!(broken(61_000, is_of_another), Some(2), "the file of another instance was removed");
    }
}
