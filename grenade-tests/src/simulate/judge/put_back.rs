//! What a person put back in rotation, outside the window: its agent disables it at once below what was contracted; else it
//! stays until it is drained, as capacity allows.

use super::{Facts, SEEN};
use crate::simulate::names::Names;
use crate::simulate::slot::{At, Running, Slot};
use std::collections::BTreeMap;

/// While all instances serve and nothing moves them, one outside the window is drained within so many milliseconds.
const DRAINED: u64 = 30_000;

impl Facts {
    /// Whether no fault was active since then, nor ended less than `OLD` before, and the store was never replaced.
    pub(in crate::simulate) fn is_calm_since(&self, since: u64) -> bool {
        self.struck_until < since
    }

    /// Whether what runs in rotation must be able to read and write. What a person put back outside the window is judged by
    /// how long it stays, and a window that was restored with its store may admit more than the database can serve.
    pub(in crate::simulate) fn has_clients(&self, of: usize, run: &Running) -> bool {
        let service = &self.services[of];
        let is_inside = !service.windows.is_empty() && service.admitted().contains(&run.is.version);
        !run.put_back || is_inside && self.is_calm_since(run.since)
    }

    /// A directive of an instance is about to be committed that presumes, or does not, that the instance is out.
    pub(in crate::simulate) fn presumes_out(&mut self, at: At, presumes_out: bool) {
        let before = self.directed.get(&at).filter(|_| presumes_out && self.replaced_by.contains_key(&at));
        if let Some(before) = before.copied() {
            self.replaced_before.insert(at, before);
        } else {
            self.replaced_before.remove(&at);
        }
    }

    /// Whether no order took out what a person put back. No order does so, and its agent may not have seen it in rotation, or
    /// not in time. Or the order presumes that the instance is out, so that it takes nothing out of rotation: the instance came
    /// in under the replacement before it, and its agent has just seen that another release than that one answers.
    pub(super) fn is_put_back_and_hidden_alone(&self, (at, slot): (At, &Slot), now: u64) -> bool {
        let Some(run) = slot.alive(now).filter(|run| run.put_back) else { return false };
        let is_verified_under = |before: &u64| *before < slot.came_at && slot.came_at <= run.since;
        let replaces_nothing = self.replaced_before.get(&at).is_some_and(is_verified_under);
        match self.ordered_out.contains_key(&at) {
            true => replaces_nothing && now < run.since + SEEN,
            false => !self.is_calm_since(run.since),
        }
    }

    /// Judges what was put back of a service and is still in rotation.
    pub(in crate::simulate) fn judge_put_back(
        &mut self,
        now: u64,
        of: usize,
        slots: &BTreeMap<At, Slot>,
        names: &Names,
    ) {
        let service = &self.services[of];
        let Some(set_at) = service.windows.last().map(|(at, ..)| *at) else { return };
        let of_it = || slots.iter().filter(|(at, _)| at.0 == of);
        let changed = |slot: &Slot| slot.came_at.max(slot.running.as_ref().map_or(0, |run| run.since));
        let changed_at = of_it().map(|(_, slot)| changed(slot)).fold(set_at, u64::max);
        let has_spare = service.instances > service.min_in_service;
        let may_be_drained = !service.upgrading && has_spare && of_it().all(|(_, slot)| slot.serves);
        let mut found = Vec::new();
        for (at, slot) in of_it().filter(|(_, slot)| slot.serves) {
            let put_back = slot.alive(now).filter(|run| run.put_back);
            let outside = put_back.filter(|run| !service.admitted().contains(&run.is.version));
            let Some(run) = outside else { continue };
            let (rule, since, limit, what) = match run.is.version < service.contracted {
                true => (1, run.since.max(set_at), SEEN, "below what was contracted"),
                false if may_be_drained => (2, changed_at, DRAINED, "and is not drained"),
                false => continue,
            };
            if since + limit < now && self.is_calm_since(since) {
                let name = names.instance(*at);
                let text = format!("{name} serves outside the window at {} since {since}, {what}", run.tag);
                found.push((rule, text));
            }
        }
        found.into_iter().for_each(|(rule, text)| self.breach(now, rule, text));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OLD, ServiceFacts};
    use super::*;
    use crate::simulate::slot::{Behaviour, Cause};

