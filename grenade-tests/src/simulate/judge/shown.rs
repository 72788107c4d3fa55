//! Instances that a person or their agent shows: the disable-file was removed, or nothing heeds it.

use super::super::slot::{At, Cause, Slot};
use super::{Facts, OLD, SEEN};
use crate::simulate::agent::AGAIN;
use std::collections::BTreeMap;

/// After so many milliseconds an agent has hidden what stayed in rotation outside the window and fails: its longest rest between
/// two looks (2.5 s), three looks at what hangs (3.5 s) and a write to a slow disk. Balancers see a return up to 1 s later.
const FAILURE_SEEN: u64 = 8_000;

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

    /// The agent of an instance removes its disable-file. Where the last directive replaces what ran with the release that runs
    /// already, nothing is stopped or started. What a person put back is not what the directive left.
    pub(in crate::simulate) fn shown_by_agent(&mut self, at: At, slot: Option<&Slot>, now: u64) {
        let run = slot.and_then(|slot| slot.alive(now)).filter(|run| !run.put_back);
        let ordered = self.replaced_by.get(&at);
        if run.zip(ordered).is_some_and(|(run, ordered)| run.tag == *ordered) {
            self.shown_as_ordered.insert(at, now);
        }
    }

    /// An instance comes into rotation that balancers had taken out. Where it was in since its agent showed the release that the
    /// last directive orders, and left without an order, that directive is carried out: its agent alone refuses what comes in.
    pub(in crate::simulate) fn comes_back(&mut self, at: At, slot: &Slot) {
        let Some((went_at, Cause::Misfortune(_))) = slot.out_before else { return };
        let times = self.directed.get(&at).zip(self.shown_as_ordered.get(&at));
        if times.is_some_and(|(directed, shown)| directed <= shown && *shown < went_at) {
            self.stopped(at);
        }
    }

    /// A disable-file of an instance is there.
    pub(in crate::simulate) fn has_file(&mut self, at: At) {
        self.forget_changes(at);
    }

    /// An instance in rotation begins to fail, or ends, at a version where no disable-file makes it. Outside the window it stayed
    /// there until it is drained, and its agent hides it once that has seen that balancers took it out.
    pub(in crate::simulate) fn fails_in_rotation(&mut self, at: At, version: Option<u32>, now: u64) {
        let service = self.services.get(at.0).zip(version);
        if service.is_some_and(|(service, version)| !service.admitted().contains(&version)) {
            self.failed_outside.insert(at, now);
        } else {
            self.failed_outside.remove(&at);
        }
    }

    /// A disable-file of an instance is there, or a release is started by its agent, which looks right before that, or where the
    /// window admits it. A supervisor starts what ended again without either.
    pub(in crate::simulate) fn forget_changes(&mut self, at: At) {
        self.file_removed.remove(&at);
        self.failed_outside.remove(&at);
    }

    /// Whether the agent of an instance may not have seen yet that a person removed the disable-file, or that what stayed in
    /// rotation outside the window fails. Beside a person's file it puts none of its own, so that what it refuses comes in with
    /// the removal, or once its health URL answers 200 after that. An agent that has seen it puts its file, and one that starts
    /// a release looks right before that.
    pub(super) fn is_change_unseen(&self, at: At, now: u64) -> bool {
        let changes = [(&self.file_removed, SEEN), (&self.failed_outside, FAILURE_SEEN)];
        let is_unseen = |(of, limit): (&BTreeMap<At, u64>, u64)| {
            of.get(&at).is_some_and(|since| self.is_unseen(at, (*since, limit), now))
        };
        changes.into_iter().any(is_unseen)
    }

    /// Whether an agent that needs so long may not have seen yet what happened then. Time in which it can put no file does not
    /// count, nor does the lease that a second agent leaves where it is ended with its file: the node's own agent does not run
    /// beside that.
    fn is_unseen(&self, at: At, (since, limit): (u64, u64), now: u64) -> bool {
        let ended = self.second_ended.get(&at.1).filter(|ended| **ended == since);
        let held = ended.map_or(0, |ended| ended.saturating_add(OLD));
        now < self.hides_from(at, since).saturating_add(limit).max(held)
    }

    /// From now on the agent of a node does not run, is stopped or has a full disk. What it has had time to see before is not
    /// excused by that.
    pub(in crate::simulate) fn forget_seen(&mut self, node: usize, now: u64) {
        let seen = |of: &BTreeMap<At, u64>, limit: u64| -> Vec<At> {
            let is_seen = |at: At, since: u64| at.1 == node && !self.is_unseen(at, (since, limit), now);
            of.iter().filter(|(at, since)| is_seen(**at, **since)).map(|(at, _)| *at).collect()
        };
        let (removed, failed) = (seen(&self.file_removed, SEEN), seen(&self.failed_outside, FAILURE_SEEN));
        self.file_removed.retain(|at, _| !removed.contains(at));
        self.failed_outside.retain(|at, _| !failed.contains(at));
        let is_hidden_by_now = |at: At, shown: u64| now >= self.hides_from(at, shown).saturating_add(OLD);
        let shown = self.shown.iter().filter(|(at, shown)| at.1 == node && is_hidden_by_now(**at, **shown));
        let hidden: Vec<At> = shown.map(|(at, _)| *at).collect();
        self.shown.retain(|at, _| !hidden.contains(at));
    }

    /// Whether a person showed an instance not `OLD` ago at a version that the window does not admit. Its agent hides it again,
    /// but does not run beside a second one of its node until the lease of that has ended, and not while it does not run or is
    /// stopped, or its disk is full: that time does not count. A release that began to run there later is none that a person showed.
    pub(in crate::simulate) fn is_shown_outside(&self, at: At, slot: &Slot, now: u64) -> bool {
        let is_of_it = |shown: &u64| {
            slot.release_since <= *shown && now < self.hides_from(at, *shown).saturating_add(OLD)
        };
        let is_shown = self.shown.get(&at).is_some_and(is_of_it);
        let service = self.services.get(at.0).filter(|_| is_shown);
        let version = slot.alive(now).map(|run| run.is.version);
        service.zip(version).is_some_and(|(service, version)| !service.admitted().contains(&version))
    }

    /// From when on the agent of an instance can hide what is shown since then: it looks at nothing while it does not run or is
    /// stopped, and puts no file on a full disk, on which it may have ended.
    fn hides_from(&self, at: At, shown: u64) -> u64 {
        let restart = AGAIN.as_secs() * 1_000;
        let [stalled, away] = [&self.agents_stalled, &self.agents_away].map(|of| of.get(&at.1).copied());
        let full = self.disks_full.get(&at.1).map(|until| until.saturating_add(restart));
        [stalled, away, full].into_iter().flatten().fold(shown, u64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ServiceFacts;
    use super::*;
    use crate::simulate::slot::{Behaviour, Running};
    use tidegate_proto::record::directive::Disposition;
    use tidegate_proto::{Digest, Release, ServiceVersion};

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
        judged.agents_stalled.insert(PLACE.1, 100_000);
        assert!(judged.is_shown_outside(PLACE, &slot, 100_000 + OLD - 1), "its agent was stopped");
        assert!(
            !judged.is_shown_outside(PLACE, &slot, 100_000 + OLD),
            "its agent has gone on for long enough"
        );
        judged.agent_ended(PLACE.1, 110_000);
        assert!(judged.is_shown_outside(PLACE, &slot, 200_000), "its agent does not run");
        judged.agent_started(PLACE.1, 200_000);
        assert!(judged.is_shown_outside(PLACE, &slot, 200_000 + OLD - 1));
        assert!(!judged.is_shown_outside(PLACE, &slot, 200_000 + OLD), "it has run for long enough");
        judged.disks_full.insert(PLACE.1, u64::MAX);
        assert!(judged.is_shown_outside(PLACE, &slot, 300_000), "its agent can put no file");
        judged.services[0].windows.push((1_000, 1, 2));
        assert!(!judged.is_shown_outside(PLACE, &slot, 60_000), "the window admits it");
    }

    #[test]
    fn what_was_shown_long_before_its_agent_ended_is_judged() {
        let is_excused = |ended_at: u64| {
            let mut judged = facts();
            judged.shown_again(60_000, PLACE);
            judged.agent_ended(PLACE.1, ended_at);
            judged.is_shown_outside(PLACE, &release(), 100_000)
        };
        assert!(is_excused(59_999 + OLD));
        assert!(!is_excused(60_000 + OLD), "its agent had time to hide it");
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
        let supervised = |judged: &mut Facts| judged.started(PLACE, 2);
        assert_eq!(broken(61_000, supervised), None, "its supervisor has not looked");
        let by_agent = |judged: &mut Facts| judged.started_by_agent(PLACE, "pantry-2");
        assert_eq!(broken(61_000, by_agent), Some(2), "its agent has looked since");
        let is_of_another = |judged: &mut Facts| {
            judged.file_removed.clear();
            judged.person_removed_file(60_000, (0, 1));
        };
        assert_eq!(broken(61_000, is_of_another), Some(2), "the file of another instance was removed");
    }

    /// A second agent has hidden a newcomer that is slow to start, and is ended with its disable-file.
    #[test]
    fn file_of_a_second_agent_lets_in_while_its_lease_lasts() {
        let broken = |node: usize, ended_at: u64, now: u64| {
            let mut judged = facts();
            judged.second_ended.insert(node, ended_at);
            judged.person_removed_file(60_000, PLACE);
            judged.came_in(now, PLACE, (2, None), "pantry/n0");
            judged.breaches.first().map(|breach| breach.rule)
        };
        assert_eq!(broken(PLACE.1, 60_000, 59_999 + OLD), None);
        assert_eq!(broken(PLACE.1, 60_000, 60_000 + OLD), Some(2), "its own agent has had time to hide it");
        for ended_at in [59_999, 60_001] {
            assert_eq!(broken(PLACE.1, ended_at, 60_000 + SEEN), Some(2), "the file was not its own");
        }
        assert_eq!(broken(PLACE.1 + 1, 60_000, 60_000 + SEEN), Some(2), "that was on another node");
    }

    /// The agent of a newcomer that hangs ends as a person removes their disable-file. The newcomer recovers while no agent runs.
    #[test]
    fn removed_file_lets_in_while_its_agent_cannot_hide() {
        let broken = |ended_at: u64, now: u64, change: fn(&mut Facts, u64)| {
            let mut judged = facts();
            judged.bound.insert(PLACE);
            judged.person_removed_file(60_000, PLACE);
            change(&mut judged, ended_at);
            judged.came_in(now, PLACE, (2, None), "pantry/n0");
            judged.breaches.first().map(|breach| breach.rule)
        };
        let ended = |judged: &mut Facts, at: u64| judged.agent_ended(PLACE.1, at);
        assert_eq!(broken(59_999 + SEEN, 80_000, ended), None);
        assert_eq!(broken(60_000 + SEEN, 80_000, ended), Some(2), "it had time to see that");
        let restarted = |judged: &mut Facts, at: u64| {
            judged.agent_ended(PLACE.1, at);
            judged.agent_started(PLACE.1, 80_000);
        };
        assert_eq!(broken(60_000, 79_999 + SEEN, restarted), None, "it may not have looked yet");
        assert_eq!(broken(60_000, 80_000 + SEEN, restarted), Some(2), "it has run for long enough");
        let ended_again = |judged: &mut Facts, at: u64| {
            judged.agent_ended(PLACE.1, at);
            judged.agent_started(PLACE.1, 80_000);
            judged.agent_ended(PLACE.1, 80_000 + SEEN);
        };
        assert_eq!(broken(60_000, 100_000, ended_again), Some(2), "it has run in between");
        let other_ended = |judged: &mut Facts, at: u64| judged.agent_ended(PLACE.1 + 1, at);
        assert_eq!(broken(60_000, 80_000, other_ended), Some(2), "the agent of another node ended");
        let stalled = |judged: &mut Facts, _: u64| judged.agents_stalled.extend([(PLACE.1, u64::MAX)]);
        assert_eq!(broken(60_000, 80_000, stalled), None, "its agent is stopped");
        let full = |judged: &mut Facts, _: u64| judged.disks_full.extend([(PLACE.1, u64::MAX)]);
        assert_eq!(broken(60_000, 80_000, full), None, "its agent can put no file");
    }

    /// It stayed in rotation until it is drained, and answers 200 again before its agent has hidden it.
    #[test]
    fn what_fails_outside_comes_in_until_its_agent_can_hide_it() {
        let broken = |now: u64, change: fn(&mut Facts)| {
            let mut judged = facts();
            judged.bound.insert(PLACE);
            judged.fails_in_rotation(PLACE, Some(2), 60_000);
            change(&mut judged);
            judged.came_in(now, PLACE, (2, None), "pantry/n0");
            judged.breaches.first().map(|breach| breach.rule)
        };
        assert_eq!(broken(59_999 + FAILURE_SEEN, |_| ()), None, "it may have hung in each look");
        assert_eq!(broken(60_000 + FAILURE_SEEN, |_| ()), Some(2), "its agent has had time to hide it");
        let supervised = |judged: &mut Facts| judged.started(PLACE, 2);
        assert_eq!(broken(61_000, supervised), None, "its supervisor has not looked");
        let by_agent = |judged: &mut Facts| judged.started_by_agent(PLACE, "pantry-2");
        assert_eq!(broken(61_000, by_agent), Some(2), "its agent has looked since");
        let ended = |judged: &mut Facts| judged.agent_ended(PLACE.1, 59_999 + FAILURE_SEEN);
        assert_eq!(broken(80_000, ended), None, "its agent does not run");
        let ended_late = |judged: &mut Facts| judged.agent_ended(PLACE.1, 60_000 + FAILURE_SEEN);
        assert_eq!(broken(80_000, ended_late), Some(2), "its agent had time to hide it");
        let was_inside = |judged: &mut Facts| {
            judged.services[0].windows = vec![(0, 1, 2)];
            judged.fails_in_rotation(PLACE, Some(2), 60_000);
            judged.services[0].windows.push((60_000, 1, 1));
            judged.agent_ended(PLACE.1, 60_000);
        };
        assert_eq!(broken(80_000, was_inside), Some(2), "the window admitted it as it failed");
    }

    /// A version outside the window that a person put in the place of version 2, and that came in again at 38 s.
    fn put_back(went_at: u64, cause: Cause) -> Slot {
        let is = Behaviour::good(1, 0);
        let running = Running { tag: "pantry-1".to_owned(), is, since: 35_000, pid: 2, put_back: true };
        let out_before = Some((went_at, cause));
        Slot { running: Some(running), came_at: 38_000, out_before, ..Slot::default() }
    }

    /// A rollback replaces a drained instance with the release that runs. Then a person puts back another version, which hangs:
    /// its agent refuses that as it comes in again, while the only other instance is drained.
    #[test]
    fn order_is_over_once_what_it_showed_comes_back() {
        let failed = || put_back(36_000, Cause::Misfortune("its health"));
        let broken = |ordered: i64, shown: (u64, Slot), back: Slot| {
            let mut judged = facts();
            let service = &mut judged.services[0];
            (service.instances, service.min_in_service) = (2, 1);
            service.windows = vec![(0, 2, 3)];
            judged.struck_until = 50_000;
            let tag = format!("pantry-{ordered}").parse().unwrap();
            let version = ServiceVersion::new(ordered).unwrap();
            let replaces = Disposition::Replace { release: Release { tag, sha256: Digest::ABSENT, version } };
            judged.directs(PLACE, &Disposition::Drain, 30_000);
            judged.directs(PLACE, &replaces, 33_000);
            judged.shown_by_agent(PLACE, Some(&shown.1), shown.0);
            judged.comes_back(PLACE, &back);
            let out = |since: u64| Some((since, Cause::Order));
            let refused = Slot { out: out(38_400), ..back };
            let other = Slot { out: out(34_500), ..release() };
            judged.taken_out(38_400, PLACE, &[(PLACE, refused), ((0, 1), other)].into(), "pantry/n0");
            judged.breaches.first().map(|breach| breach.rule)
        };
        assert_eq!(broken(2, (33_000, release()), failed()), None, "its agent alone refuses it");
        let in_since = || put_back(30_000, Cause::Order);
        assert_eq!(broken(2, (33_000, release()), in_since()), Some(4), "it has not left rotation since");
        let before = || put_back(32_000, Cause::Misfortune("its health"));
        assert_eq!(broken(2, (33_000, release()), before()), Some(4), "it comes in for the first time");
        assert_eq!(broken(2, (32_999, release()), failed()), Some(4), "it was ordered out since");
        assert_eq!(broken(3, (33_000, release()), failed()), Some(4), "another release is ordered");
        assert_eq!(broken(1, (35_000, failed()), failed()), Some(4), "a person put the ordered one back");
        assert_eq!(broken(2, (33_000, Slot::default()), failed()), Some(4), "nothing runs");
    }
}
