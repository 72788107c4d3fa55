//! One service, as the judge knows it, and what the spec of its upgrade allows.

use super::{Facts, OLD};
use crate::simulate::scenario::UpgradePlan;
use crate::simulate::silence::Counted;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use tidegate_proto::record::upgrade::PhaseName;
use tidegate_proto::record::window::{BY_OPERATOR, Window};

/// What the spec of an upgrade allows.
#[derive(Debug, Clone, Copy)]
pub(in crate::simulate) struct Limits {
    /// The service that it upgrades.
    pub service: usize,
    /// How many health URLs must answer 200.
    pub min_in_service: u64,
    /// How long a drain may last, in milliseconds.
    pub drain_deadline: u64,
}

impl Limits {
    /// As people write it.
    pub(in crate::simulate) fn of(plan: &UpgradePlan) -> Self {
        let drain_deadline = if plan.fails_on_deadline { u64::MAX } else { plan.drain_deadline };
        Self { service: plan.service, min_in_service: plan.min_in_service, drain_deadline }
    }
}

impl Facts {
    /// What an upgrade, by its place in the scenario, allows for a service: nothing where it upgrades another one. An instance
    /// outside a window is drained on behalf of the upgrade that set it, which may be one of a service that shares the schema.
    pub(in crate::simulate) fn limits_of(&self, service: usize, upgrade: usize) -> Option<Limits> {
        self.limits.get(upgrade).filter(|limits| limits.service == service).copied()
    }
}

/// One service, as the judge knows it.
#[derive(Debug, Clone, Default)]
pub(in crate::simulate) struct ServiceFacts {
    /// How many instances it has.
    pub instances: u64,
    /// Whether the agents ask the balancer.
    pub asks_balancer: bool,
    /// How many health URLs must answer 200, by the last upgrade that began and that the store knows.
    pub min_in_service: u64,
    /// How long a drain may last.
    pub drain_deadline: u64,
    /// Whether an upgrade of it is under way.
    pub upgrading: bool,
    /// Floors and ceilings that were committed, each with its time.
    pub windows: Vec<(u64, u32, u32)>,
    /// Nodes whose agents could not report when a window was committed, each with that time.
    pub unheard: BTreeSet<(u64, usize)>,
    /// What the last window of this store admits, where a person set it by hand.
    pub by_hand: Option<RangeInclusive<u32>>,
    /// Nodes of newcomers that a copy of the store admitted by such a window before it was reconciled, each with its version.
    pub newcomers: BTreeMap<usize, u32>,
    /// Whether the store took the place of another and has no window.
    pub has_no_window: bool,
    /// Until when agents may not have seen the first window of a store that had none, in milliseconds.
    pub windowless_until: u64,
    /// What the last window of a store admitted that another one took the place of, and until when agents may obey it, in
    /// milliseconds: `u64::MAX` until the other store is reconciled or gets a window. More than one, where the other store was
    /// replaced too before each agent may have seen that.
    pub former: Option<(u64, Vec<RangeInclusive<u32>>)>,
    /// The lowest version that can serve with what was contracted, by the windows.
    pub contracted: u32,
    /// Since when its database lacks the form of the upgrade under way, as far as the judge has looked.
    pub lacks_since: Option<u64>,
    /// The lowest version that uses the form which the last rollback of an upgrade of its schema undid, and what counted when
    /// that ended.
    pub undone: Option<(u32, Counted)>,
    /// The same version from when a rollback begins until an upgrade of its schema has made a form and filled what it fills
    /// before a roll, and whether the rollback has ended.
    pub undoing: Option<(u32, bool)>,
    /// Drains that break rule 1 if the database still lacked the form, each with its time and what to say of it.
    pub drained_on_lack: Vec<(u64, String)>,
}

