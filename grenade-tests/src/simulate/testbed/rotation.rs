//! Health URLs and balancers: whether an instance answers 200, why not, and whether its balancer sends requests to it.

use super::files::disable_file;
use super::{State, Testbed};
use crate::simulate::slot::{At, Cause};

/// The balancer's checks until it takes an instance out, or in.
const CHECKS: u32 = 2;

/// What the disable-file of an agent begins with.
pub(super) const BY_AGENT: &[u8] = b"put by tidegate-agent";

impl Testbed {
    /// One look of the balancers at every instance.
    pub(in crate::simulate) fn tick(&self) {
        self.supervise();
        let now = self.now();
        let mut state = self.state();
        let all: Vec<At> = state.slots.keys().copied().collect();
        for at in all {
            self.look_at(&mut state, at, now);
            let Some(slot) = state.slots.get_mut(&at) else { continue };
            let good = slot.serves && !slot.hangs(now);
            let server = &mut slot.server;
            server.against = if good == server.up { 0 } else { server.against + 1 };
            if server.against >= CHECKS {
                (server.up, server.against) = (good, 0);
                if !good {
                    server.down_at = now;
                }
            }
        }
    }

    /// Looks at the other instances of the service that were out: one that is well again is not out any more.
    fn look_at_those_out(&self, state: &mut State, of: At, now: u64) {
        let others = state.slots.iter().filter(|(at, slot)| at.0 == of.0 && **at != of && slot.out.is_some());
        let others: Vec<At> = others.map(|(at, _)| *at).collect();
        others.into_iter().for_each(|at| self.look_at(state, at, now));
    }

