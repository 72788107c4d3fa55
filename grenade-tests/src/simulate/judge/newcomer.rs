//! Newcomers that a copy of the store admitted before a person reconciled it, under a window that was set by hand and that the
//! lost store had narrowed. Their agents remember no later window, and no coordinator acts in a store that is contradicted.

use super::{Facts, ServiceFacts};
use crate::simulate::slot::At;
use std::ops::RangeInclusive;

impl ServiceFacts {
    /// What the windows of the lost store admitted, while no person has reconciled the copy that took its place.
    fn unreconciled(&self) -> Option<&[RangeInclusive<u32>]> {
        self.former.as_ref().filter(|(until, _)| *until == u64::MAX).map(|(_, former)| former.as_slice())
    }

    /// Whether only a window that a person set by hand admits this version, and the lost store had narrowed it.
    fn is_narrowed_by_lost_store(&self, version: u32) -> bool {
        let by_hand = self.by_hand.as_ref().is_some_and(|admitted| admitted.contains(&version));
        let left_out = |former: &[RangeInclusive<u32>]| former.iter().all(|range| !range.contains(&version));
        by_hand && self.unreconciled().is_some_and(left_out)
    }
}

impl Facts {
    /// The store admits an instance at this version.
    pub(in crate::simulate) fn admits(&mut self, at: At, version: u32) {
        let is_new = !self.obeyed.former.contains(&at);
        let service = self.services.get_mut(at.0).filter(|_| is_new);
        if let Some(service) = service.filter(|service| service.is_narrowed_by_lost_store(version)) {
            service.newcomers.insert(at.1, version);
        }
    }

    /// A release is started. Once the store is reconciled, that needs another admission.
    pub(super) fn newcomer_starts(&mut self, at: At) {
        let service = self.services.get_mut(at.0);
        if let Some(service) = service.filter(|service| service.unreconciled().is_none()) {
            service.newcomers.remove(&at.1);
        }
    }

    /// Whether an instance is such a newcomer at this version: until it is started again after the reconciliation, a window
    /// leaves that version out, or an upgrade of the service rolls, it may meet rows that are not filled.
    pub(in crate::simulate) fn is_newcomer_of_copy(&self, at: At, version: u32) -> bool {
        self.services.get(at.0).is_some_and(|service| service.newcomers.get(&at.1) == Some(&version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_proto::ServiceVersion;
    use tidegate_proto::record::window::{BY_OPERATOR, Window};

    const PLACE: At = (0, 0);

    fn window(ceiling: i64, set_by: &str) -> Window {
        let version = |number: i64| ServiceVersion::new(number).unwrap();
        let set_by = set_by.parse().unwrap();
        Window { floor: version(1), ceiling: version(ceiling), set_by, contracted: None }
    }

    /// Whether it is judged what a newcomer at version 2 reads. The lost store had narrowed the window to [1, 1], and its copy
    /// has [1, 2], set by hand.
    fn is_judged(before: impl FnOnce(&mut Facts), after: impl FnOnce(&mut Facts)) -> bool {
        let mut judged = Facts { services: vec![ServiceFacts::default()], ..Facts::default() };
        judged.services[0].goes_by(&window(1, "u0"), 1_000);
        judged.services[0].loses_its_store(10_000);
        judged.services[0].goes_by(&window(2, BY_OPERATOR), 10_000);
        before(&mut judged);
        judged.admits(PLACE, 2);
        judged.started(PLACE, 2);
        after(&mut judged);
        !judged.is_newcomer_of_copy(PLACE, 2)
    }

    #[test]
    fn copy_admits_newcomers_by_a_window_set_by_hand() {
        assert!(!is_judged(|_| (), |_| ()));
        let others: [(&str, fn(&mut Facts)); 5] = [
            ("an upgrade set it", |judged| judged.services[0].goes_by(&window(2, "u0"), 10_000)),
            ("the copy has no window", |judged| judged.services[0].loses_its_store(11_000)),
            ("the lost store admitted it", |judged| {
                judged.services[0].former = Some((u64::MAX, vec![1..=2]))
            }),
            ("the store is reconciled", |judged| judged.services[0].is_obeyed_again(11_000)),
            ("its agent obeyed the lost store", |judged| judged.obeyed.former.extend([PLACE])),
        ];
        for (why, other) in others {
            assert!(is_judged(other, |_| ()), "{why}");
        }
        let no_store_is_lost = |judged: &mut Facts| judged.services[0].former = None;
        assert!(is_judged(no_store_is_lost, |_| ()));
    }

    #[test]
    fn reconciled_newcomer_is_judged_once_it_starts_again() {
        let reconciled = |judged: &mut Facts| judged.services[0].is_obeyed_again(20_000);
        let is_judged_after = |after: fn(&mut Facts)| {
            is_judged(
                |_| (),
                |judged| {
                    reconciled(judged);
                    after(judged);
                },
            )
        };
        assert!(!is_judged_after(|_| ()), "it still runs");
        assert!(!is_judged_after(|judged| judged.admits(PLACE, 2)), "what runs is admitted once more");
        assert!(is_judged_after(|judged| judged.started(PLACE, 2)));
        let is_left_out = is_judged_after(|judged| {
            judged.services[0].goes_by(&window(1, "u0"), 21_000);
            judged.services[0].is_obeyed_again(21_000);
        });
        assert!(is_left_out, "a window leaves it out");
        assert!(!is_judged(|_| (), |judged| judged.started(PLACE, 2)), "the store is not reconciled yet");
    }
}