impl ServiceFacts {
    /// A service of so many instances that was never upgraded: its limits are those of a spec that leaves them out.
    pub(in crate::simulate) fn before_upgrades(instances: u64, asks_balancer: bool) -> Self {
        Self { instances, asks_balancer, min_in_service: 1, drain_deadline: 60_000, ..Self::default() }
    }

    /// An upgrade begins.
    pub(in crate::simulate) fn begins(&mut self, plan: &UpgradePlan) {
        self.is_bound_by(plan);
        self.upgrading = true;
    }

    /// An upgrade of its schema enters a phase, and makes a form that it uses from this version on; `counted` is what counts then.
    /// The rollback from preflight, which ends as failed, undoes what that upgrade expanded before its store was restored.
    pub(in crate::simulate) fn schema_goes_to(&mut self, phase: PhaseName, needs: u32, counted: Counted) {
        match phase {
            PhaseName::RollingBack => self.undoing = Some((needs, false)),
            PhaseName::RolledBack | PhaseName::Failed => {
                self.undoing = Some((needs, true));
                self.undone = Some((needs, counted));
            }
            // The form is missing until it is made again, and then rows that were there before lack it until they are filled.
            PhaseName::Preflight | PhaseName::Stage | PhaseName::Expand | PhaseName::Migrate => {}
            _ => self.undoing = None,
        }
    }

    /// A window is committed.
    pub(in crate::simulate) fn goes_by(&mut self, window: &Window, now: u64) {
        self.windows.push((now, window.floor.get(), window.ceiling.get()));
        let is_by_hand = window.set_by.as_str() == BY_OPERATOR;
        self.by_hand = is_by_hand.then(|| self.admitted());
        if std::mem::take(&mut self.has_no_window) {
            self.windowless_until = now + OLD;
        }
        self.contracted = window.contracted.map_or(window.floor.get(), |version| version.get());
    }

    /// Another store takes the place of its own. Where that is replaced too before agents obey it, they still obey the window
    /// from before it; so may some, where it is replaced before each of them may have seen that it is to be obeyed.
    pub(in crate::simulate) fn loses_its_store(&mut self, now: u64) {
        self.has_no_window = true;
        self.by_hand = None;
        let last = self.windows.last().map(|(_, floor, ceiling)| *floor..=*ceiling);
        let kept = self.former.take().filter(|(until, _)| now < *until);
        let is_obeyed = kept.as_ref().is_none_or(|(until, _)| *until < u64::MAX);
        let former = kept.into_iter().flat_map(|(_, former)| former);
        let former: Vec<_> = former.chain(last.filter(|_| is_obeyed)).collect();
        self.former = (!former.is_empty()).then_some((u64::MAX, former));
    }

    /// The store is reconciled, or a window is committed to it: agents obey it, once they have seen that.
    pub(in crate::simulate) fn is_obeyed_again(&mut self, now: u64) {
        if let Some((until, _)) = &mut self.former {
            *until = (*until).min(now + OLD);
        }
    }

    /// The versions that the last committed window admits: all, where none was ever committed.
    pub(in crate::simulate) fn admitted(&self) -> RangeInclusive<u32> {
        self.windows.last().map_or(1..=u32::MAX, |(_, floor, ceiling)| *floor..=*ceiling)
    }

    /// The floor of the last window that was committed by this time: 1 where there was none, or the store that took the place
    /// of another has none.
    pub(in crate::simulate) fn floor_at(&self, at: u64) -> u32 {
        let committed = self.windows.iter().rfind(|(since, ..)| *since <= at);
        committed.filter(|_| !self.has_no_window).map_or(1, |(_, floor, _)| *floor)
    }

    /// Since when a version has been below the floor, also that of a store that was lost; never where it is not.
    pub(in crate::simulate) fn is_below_since(&self, version: u32) -> u64 {
        let above = self.windows.iter().rev().take_while(|(_, floor, _)| *floor > version);
        above.last().map_or(u64::MAX, |(since, ..)| *since)
    }