    const PLACE: At = (0, 0);
    const PUT_BACK: u64 = 60_000;

    fn runs(version: u32, since: u64, put_back: bool) -> Slot {
        let is = Behaviour::good(version, 0);
        let running = Running { tag: format!("pantry-{version}"), is, since, pid: 1, put_back };
        Slot { running: Some(running), serves: true, ..Slot::default() }
    }

    /// A service of two instances: one must stay, the window admits version 2 alone, and version 1 was put back on one.
    fn world(contracted: u32) -> (Facts, BTreeMap<At, Slot>) {
        let windows = vec![(1_000, 2, 2)];
        let service =
            ServiceFacts { instances: 2, min_in_service: 1, windows, contracted, ..Default::default() };
        let facts = Facts { services: vec![service], ..Facts::default() };
        (facts, [(PLACE, runs(1, PUT_BACK, true)), ((0, 1), runs(2, 0, false))].into())
    }

    fn rules(facts: &Facts) -> Vec<u8> {
        facts.breaches.iter().map(|breach| breach.rule).collect()
    }

    /// The rules that are broken so many milliseconds after a version was put back.
    fn broken(
        contracted: u32,
        after: u64,
        change: impl FnOnce(&mut Facts, &mut BTreeMap<At, Slot>),
    ) -> Vec<u8> {
        let (mut facts, mut slots) = world(contracted);
        change(&mut facts, &mut slots);
        let nodes = ["n0", "n1"].map(str::to_owned).to_vec();
        let names = Names { services: vec!["pantry".to_owned()], nodes };
        facts.judge_put_back(PUT_BACK + after, 0, &slots, &names);
        rules(&facts)
    }

    #[test]
    fn version_put_back_must_be_drained_once_capacity_allows() {
        assert_eq!(broken(0, DRAINED, |_, _| ()), Vec::<u8>::new(), "there is time yet");
        assert_eq!(broken(0, DRAINED + 1, |_, _| ()), [2]);
        let other_is_out = |_: &mut Facts, slots: &mut BTreeMap<At, Slot>| {
            slots.insert((0, 1), Slot { serves: false, ..runs(2, 0, false) });
        };
        assert_eq!(broken(0, DRAINED + 1, other_is_out), Vec::<u8>::new(), "the other one is out");
        let both_must_stay =
            |facts: &mut Facts, _: &mut BTreeMap<At, Slot>| facts.services[0].min_in_service = 2;
        assert_eq!(broken(0, DRAINED + 1, both_must_stay), Vec::<u8>::new(), "capacity is at its limit");
        let is_moved = |facts: &mut Facts, _: &mut BTreeMap<At, Slot>| facts.services[0].upgrading = true;
        assert_eq!(broken(0, DRAINED + 1, is_moved), Vec::<u8>::new(), "an upgrade has its own order");
        let is_admitted =
            |facts: &mut Facts, _: &mut BTreeMap<At, Slot>| facts.services[0].windows.push((1_001, 1, 2));
        assert_eq!(broken(0, DRAINED + 1, is_admitted), Vec::<u8>::new(), "the window admits it");
    }

    #[test]
    fn version_put_back_below_the_contracted_one_is_disabled() {
        assert_eq!(broken(2, SEEN, |_, _| ()), Vec::<u8>::new(), "its agent may not have seen it");
        assert_eq!(broken(2, SEEN + 1, |_, _| ()), [1]);
        let struck = |facts: &mut Facts, _: &mut BTreeMap<At, Slot>| facts.struck_until = PUT_BACK + 1;
        assert_eq!(broken(2, SEEN + 1, struck), Vec::<u8>::new(), "its agent may be away");
    }