    /// Looks whether the health URL of an instance answers 200, and says so where that changed.
    pub(super) fn look_at(&self, state: &mut State, at: At, now: u64) {
        let file = state.disks[at.1].files.get(&disable_file(&self.names.services[at.0]));
        let (hidden, by_agent) = (file.is_some(), file.is_some_and(|file| file.starts_with(BY_AGENT)));
        let Some(slot) = state.slots.get_mut(&at) else { return };
        let serves = slot.is_healthy(now) && !(hidden && slot.heeds(now));
        slot.file_at = if hidden { slot.file_at.or(Some(now)) } else { None };
        if hidden {
            state.facts.has_file(at);
        }
        if by_agent && slot.hidden_at.is_none() {
            slot.hidden_at = Some(now);
        } else if !by_agent {
            slot.hidden_at = None;
        }
        let cause = match () {
            () if by_agent => Cause::Order,
            () if hidden => Cause::Misfortune("a person's disable-file"),
            () if slot.alive(now).is_none() => Cause::Misfortune("nothing runs"),
            () if !slot.is_healthy(now) => Cause::Misfortune("its health"),
            () => Cause::Misfortune("unknown"),
        };
        let (was, out) = (slot.serves, slot.out.clone());
        slot.serves = serves;
        let was_unheeded = state.facts.unheeded.remove(&at);
        if serves && hidden {
            state.facts.unheeded.insert(at);
        }
        let run = slot.alive(now);
        let (version, put_back) = (run.map(|run| run.is.version), run.is_some_and(|run| run.put_back));
        match (was, serves) {
            (false, true) => {
                let stayed = slot.stayed_in_rotation();
                (slot.out, slot.came_at) = (None, now);
                slot.out_before = out.clone().map(|(_, cause)| (slot.went_at, cause));
                if !stayed && !hidden {
                    state.facts.comes_back(at, slot);
                }
                let taken_for = state.facts.taken_for(at, slot, now);
                let name = self.names.instance(at);
                state.log.log(now, &format!("{name} answers 200 at version {}", version.unwrap_or(0)));
                // What a person put back was in before, and comes in again where it failed by itself. Its agent, which hid it,
                // shows it only inside the window.
                let was_hidden =
                    matches!(&out, Some((since, Cause::Order)) if state.facts.is_calm_since(*since));
                if !stayed && (!put_back || was_hidden) {
                    state.facts.came_in(now, at, (version.unwrap_or(0), taken_for), &name);
                }
            }
            // It answered only beside a disable-file that was there before: nothing let it in, and nothing takes it out.
            (true, false) if was_unheeded && slot.file_at.is_some_and(|put| put < slot.came_at) => {
                (slot.out, slot.went_at) = (slot.out_before.clone(), now);
                state.log.log(now, &format!("{} answers 200 no more: {cause:?}", self.names.instance(at)));
            }
            (true, false) => {
                (slot.out, slot.went_at) = (Some((now, cause.clone())), now);
                slot.drains += u32::from(cause == Cause::Order);
                // What ended by itself fails at the version that it had.
                state.facts.fails_in_rotation(at, slot.version().filter(|_| !hidden), now);
                let name = self.names.instance(at);
                state.log.log(now, &format!("{name} answers 200 no more: {cause:?}"));
                if cause == Cause::Order {
                    self.look_at_those_out(state, at, now);
                    let State { slots, facts, .. } = state;
                    facts.taken_out(now, at, slots, &name);
                }
            }
            // It answered beside a disable-file, and that is removed: only now is it let in.
            (true, true) if was_unheeded && !hidden && !put_back => {
                let taken_for = state.facts.taken_for(at, slot, now);
                let name = self.names.instance(at);
                state.facts.came_in(now, at, (version.unwrap_or(0), taken_for), &name);
            }
            // What ended by itself was not taken out by the agent that hides it until it may come back.
            (false, false) if matches!((&out, &cause), (Some((_, Cause::Misfortune(_))), Cause::Order)) => {}
            (false, false) if out.as_ref().is_none_or(|(_, was)| *was != cause) => {
                slot.out = Some((now, cause));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::event_log::EventLog;
    use crate::simulate::judge::{Facts, ServiceFacts};
    use crate::simulate::names::Names;
    use crate::simulate::slot::{Behaviour, Hiccup};
    use std::time::Duration;

    const PLACE: At = (0, 0);

    /// Seconds go by, with a check of the balancer in each.
    async fn seconds_pass(testbed: &Testbed, seconds: u64) {
        for _ in 0..seconds {
            tokio::time::advance(Duration::from_secs(1)).await;
            testbed.tick();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_balancers_never_took_out_does_not_come_in_again() {
        // The window admits what runs when it is started, and not any more a second later.
        let windows = vec![(0, 1, 2), (1_000, 1, 1)];
        let service = ServiceFacts { instances: 1, windows, ..ServiceFacts::default() };
        let facts = Facts { services: vec![service], ..Facts::default() };
        let names = Names { services: vec!["pantry".to_owned()], nodes: vec!["n00".to_owned()] };
        let flaps = Behaviour { health_flaps: Some(4_000), ..Behaviour::good(2, 0) };
        let releases = [("pantry-2".to_owned(), flaps)].into();
        let testbed = Testbed::new(names, releases, EventLog::new(true), facts);
        testbed.start(PLACE, "pantry-2");
        // So that one check in four falls on the time in which the health URL fails.
        tokio::time::advance(Duration::from_millis(500)).await;
        seconds_pass(&testbed, 30).await;
        let (breaches, came_in) = {
            let state = testbed.state();
            let came_in = state.log.lines().iter().filter(|line| line.contains("answers 200 at")).count();
            (state.facts.breaches.clone(), came_in)
        };
        assert_eq!(breaches, []);
        assert!(came_in > 5, "{came_in}");

        testbed.change(PLACE, |slot, now| slot.hiccups.insert(Hiccup::Health, now + 10_000));
        seconds_pass(&testbed, 13).await;
        let rules: Vec<u8> = testbed.state().facts.breaches.iter().map(|breach| breach.rule).collect();
        assert_eq!(rules.first(), Some(&2), "balancers had taken it out");
    }

    /// The rules that are broken where a version outside the window was put back, left rotation by this and came in again.
    async fn broken_by_return(struck_until: u64, leaves: fn(&Testbed)) -> Vec<u8> {
        let service = ServiceFacts { instances: 1, windows: vec![(0, 2, 2)], ..ServiceFacts::default() };
        let facts = Facts { services: vec![service], struck_until, ..Facts::default() };
        let names = Names { services: vec!["pantry".to_owned()], nodes: vec!["n00".to_owned()] };
        let releases = [1, 2].map(|version| (format!("pantry-{version}"), Behaviour::good(version, 0)));
        let testbed = Testbed::new(names, releases.into(), EventLog::new(true), facts);
        testbed.start(PLACE, "pantry-2");
        testbed.reload(PLACE, "pantry-1", true);
        seconds_pass(&testbed, 2).await;
        leaves(&testbed);
        seconds_pass(&testbed, 4).await;
        drop(testbed.remove(0, &disable_file("pantry")));
        seconds_pass(&testbed, 4).await;
        let state = testbed.state();
        assert!(state.slots[&PLACE].serves, "it came in again");
        state.facts.breaches.iter().map(|breach| breach.rule).collect()
    }

    /// Whether the judge has no window for a version that is started outside the last one and answers 200 only once another
    /// admits it.
    async fn is_unbound(has_no_window: bool) -> bool {
        let windows = vec![(0, 1, 1)];
        let service = ServiceFacts { instances: 1, windows, has_no_window, ..ServiceFacts::default() };
        let facts = Facts { services: vec![service], ..Facts::default() };
        let names = Names { services: vec!["pantry".to_owned()], nodes: vec!["n00".to_owned()] };
        let releases = [("pantry-2".to_owned(), Behaviour::good(2, 8_000))].into();
        let testbed = Testbed::new(names, releases, EventLog::new(false), facts);
        testbed.start(PLACE, "pantry-2");
        testbed.state().facts.services[0].windows.push((0, 1, 2));
        testbed.state().facts.services[0].has_no_window = false;
        seconds_pass(&testbed, 10).await;
        let state = testbed.state();
        assert!(state.slots[&PLACE].serves, "it came in");
        state.facts.unbound.contains(&PLACE)
    }

    #[tokio::test(start_paused = true)]
    async fn window_set_after_its_start_does_not_bind_a_newcomer() {
        assert!(is_unbound(true).await);
        assert!(!is_unbound(false).await, "the store had the window");
    }

    #[tokio::test(start_paused = true)]
    async fn put_back_outside_is_not_shown_by_the_agent_that_hid_it() {
        let hides = |testbed: &Testbed| {
            testbed.write(0, &disable_file("pantry"), BY_AGENT.to_vec()).unwrap();
        };
        let fails = |testbed: &Testbed| {
            testbed.change(PLACE, |slot, now| slot.hiccups.insert(Hiccup::Health, now + 3_000));
        };
        assert_eq!(broken_by_return(0, hides).await, [2]);
        assert_eq!(broken_by_return(u64::MAX, hides).await, Vec::<u8>::new(), "a fault was active");
        assert_eq!(broken_by_return(0, fails).await, Vec::<u8>::new(), "no agent had hidden it");
    }

    /// The rules that are broken where a version outside the window answers beside the disable-file of its agent, which its
    /// health check does not heed, and then this happens.
    async fn broken_beside_a_file(then: fn(&Testbed)) -> Vec<u8> {
        let service = ServiceFacts { instances: 1, windows: vec![(0, 1, 1)], ..ServiceFacts::default() };
        let facts = Facts { services: vec![service], ..Facts::default() };
        let names = Names { services: vec!["pantry".to_owned()], nodes: vec!["n00".to_owned()] };
        let releases = [("pantry-2".to_owned(), Behaviour::good(2, 0))].into();
        let testbed = Testbed::new(names, releases, EventLog::new(false), facts);
        testbed.write(0, &disable_file("pantry"), BY_AGENT.to_vec()).unwrap();
        testbed.change(PLACE, |slot, now| slot.hiccups.insert(Hiccup::Heedless, now + 60_000));
        testbed.start(PLACE, "pantry-2");
        seconds_pass(&testbed, 2).await;
        then(&testbed);
        seconds_pass(&testbed, 2).await;
        let state = testbed.state();
        assert!(state.slots[&PLACE].serves, "it came in");
        state.facts.breaches.iter().map(|breach| breach.rule).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn version_beside_an_unheeded_file_is_not_let_in() {
        let none = Vec::<u8>::new();
        assert_eq!(broken_beside_a_file(|_| ()).await, none, "its agent hides it");
        let shows = |testbed: &Testbed| drop(testbed.remove(0, &disable_file("pantry")));
        assert_eq!(broken_beside_a_file(shows).await, [2], "its agent lets it in");
        let is_shown = |testbed: &Testbed| testbed.removed_by_person(PLACE, |_| true);
        assert_eq!(broken_beside_a_file(is_shown).await, none, "a person enables it");
    }

    /// The rules that are broken where a person removes the disable-file of a version outside the window, a second later this
    /// happens, and it answers 200 so many milliseconds after the removal.
    async fn broken_after_removal(fails_for: u64, then: fn(&Testbed)) -> Vec<u8> {
        let service = ServiceFacts { instances: 1, windows: vec![(0, 1, 1)], ..ServiceFacts::default() };
        let facts = Facts { services: vec![service], ..Facts::default() };
        let names = Names { services: vec!["pantry".to_owned()], nodes: vec!["n00".to_owned()] };
        let releases = [("pantry-2".to_owned(), Behaviour::good(2, 0))].into();
        let testbed = Testbed::new(names, releases, EventLog::new(false), facts);
        testbed.write(0, &disable_file("pantry"), b"kept out by hand".to_vec()).unwrap();
        testbed.start(PLACE, "pantry-2");
        seconds_pass(&testbed, 2).await;
        testbed.change(PLACE, |slot, now| slot.hiccups.insert(Hiccup::Health, now + fails_for));
        testbed.removed_by_person(PLACE, |_| true);
        seconds_pass(&testbed, 1).await;
        then(&testbed);
        seconds_pass(&testbed, 9).await;
        let state = testbed.state();
        assert!(state.slots[&PLACE].serves, "it came in");
        state.facts.breaches.iter().map(|breach| breach.rule).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn removal_of_a_file_is_unseen_until_another_is_there() {
        assert_eq!(broken_after_removal(3_000, |_| ()).await, Vec::<u8>::new());
        assert_eq!(broken_after_removal(6_000, |_| ()).await, [2], "its agent has had time to hide it");
        let hides_and_shows = |testbed: &Testbed| {
            testbed.write(0, &disable_file("pantry"), BY_AGENT.to_vec()).unwrap();
            drop(testbed.remove(0, &disable_file("pantry")));
        };
        assert_eq!(broken_after_removal(3_000, hides_and_shows).await, [2], "its agent lets it in");
    }

    /// The rules that are broken where a version that serves outside the window fails for so many milliseconds, and this happens
    /// a second after that began.
    async fn broken_by_failure(fails_for: u64, then: fn(&Testbed)) -> Vec<u8> {
        let windows = vec![(0, 1, 2), (1_000, 1, 1)];
        let service = ServiceFacts { instances: 1, windows, ..ServiceFacts::default() };
        let facts = Facts { services: vec![service], ..Facts::default() };
        let names = Names { services: vec!["pantry".to_owned()], nodes: vec!["n00".to_owned()] };
        let releases = [("pantry-2".to_owned(), Behaviour::good(2, 0))].into();
        let testbed = Testbed::new(names, releases, EventLog::new(false), facts);
        testbed.start(PLACE, "pantry-2");
        seconds_pass(&testbed, 30).await;
        testbed.change(PLACE, |slot, now| slot.hiccups.insert(Hiccup::Health, now + fails_for));
        seconds_pass(&testbed, 1).await;
        then(&testbed);
        seconds_pass(&testbed, 9).await;
        let state = testbed.state();
        assert!(state.slots[&PLACE].serves, "it came in again");
        state.facts.breaches.iter().map(|breach| breach.rule).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn failure_outside_the_window_is_unseen_for_a_while() {
        for fails_for in [3_000, 6_000] {
            assert_eq!(broken_by_failure(fails_for, |_| ()).await, Vec::<u8>::new(), "{fails_for} ms");
        }
        assert_eq!(broken_by_failure(9_000, |_| ()).await, [2], "its agent has had time to hide it");
        let hides_and_shows = |testbed: &Testbed| {
            testbed.write(0, &disable_file("pantry"), BY_AGENT.to_vec()).unwrap();
            drop(testbed.remove(0, &disable_file("pantry")));
        };
        assert_eq!(broken_by_failure(3_000, hides_and_shows).await, [2], "its agent lets it in");
    }

    /// Its agent may see only after 2.5 s that it ended, and hides it once balancers had time to see that (2 s). Its supervisor
    /// starts it again after 4 s.
    #[tokio::test(start_paused = true)]
    async fn what_ended_outside_is_unseen_until_its_agent_starts_it() {
        let by_agent = |testbed: &Testbed| {
            testbed.start_by_agent(PLACE, "pantry-2");
        };
        let is_another = |testbed: &Testbed| {
            testbed.start(PLACE, "pantry-3");
        };
        let by_supervisor: fn(&Testbed) = |_| ();
        let starts = [
            ("its supervisor", by_supervisor, vec![]),
            ("its agent", by_agent, vec![2]),
            ("something that starts another release", is_another, vec![2]),
        ];
        for (who, starts, expected) in starts {
            let windows = vec![(0, 1, 3), (1_000, 1, 1)];
            let service = ServiceFacts { instances: 1, windows, ..ServiceFacts::default() };
            let facts = Facts { services: vec![service], ..Facts::default() };
            let names = Names { services: vec!["pantry".to_owned()], nodes: vec!["n00".to_owned()] };
            let releases =
                [2, 3].map(|version| (format!("pantry-{version}"), Behaviour::good(version, 0))).into();
            let testbed = Testbed::new(names, releases, EventLog::new(false), facts);
            testbed.change(PLACE, |slot, _| (slot.starts_at_boot, slot.supervised) = (true, true));
            testbed.start(PLACE, "pantry-2");
            seconds_pass(&testbed, 30).await;
            testbed.crash(PLACE);
            seconds_pass(&testbed, 1).await;
            starts(&testbed);
            seconds_pass(&testbed, 5).await;
            let state = testbed.state();
            assert!(state.slots[&PLACE].serves, "it runs again");
            let broken: Vec<u8> = state.facts.breaches.iter().map(|breach| breach.rule).collect();
            assert_eq!(broken, expected, "started by {who}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_was_in_before_its_file_is_taken_out() {
        for (was_in, expected) in [(false, vec![]), (true, vec![4])] {
            let service = ServiceFacts::before_upgrades(1, false);
            let facts = Facts { services: vec![service], ..Facts::default() };
            let names = Names { services: vec!["pantry".to_owned()], nodes: vec!["n00".to_owned()] };
            let releases = [("pantry-1".to_owned(), Behaviour::good(1, 0))].into();
            let testbed = Testbed::new(names, releases, EventLog::new(false), facts);
            let hide = || testbed.write(0, &disable_file("pantry"), BY_AGENT.to_vec()).unwrap();
            testbed.change(PLACE, |slot, now| slot.hiccups.insert(Hiccup::Heedless, now + 5_500));
            if !was_in {
                hide();
            }
            seconds_pass(&testbed, 1).await;
            testbed.start(PLACE, "pantry-1");
            seconds_pass(&testbed, 2).await;
            if was_in {
                hide();
            }
            assert!(testbed.state().slots[&PLACE].serves, "its file is not heeded");
            seconds_pass(&testbed, 5).await;
            let state = testbed.state();
            assert!(!state.slots[&PLACE].serves, "its file is heeded");
            let broken: Vec<u8> = state.facts.breaches.iter().map(|breach| breach.rule).collect();
            assert_eq!(broken, expected, "in before its file: {was_in}");
        }
    }
}