    /// Of the upgrades that the store knows, this one began last.
    pub(in crate::simulate) fn is_bound_by(&mut self, plan: &UpgradePlan) {
        let limits = Limits::of(plan);
        (self.min_in_service, self.drain_deadline) = (limits.min_in_service, limits.drain_deadline);
    }
}

#[cfg(test)]
mod tests {
    use super::super::SEEN;
    use super::*;
    use crate::simulate::slot::{At, Cause, Slot};
    use tidegate_proto::record::directive::Disposition;

    const PLACE: At = (0, 0);

    /// The rules that are broken where version 2 comes in, its agent has acknowledged a window, and 30 s ago a copy with a
    /// window that does not admit it took the place of a store with one that does.
    fn broken_in_a_copy(change: impl FnOnce(&mut Facts)) -> Vec<u8> {
        let service = ServiceFacts { windows: vec![(10_000, 2, 2)], ..ServiceFacts::default() };
        let mut judged = Facts { services: vec![service], bound: [PLACE].into(), ..Facts::default() };
        judged.services[0].loses_its_store(30_000);
        judged.services[0].windows.push((30_000, 1, 1));
        judged.services[0].has_no_window = false;
        change(&mut judged);
        judged.came_in(60_000, PLACE, (2, None), "pantry/n0");
        judged.breaches.iter().map(|breach| breach.rule).collect()
    }

    #[test]
    fn copy_binds_no_agent_of_a_later_window_until_reconciled() {
        let none = Vec::<u8>::new();
        assert_eq!(broken_in_a_copy(|_| ()), none, "its agent obeys the former window");
        let replaced_again = |judged: &mut Facts| judged.services[0].loses_its_store(31_000);
        assert_eq!(broken_in_a_copy(replaced_again), none, "its agent never obeyed the first copy");
        let replaced_at = |at: u64| {
            broken_in_a_copy(|judged| {
                judged.services[0].is_obeyed_again(30_000);
                judged.services[0].loses_its_store(at);
            })
        };
        assert_eq!(replaced_at(30_000 + OLD - 1), none, "its agent may never have seen the first copy");
        assert_eq!(replaced_at(30_000 + OLD), [2], "its agent obeyed the first copy");
        let follows = broken_in_a_copy(|judged| {
            judged.services[0].windows.push((31_000, 2, 2));
            judged.services[0].former = Some((40_000, vec![1..=1]));
            judged.services[0].loses_its_store(39_999);
            judged.services[0].windows.push((40_000, 1, 1));
        });
        assert_eq!(follows, none, "its agent may have obeyed the first copy");
        let reconciled = |at: u64| broken_in_a_copy(|judged| judged.services[0].is_obeyed_again(at));
        assert_eq!(reconciled(60_001 - OLD), none, "its agent may not have seen that");
        assert_eq!(reconciled(60_000 - OLD), [2], "its agent obeys the copy");
        let reconciled_twice = |judged: &mut Facts| {
            [40_000, 50_000].into_iter().for_each(|at| judged.services[0].is_obeyed_again(at));
        };
        assert_eq!(broken_in_a_copy(reconciled_twice), [2], "the first one counts");
        let without_journal = |judged: &mut Facts| judged.starts_without_journal(PLACE);
        assert_eq!(broken_in_a_copy(without_journal), [2], "its agent obeys no former window");
        let outside_both = |judged: &mut Facts| judged.services[0].former = Some((u64::MAX, vec![3..=3]));
        assert_eq!(broken_in_a_copy(outside_both), [2], "the former window did not admit it");
    }