    #[test]
    fn version_put_back_is_taken_out_as_capacity_allows() {
        let judged = |contracted: u32, struck_until: u64, ordered_at: Option<u64>| {
            let (mut facts, mut slots) = world(contracted);
            (facts.services[0].min_in_service, facts.struck_until) = (2, struck_until);
            facts.ordered_out.extend(ordered_at.map(|at| (PLACE, at)));
            let now = PUT_BACK + OLD;
            slots.insert(PLACE, Slot { out: Some((now, Cause::Order)), ..runs(1, PUT_BACK, true) });
            facts.taken_out(now, PLACE, &slots, "pantry/n0");
            (rules(&facts), facts.taken_back.contains_key(&PLACE))
        };
        let (by_its_agent, by_order) = ((vec![], true), (vec![], false));
        assert_eq!(judged(0, PUT_BACK - 1, None), (vec![4], false), "two must stay");
        assert_eq!(judged(0, PUT_BACK, None), by_its_agent, "its agent may not have seen it in rotation");
        assert_eq!(judged(0, PUT_BACK, Some(PUT_BACK)), (vec![4], false), "an order takes it out");
        assert_eq!(judged(2, 0, None), by_its_agent, "it is below the contracted one");
        assert_eq!(judged(2, 0, Some(PUT_BACK)), by_order, "an order takes it out");
    }

    #[test]
    fn version_put_back_is_hidden_before_what_presumes_it_out() {
        let broken = |change: fn(&mut Facts), came_at: u64, after: u64, presumes_out: bool| {
            let (mut facts, mut slots) = world(0);
            facts.services[0].min_in_service = 2;
            facts.services[0].windows = vec![(1_000, 1, 2)];
            facts.directed.insert(PLACE, PUT_BACK - 5_000);
            facts.replaced_by.insert(PLACE, "pantry-2".to_owned());
            change(&mut facts);
            facts.presumes_out(PLACE, presumes_out);
            let now = PUT_BACK + after;
            facts.directed.insert(PLACE, now);
            facts.ordered_out.insert(PLACE, now);
            slots.insert(PLACE, Slot { came_at, out: Some((now, Cause::Order)), ..runs(1, PUT_BACK, true) });
            facts.taken_out(now, PLACE, &slots, "pantry/n0");
            rules(&facts)
        };
        let came_at = PUT_BACK - 400;
        assert_eq!(broken(|_| (), came_at, 169, true), Vec::<u8>::new(), "its agent saw another release");
        assert_eq!(broken(|_| (), came_at, 169, false), [4], "the order takes it out");
        assert_eq!(broken(|_| (), came_at, SEEN, true), [4], "its agent had seen it before");
        assert_eq!(broken(|_| (), PUT_BACK - 5_000, 169, true), [4], "it came in before the replacement");
        let is_let_in = |facts: &mut Facts| facts.replaced_by.clear();
        assert_eq!(broken(is_let_in, came_at, 169, true), [4], "nothing replaced it");
    }

    #[test]
    fn version_put_back_inside_the_window_has_clients() {
        let has = |change: fn(&mut Facts), version: u32, put_back: bool| {
            let (mut facts, _) = world(0);
            change(&mut facts);
            runs(version, PUT_BACK, put_back).running.is_some_and(|run| facts.has_clients(0, &run))
        };
        assert!(has(|_| (), 2, true));
        assert!(!has(|_| (), 1, true), "the window does not admit it");
        assert!(has(|_| (), 1, false), "no person put it there");
        assert!(!has(|facts| facts.struck_until = PUT_BACK, 2, true), "the window may be a restored one");
        assert!(!has(|facts| facts.services[0].windows.clear(), 2, true), "there was no window yet");
    }
}
