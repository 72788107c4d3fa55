//! Newcomers that a copy of the store admitted before a person reconciled it, under a window that was set by hand and that the
//! lost store had narrowed. Their agents remember no later window, and no coordinator acts in a store that is contradicted.
//! And newcomers above the window that no component can take out of rotation.

use super::{Facts, ServiceFacts};
use crate::simulate::slot::{At, Running};
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

    /// Whether the window that was the last one by then, and each one since, has its ceiling below this version.
    fn stays_below(&self, version: u32, since: u64) -> bool {
        let begun = self.windows.partition_point(|(at, ..)| *at <= since);
        let is_below = |last: usize| self.windows.iter().skip(last).all(|(.., ceiling)| *ceiling < version);
        begun.checked_sub(1).is_some_and(is_below)
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

    /// The store is reconciled, or a window is committed to it: what that leaves out is no such newcomer any more, unless its
    /// agent is kept from learning of it.
    pub(in crate::simulate) fn leaves_newcomers_out(&mut self, now: u64) {
        for place in 0..self.services.len() {
            let admitted = self.services[place].admitted();
            let mut newcomers = std::mem::take(&mut self.services[place].newcomers);
            newcomers.retain(|node, version| {
                admitted.contains(version) || self.is_kept_from_reporting((place, *node), now)
            });
            self.services[place].newcomers = newcomers;
        }
    }

    /// Whether an instance is such a newcomer at this version: until it is started again after the reconciliation, a window
    /// leaves that version out, or an upgrade of the service rolls, it may meet rows that are not filled. Where its agent did
    /// not run or was cut off as the window was set, nothing hides it before the agent can read that window.
    pub(in crate::simulate) fn is_newcomer_of_copy(&self, at: At, version: u32, now: u64) -> bool {
        let is_newcomer = |service: &&ServiceFacts| service.newcomers.get(&at.1) == Some(&version);
        let service = self.services.get(at.0).filter(is_newcomer);
        service.is_some_and(|service| {
            service.admitted().contains(&version) || self.is_kept_from_reporting(at, now)
        })
    }

    /// Whether no component can take an instance out of rotation: nothing knows of it, or it answers 200 beside a disable-file,
    /// and its agent can do no more than put that.
    pub(super) fn is_out_of_reach(&self, at: At, now: u64) -> bool {
        self.is_untraced(at, now) || self.unheeded.contains(&at)
    }

    /// The same at a version above every window since its process began: no upgrade has let that version in since, however long
    /// it is out of reach. A version that a window admitted in that time is judged, and so is one below the floor.
    pub(in crate::simulate) fn is_out_of_reach_above(&self, at: At, run: &Running, now: u64) -> bool {
        let service = self.services.get(at.0).filter(|_| self.is_out_of_reach(at, now));
        service.is_some_and(|service| service.stays_below(run.is.version, run.since))
    }
}

#[cfg(test)]
mod tests {
    use super::super::SEEN;
    use super::*;
    use crate::simulate::slot::Behaviour;
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
        !judged.is_newcomer_of_copy(PLACE, 2, 30_000)
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
            judged.leaves_newcomers_out(21_000);
        });
        assert!(is_left_out, "a window leaves it out");
        assert!(!is_judged(|_| (), |judged| judged.started(PLACE, 2)), "the store is not reconciled yet");
    }

    /// Its agent ended before the store was reconciled with a window that leaves it out.
    #[test]
    fn newcomer_left_out_is_judged_once_its_agent_is_back() {
        let is_judged_at = |ended_at: u64, back_at: u64| {
            is_judged(
                |_| (),
                |judged| {
                    if ended_at < 21_000 {
                        judged.agent_ended(PLACE.1, ended_at);
                    }
                    judged.services[0].goes_by(&window(1, "u0"), 21_000);
                    judged.leaves_newcomers_out(21_000);
                    judged.agent_ended(PLACE.1, 22_000);
                    judged.agent_started(PLACE.1, back_at);
                },
            )
        };
        assert!(!is_judged_at(20_000, 30_001 - SEEN), "its agent may not have read the window yet");
        assert!(is_judged_at(20_000, 30_000 - SEEN), "its agent has had time to hide it");
        assert!(is_judged_at(21_001, 30_001 - SEEN), "its agent ran as the window was set");
    }

    /// Whether it is judged what a newcomer at this version reads, which was started 10 s after the beginning and whose health
    /// check has not heeded the disable-file for long. The window was [2, 2] when it was started, and [1, 3] before.
    fn is_unheeded_judged(version: u32, change: impl FnOnce(&mut Facts)) -> bool {
        let windows = vec![(1_000, 1, 3), (2_000, 2, 2)];
        let service = ServiceFacts { windows, ..ServiceFacts::default() };
        let unheeded = [PLACE].into();
        let mut judged = Facts { services: vec![service], unheeded, ..Facts::default() };
        change(&mut judged);
        let (tag, is) = (format!("pantry-{version}"), Behaviour::good(version, 0));
        let run = Running { tag, is, since: 10_000, pid: 1, put_back: false };
        !judged.is_out_of_reach_above(PLACE, &run, 60_000)
    }

    #[test]
    fn unheeded_newcomer_above_each_window_is_not_judged() {
        assert!(!is_unheeded_judged(3, |_| ()));
        assert!(!is_unheeded_judged(3, |judged| judged.services[0].windows.push((20_000, 1, 2))));
        assert!(is_unheeded_judged(2, |_| ()), "the window admits it");
        assert!(is_unheeded_judged(1, |_| ()), "it is below the floor, which contract relies on");
        let others: [(&str, fn(&mut Facts)); 4] = [
            ("nothing hides it, or that is heeded", |judged| judged.unheeded.clear()),
            ("another instance is hidden", |judged| judged.unheeded = [(0, 1)].into()),
            ("a window has admitted it since", |judged| {
                judged.services[0].windows.extend([(20_000, 2, 3), (30_000, 2, 2)]);
            }),
            ("there was no window yet", |judged| judged.services[0].windows = vec![(20_000, 2, 2)]),
        ];
        for (why, other) in others {
            assert!(is_unheeded_judged(3, other), "{why}");
        }
    }

    /// The blank store that admitted it was replaced by a copy, and its agent was stopped in the same instant. A person showed it.
    #[test]
    fn untraced_newcomer_above_each_window_is_not_judged() {
        let is_judged = |version: u32, until: u64, change: fn(&mut Facts)| {
            is_unheeded_judged(version, |judged| {
                judged.unheeded.clear();
                judged.silent.admitted(PLACE, 0);
                judged.silent.begin_again();
                judged.agents_stalled.insert(PLACE.1, until);
                change(judged);
            })
        };
        assert!(!is_judged(3, u64::MAX, |_| ()));
        assert!(!is_judged(3, 60_001 - SEEN, |_| ()), "its agent cannot have hidden it yet");
        assert!(is_judged(3, 60_000 - SEEN, |_| ()), "its agent has had time to hide it");
        assert!(is_judged(2, u64::MAX, |_| ()), "the window admits it");
        assert!(is_judged(1, u64::MAX, |_| ()), "it is below the floor, which contract relies on");
        let others: [(&str, fn(&mut Facts)); 3] = [
            ("the copy has its admission", |judged| judged.silent.admitted(PLACE, 0)),
            ("its agent has acknowledged a window", |judged| judged.bound.extend([PLACE])),
            ("a window has admitted it since", |judged| {
                judged.services[0].windows.extend([(20_000, 2, 3), (30_000, 2, 2)]);
            }),
        ];
        for (why, other) in others {
            assert!(is_judged(3, u64::MAX, other), "{why}");
        }
    }
}
