//! Processes of services: how they start, stop, crash and lose their power, and the hooks that do so for their agent.

use super::files::disable_file;
use super::{State, Testbed};
use crate::simulate::slot::{At, Behaviour, HookRun, Running, Slot};

/// How long a supervisor waits before it starts a service again, in milliseconds.
const RESTARTS_AFTER: u64 = 4_000;

/// How long it takes until a person starts a service again that has no supervisor, in milliseconds: longer than every drain.
const BY_HAND_AFTER: u64 = 30_000;

impl Testbed {
    /// A process begins.
    pub(in crate::simulate) fn start(&self, at: At, tag: &str) -> i32 {
        let now = self.now();
        let mut state = self.state();
        state.next += 1;
        let pid = i32::try_from(state.next).unwrap_or(i32::MAX) + 1000;
        let Some(is) = state.releases.get(tag).cloned() else { return pid };
        state.facts.started(at, is.version);
        // A supervisor starts what ran before.
        if state.slots.get(&at).is_none_or(|slot| slot.last.as_deref() != Some(tag)) {
            state.facts.forget_changes(at);
        }
        let slot = state.slots.entry(at).or_default();
        let still = slot.alive(now).map(|run| run.tag.clone());
        slot.running = Some(Running { tag: tag.to_owned(), is, since: now, pid, put_back: false });
        if slot.last.as_deref() != Some(tag) {
            slot.release_since = now;
        }
        slot.last = Some(tag.to_owned());
        let name = self.names.instance(at);
        state.log.log(now, &format!("{name} starts {tag}"));
        if let Some(still) = still {
            state.facts.breach(now, 5, format!("{name} was started at {tag} while {still} ran"));
        }
        self.look_at(&mut state, at, now);
        pid
    }

    /// The same, where its agent starts it.
    pub(in crate::simulate) fn start_by_agent(&self, at: At, tag: &str) -> i32 {
        self.state().facts.started_by_agent(at, tag);
        self.start(at, tag)
    }

    /// A person replaces what runs with another release, as a link that is switched and a graceful reload do: it answers all
    /// the time.
    pub(in crate::simulate) fn reload(&self, at: At, tag: &str, put_back: bool) {
        let (is, pid) = {
            let mut state = self.state();
            state.next += 1;
            let Some(is) = state.releases.get(tag).cloned() else { return };
            (Behaviour { ready_after: 0, ..is }, i32::try_from(state.next).unwrap_or(i32::MAX) + 1000)
        };
        self.log(format!("a person reloads {} with {tag}", self.names.instance(at)));
        self.change(at, |slot, since| {
            slot.running = Some(Running { tag: tag.to_owned(), is, since, pid, put_back });
        });
    }

    /// The process that was started last, where it was not stopped.
    pub(in crate::simulate) fn pid(&self, at: At) -> Option<i32> {
        self.state().slots.get(&at).and_then(|slot| slot.running.as_ref()).map(|run| run.pid)
    }

    /// Its agent begins to stop it: a hook or a signal, which takes its time and cannot be taken back.
    pub(in crate::simulate) fn begin_stop(&self, at: At) {
        let now = self.now();
        let mut state = self.state();
        let is_hidden = self.is_hidden(&state, at);
        let slot = state.slots.entry(at).or_default();
        slot.stop_begun = (is_hidden && !slot.hangs(now)).then_some(now);
    }

    fn is_hidden(&self, state: &State, at: At) -> bool {
        state.disks[at.1].files.contains_key(&disable_file(&self.names.services[at.0]))
    }

    /// A process ends because its agent wants it to.
    pub(in crate::simulate) fn stop(&self, at: At) {
        let now = self.now();
        let mut state = self.state();
        let is_hidden = self.is_hidden(&state, at);
        let slot = state.slots.entry(at).or_default();
        let (in_flight, ran) = (slot.in_flight(now), slot.alive(now).is_some());
        let exposed = slot.serves || slot.server.up;
        // What its agent saw before the stop was true then, and a stop that has begun is not taken back.
        let unheeded = slot.came_in_while_stopping(is_hidden);
        (slot.running, slot.stop_begun) = (None, None);
        let drained_since = state.slots.get(&at).and_then(|slot| state.facts.drained_since(at, slot));
        let name = self.names.instance(at);
        state.log.log(now, &format!("{name} stops"));
        if ran && (in_flight > 0 || exposed) && !unheeded {
            state.facts.stopped_at_work(now, at, drained_since, exposed, &name);
        }
        state.facts.stopped(at);
        self.look_at(&mut state, at, now);
    }