    /// The copy has an admission of the instance. Its agent did not run as the copy took the place of the store, and is started
    /// without its journal.
    #[test]
    fn agent_without_journal_hides_nothing_before_it_reads_a_copy() {
        let started = |at: u64, change: fn(&mut Facts)| {
            broken_in_a_copy(|judged| {
                judged.silent.admitted(PLACE, 0);
                judged.agent_ended(PLACE.1, 20_000);
                judged.agent_started(PLACE.1, at);
                judged.starts_without_journal(PLACE);
                change(judged);
            })
        };
        let none = Vec::<u8>::new();
        assert_eq!(started(60_001 - SEEN, |_| ()), none, "its agent cannot have hidden it yet");
        assert_eq!(started(60_000 - SEEN, |_| ()), [2], "its agent has had time to hide it");
        let others: [(&str, fn(&mut Facts)); 2] = [
            ("the former window did not admit it", |judged| {
                judged.services[0].former = Some((u64::MAX, vec![3..=3]));
            }),
            ("the copy was reconciled long before", |judged| {
                judged.services[0].is_obeyed_again(60_000 - OLD);
            }),
        ];
        for (why, other) in others {
            assert_eq!(started(60_001 - SEEN, other), [2], "{why}");
        }
    }

    /// The rules that are broken where the only instance of a service is drained on behalf of this upgrade, and is stopped after
    /// 5 s while it still works.
    fn broken_by_a_drain(service: ServiceFacts, by: Limits) -> Vec<u8> {
        let mut judged = Facts { services: vec![service], limits: vec![by], ..Facts::default() };
        judged.directs(PLACE, &Disposition::Drain, 100);
        judged.orders(PLACE, &Disposition::Drain, Some(0));
        let drained = Slot { out: Some((101, Cause::Order)), ..Slot::default() };
        judged.taken_out(101, PLACE, &[(PLACE, drained)].into(), "larder/n0");
        judged.stopped_at_work(5_101, PLACE, Some(101), false, "larder/n0");
        judged.breaches.iter().map(|breach| breach.rule).collect()
    }

    #[test]
    fn upgrade_of_another_service_gives_no_limits() {
        let none = Vec::<u8>::new();
        let strict = |service| Limits { service, min_in_service: 1, drain_deadline: 60_000 };
        let lax = |service| Limits { service, min_in_service: 0, drain_deadline: 5_000 };
        let new = || ServiceFacts::before_upgrades(1, false);
        let upgraded = || ServiceFacts { min_in_service: 0, drain_deadline: 5_000, ..new() };
        assert_eq!(broken_by_a_drain(upgraded(), strict(1)), none, "its own last upgrade allows it");
        assert_eq!(broken_by_a_drain(upgraded(), strict(0)), [4, 6], "its own upgrade orders it");
        assert_eq!(broken_by_a_drain(new(), lax(0)), none, "its own upgrade allows it");
        assert_eq!(broken_by_a_drain(new(), lax(1)), [4, 6], "it was never upgraded: one must stay");
    }

    #[test]
    fn floor_is_that_of_the_last_window_committed_by_then() {
        let windows = vec![(10, 1, 1), (20, 2, 2), (30, 1, u32::MAX)];
        let mut service = ServiceFacts { windows, ..ServiceFacts::default() };
        let floors = |of: &ServiceFacts| [9, 10, 20, 29, 30].map(|at| of.floor_at(at));
        assert_eq!(floors(&service), [1, 1, 2, 2, 1]);
        service.has_no_window = true;
        assert_eq!(floors(&service), [1; 5], "the store that had them is lost");
    }

    #[test]
    fn version_is_below_the_floor_since_that_was_raised_last() {
        let since = |windows: &[(u64, u32, u32)]| {
            let windows = windows.to_vec();
            ServiceFacts { windows, has_no_window: true, ..ServiceFacts::default() }.is_below_since(1)
        };
        assert_eq!(since(&[(10, 1, 2), (20, 2, 2), (30, 2, 3)]), 20, "also once the store is lost");
        assert_eq!(since(&[(20, 2, 2), (30, 1, 2), (40, 2, 2)]), 40, "a rollback had lowered it");
        assert_eq!(since(&[(20, 2, 2), (30, 1, 2)]), u64::MAX);
        assert_eq!(since(&[]), u64::MAX);
    }
}