    /// A process ends by itself.
    pub(in crate::simulate) fn crash(&self, at: At) {
        self.log(format!("{} crashes", self.names.instance(at)));
        self.change(at, |slot, now| {
            if let Some(run) = &mut slot.running {
                run.is.crashes_after = Some(now - run.since);
            }
        });
    }

    /// The boot ID of a node's machine.
    pub(in crate::simulate) fn boot_id(&self, node: usize) -> String {
        format!("boot-{node}-{}", self.state().disks[node].power_losses)
    }

    /// A machine loses its power: its next boot has an ID of its own.
    pub(in crate::simulate) fn end_boot(&self, node: usize) {
        self.state().disks[node].power_losses += 1;
    }

    /// A service of a node loses its power: nothing of it is left.
    pub(in crate::simulate) fn loses_power(&self, at: At) {
        self.log(format!("{} loses its power", self.names.instance(at)));
        self.state().disks[at.1].images.lose_power();
        self.change(at, |slot, _| {
            slot.running = None;
            let begun = std::mem::take(&mut slot.hooks).into_keys();
            slot.booted.extend(begun.chain(std::mem::take(&mut slot.ended).into_keys()));
        });
    }

    /// A node is back: what its machine starts at boot is started.
    pub(in crate::simulate) fn boots(&self, at: At) {
        let last = {
            let state = self.state();
            let slot = state.slots.get(&at).filter(|slot| slot.starts_at_boot && slot.running.is_none());
            slot.and_then(|slot| slot.last.clone())
        };
        if let Some(tag) = last {
            self.start_admitted(at, &tag);
        }
    }

    /// A process begins where the window admits it, as that of a unit with `tidegate-agent admit` does.
    fn start_admitted(&self, at: At, tag: &str) {
        let is_admitted = {
            let state = self.state();
            let version = state.releases.get(tag).map(|is| is.version);
            let service = state.facts.services.get(at.0);
            let admits = |version: u32| service.is_none_or(|service| service.admitted().contains(&version));
            version.is_some_and(admits)
        };
        if is_admitted {
            self.state().facts.forget_changes(at);
            self.start(at, tag);
        }
    }

    /// What ended by itself is started again: by its own supervisor, or later by a person.
    pub(super) fn supervise(&self) {
        let now = self.now();
        let over = |slot: &Slot, after: u64| {
            let run = slot.running.as_ref().filter(|_| slot.starts_at_boot && slot.hooks.is_empty())?;
            (now >= slot.ends_at()? + after).then(|| run.tag.clone())
        };
        let ended = |by_supervisor: bool, after: u64| -> Vec<(At, String)> {
            let state = self.state();
            let slots = state.slots.iter().filter(|(_, slot)| slot.is_started_again() == by_supervisor);
            slots.filter_map(|(at, slot)| Some((*at, over(slot, after)?))).collect()
        };
        for (at, tag) in ended(true, RESTARTS_AFTER) {
            self.start(at, &tag);
        }
        for (at, tag) in ended(false, BY_HAND_AFTER) {
            self.start_admitted(at, &tag);
        }
    }

    /// A hook begins; its number.
    pub(in crate::simulate) fn begin_hook(&self, at: At, set: &'static str, name: &str) -> u64 {
        let now = self.now();
        let mut state = self.state();
        state.next += 1;
        let id = state.next;
        let slot = state.slots.entry(at).or_default();
        slot.booted.remove(set);
        if let Some(other) = slot.hooks.insert(set, HookRun { id, name: name.to_owned() }) {
            let name = self.names.instance(at);
            state.facts.breach(now, 5, format!("{name}: hook {} was begun beside another", other.name));
        }
        id
    }

    /// A hook ends, or is killed; whether it still ran.
    pub(in crate::simulate) fn end_hook(&self, at: At, set: &'static str, id: u64) -> bool {
        let mut state = self.state();
        let slot = state.slots.entry(at).or_default();
        let runs = slot.hooks.get(set).is_some_and(|run| run.id == id);
        if runs && let Some(run) = slot.hooks.remove(set) {
            slot.ended.insert(set, run.name);
        }
        runs
    }

    /// A release behaves from its next start on as it should.
    pub(in crate::simulate) fn correct(&self, tag: &str) {
        self.log(format!("{tag} is fixed"));
        if let Some(is) = self.state().releases.get_mut(tag) {
            *is = is.corrected();
        }
    }

    /// Every release of a service behaves as it should, those that run included: what was wrong with their configuration is
    /// corrected where they run.
    pub(in crate::simulate) fn correct_all(&self, service: usize) {
        self.log(format!("every release of {} is fixed", self.names.services[service]));
        let now = self.now();
        let mut state = self.state();
        let State { releases, slots, .. } = &mut *state;
        let name = format!("{}-", self.names.services[service]);
        releases
            .iter_mut()
            .filter(|(tag, _)| tag.starts_with(&name))
            .for_each(|(_, is)| *is = is.corrected());
        for (_, slot) in slots.iter_mut().filter(|((of, _), _)| *of == service) {
            if slot.alive(now).is_some()
                && let Some(run) = &mut slot.running
            {
                run.is = run.is.corrected();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rotation::BY_AGENT;
    use super::*;
    use crate::simulate::event_log::EventLog;
    use crate::simulate::judge::{Facts, ServiceFacts};
    use crate::simulate::names::Names;
    use crate::simulate::slot::{Behaviour, Hiccup};
    use std::ops::RangeInclusive;
    use std::time::Duration;

    const PLACE: At = (0, 0);

    fn testbed() -> Testbed {
        let service = ServiceFacts { instances: 1, drain_deadline: 5_000, ..ServiceFacts::default() };
        let facts = Facts { services: vec![service], ..Facts::default() };
        let names = Names { services: vec!["pantry".to_owned()], nodes: vec!["n00".to_owned()] };
        let releases = [("pantry-1".to_owned(), Behaviour::good(1, 0))].into();
        Testbed::new(names, releases, EventLog::new(false), facts)
    }

    fn rules(testbed: &Testbed) -> Vec<u8> {
        testbed.state().facts.breaches.iter().map(|breach| breach.rule).collect()
    }

    fn hides(testbed: &Testbed) {
        testbed.write(0, &disable_file("pantry"), BY_AGENT.to_vec()).unwrap();
    }

    fn starts(testbed: &Testbed) {
        testbed.start(PLACE, "pantry-1");
    }

    fn hangs_for_a_moment(testbed: &Testbed) {
        testbed.change(PLACE, |slot, now| slot.hiccups.insert(Hiccup::Hangs, now + 1_500));
    }

    /// The rules that a stop breaks where the health check does not heed the disable-file, by what happens before it begins
    /// and during it.
    async fn broken(before: &[fn(&Testbed)], during: &[fn(&Testbed)]) -> Vec<u8> {
        let testbed = testbed();
        testbed.change(PLACE, |slot, now| slot.hiccups.insert(Hiccup::Heedless, now + 60_000));
        before.iter().for_each(|happens| happens(&testbed));
        tokio::time::advance(Duration::from_secs(1)).await;
        testbed.begin_stop(PLACE);
        tokio::time::advance(Duration::from_secs(1)).await;
        during.iter().for_each(|happens| happens(&testbed));
        tokio::time::advance(Duration::from_secs(1)).await;
        testbed.stop(PLACE);
        rules(&testbed)
    }

    /// The rules that the stop of a drained instance breaks whose disable-file is removed so long before its end.
    async fn broken_by_removal(removes: fn(&Testbed), ms: u64) -> Vec<u8> {
        let testbed = testbed();
        starts(&testbed);
        hides(&testbed);
        tokio::time::advance(Duration::from_secs(10)).await;
        testbed.begin_stop(PLACE);
        removes(&testbed);
        tokio::time::advance(Duration::from_millis(ms)).await;
        testbed.stop(PLACE);
        rules(&testbed)
    }

    /// After how many seconds a service that ended by itself runs again, where its window admits these versions.
    async fn runs_again_after(unsupervised: bool, admitted: RangeInclusive<u32>) -> Option<u64> {
        let testbed = testbed();
        let windows = vec![(0, *admitted.start(), *admitted.end())];
        testbed.state().facts.services[0].windows = windows;
        testbed.change(PLACE, |slot, _| {
            (slot.starts_at_boot, slot.supervised) = (true, !unsupervised);
        });
        starts(&testbed);
        testbed.crash(PLACE);
        for second in 0..60 {
            testbed.tick();
            let now = testbed.now();
            if testbed.state().slots[&PLACE].alive(now).is_some() {
                return Some(second);
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn each_power_loss_gives_another_boot_id() {
        let testbed = testbed();
        let first = testbed.boot_id(0);
        testbed.loses_power(PLACE);
        assert_eq!(testbed.boot_id(0), first, "other services of its node go on");
        testbed.end_boot(0);
        let second = testbed.boot_id(0);
        testbed.end_boot(0);
        assert!(second != first && ![first, second].contains(&testbed.boot_id(0)));
    }

    #[tokio::test(start_paused = true)]
    async fn person_starts_what_has_no_supervisor_much_later() {
        assert_eq!(runs_again_after(false, 1..=1).await, Some(4));
        assert_eq!(runs_again_after(true, 1..=1).await, Some(30));
        assert_eq!(runs_again_after(true, 2..=2).await, None, "the window does not admit it");
    }

    #[tokio::test(start_paused = true)]
    async fn reloaded_instance_stays_in_rotation_until_it_ends() {
        let testbed = testbed();
        testbed.change(PLACE, |slot, _| (slot.starts_at_boot, slot.supervised) = (true, true));
        starts(&testbed);
        tokio::time::advance(Duration::from_secs(1)).await;
        testbed.reload(PLACE, "pantry-1", true);
        assert!(testbed.change(PLACE, |slot, _| slot.serves && slot.came_at == 0 && slot.out.is_none()));
        testbed.crash(PLACE);
        tokio::time::advance(Duration::from_secs(10)).await;
        testbed.tick();
        assert!(testbed.change(PLACE, |slot, now| slot.stands_still(now)), "no supervisor knows of it");
        tokio::time::advance(Duration::from_secs(20)).await;
        testbed.tick();
        assert!(testbed.change(PLACE, |slot, now| slot.alive(now).is_some()), "a person starts it");
        assert_eq!(rules(&testbed), Vec::<u8>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn let_in_unheeded_after_its_stop_began_is_no_breach() {
        assert_eq!(broken(&[hides], &[starts]).await, Vec::<u8>::new());
        assert_eq!(broken(&[], &[hides, starts]).await, [6], "its stop began without a disable-file");
        assert_eq!(broken(&[hides, starts], &[]).await, [6], "it was in rotation when its stop began");
        let hung = broken(&[hides, hangs_for_a_moment], &[starts]).await;
        assert_eq!(hung, [6], "nothing had refused when its stop began");
    }

    #[tokio::test(start_paused = true)]
    async fn file_a_person_removes_during_a_stop_is_no_breach() {
        let by_person = |testbed: &Testbed| testbed.removed_by_person(PLACE, |text| text == BY_AGENT);
        let others = |testbed: &Testbed| testbed.removed_by_person(PLACE, |text| text != BY_AGENT);
        let by_agent = |testbed: &Testbed| testbed.remove(0, &disable_file("pantry")).unwrap();
        assert_eq!(broken_by_removal(by_person, 500).await, Vec::<u8>::new());
        assert_eq!(broken_by_removal(others, 500).await, Vec::<u8>::new(), "it is hidden still");
        assert_eq!(broken_by_removal(by_agent, 500).await, [6], "no person removed it");
        assert_eq!(broken_by_removal(by_person, 6_000).await, [6], "no stop lasts so long");
    }
}
