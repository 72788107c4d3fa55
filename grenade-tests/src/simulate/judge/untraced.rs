//! Instances without a trace: their agents have acknowledged no window, and no store has admitted them, or only one that was
//! lost, or one that had no window. Until the agent of such an instance has truly reported what runs to the store that is there
//! now, no component can know that the window leaves it out. What keeps it from that: it does not run, is stopped or is cut off,
//! its disk is full, it has not seen the first window yet, or its version URL answers another version.

use super::{Facts, SEEN};
use crate::simulate::agent::AGAIN;
use crate::simulate::slot::At;

impl Facts {
    /// The agent of a node is ended.
    pub(in crate::simulate) fn agent_ended(&mut self, node: usize, now: u64) {
        self.forget_seen(node, now);
        self.agents_cut.insert(node, u64::MAX);
        self.agents_away.insert(node, u64::MAX);
    }

    /// The agent of a node is started: where the process before it was stopped, that is over.
    pub(in crate::simulate) fn agent_started(&mut self, node: usize, now: u64) {
        self.reconnected(node, now);
        for of_nodes in [&mut self.agents_away, &mut self.agents_stalled] {
            if let Some(until) = of_nodes.get_mut(&node) {
                *until = now.min(*until);
            }
        }
    }

    /// The agent of a node reaches the store again, or is started with a line that does.
    pub(in crate::simulate) fn reconnected(&mut self, node: usize, now: u64) {
        if let Some(until) = self.agents_cut.get_mut(&node) {
            *until = now.min(*until);
        }
    }

    /// Whether no component could know that the store which was lost had a window: this one has none, and the agent of the
    /// instance acknowledged none, or has lost its journal since.
    pub(super) fn knows_no_window(&self, at: At) -> bool {
        self.services.get(at.0).is_some_and(|service| service.has_no_window) && !self.bound.contains(&at)
    }

    /// A release is started. Where no component could know of the window that does not admit it, a person may set one that
    /// does before it comes into rotation.
    pub(in crate::simulate) fn started(&mut self, at: At, version: u32) {
        self.newcomer_starts(at);
        self.runs_without_window(at, version);
    }

    /// A release is started, or a store admits what runs. Where the store has no window and no component could know of the one
    /// that does not admit it, nothing keeps it out.
    pub(in crate::simulate) fn runs_without_window(&mut self, at: At, version: u32) {
        let is_outside =
            self.services.get(at.0).is_some_and(|service| !service.admitted().contains(&version));
        if is_outside && self.knows_no_window(at) {
            self.unbound.insert(at);
        }
    }

    /// Whether an instance was started, or came in, while no component could know of the window that was lost, and the first one
    /// after that was set not `OLD` ago: its agent may not have seen it yet.
    fn precedes_first_window(&self, at: At, now: u64) -> bool {
        let is_new = self.services.get(at.0).is_some_and(|service| now < service.windowless_until);
        is_new && self.unbound.contains(&at)
    }

    /// Whether nothing knows of an instance: its agent has acknowledged no window, and the store as it is now has no record of
    /// it, or admitted it without a window. What a lost store had counts no more than what none had.
    fn has_no_trace(&self, at: At) -> bool {
        let is_recorded = self.silent.is_recorded(at) && !self.unbound.contains(&at);
        !is_recorded && !self.bound.contains(&at)
    }

    /// Whether the agent of an instance can neither read the window nor report: it does not run, is stopped or is cut off from
    /// the store, or was `SEEN` ago. On a full disk it can neither note the window nor put a disable-file; where it ended there,
    /// it is started again `AGAIN` later.
    pub(super) fn is_kept_from_reporting(&self, at: At, now: u64) -> bool {
        let restart = AGAIN.as_secs() * 1_000;
        let away = [(&self.agents_cut, 0), (&self.agents_stalled, 0), (&self.disks_full, restart)];
        away.into_iter().any(|(of_nodes, pause)| {
            of_nodes.get(&at.1).is_some_and(|until| now < until.saturating_add(pause + SEEN))
        })
    }

    /// Whether no component can know that the window leaves an instance out, as nothing knows of it.
    pub(super) fn is_untraced(&self, at: At, now: u64) -> bool {
        self.precedes_first_window(at, now) || self.has_no_trace(at) && self.is_kept_from_reporting(at, now)
    }

    /// Whether no component can know that an instance runs: nothing knows of it, or a person decommissioned it, and its agent,
    /// which is kept from reporting, was not heard since.
    pub(in crate::simulate) fn is_unheard_of(&self, at: At, now: u64) -> bool {
        self.is_untraced(at, now) || self.silent.is_gone(at) && self.is_kept_from_reporting(at, now)
    }

    /// Whether the agent of an instance, and every other component, knows what runs by the answer of its version URL alone: it
    /// was started outside a lost window while the store had none, and no order replaces it. A person may have reconciled the
    /// store with that answer.
    pub(super) fn goes_by_answer(&self, at: At) -> bool {
        self.unbound.contains(&at) && !self.replaced_by.contains_key(&at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OLD, ServiceFacts};
    use super::*;
    use crate::simulate::slot::{Behaviour, Hiccup, Running, Slot};
    use tidegate_proto::ServiceVersion;
    use tidegate_proto::record::window::{BY_RECONCILIATION, Window};

    const PLACE: At = (0, 0);

    /// The judge of one service.
    fn facts(change: impl FnOnce(&mut ServiceFacts)) -> Facts {
        let mut service = ServiceFacts::default();
        change(&mut service);
        Facts { services: vec![service], ..Facts::default() }
    }

    /// A rollback moves the window while the release of a new node hangs, before its agent has read any.
    #[test]
    fn cut_off_agent_of_an_unadmitted_instance_refuses_nothing() {
        let broken = |until: Option<u64>, change: fn(&mut Facts)| {
            let mut judged = facts(|service| service.windows = vec![(0, 1, 1)]);
            judged.agents_cut.extend(until.map(|until| (PLACE.1, until)));
            change(&mut judged);
            judged.came_in(60_000, PLACE, (2, None), "pantry/n0");
            judged.breaches.first().map(|breach| breach.rule)
        };
        assert_eq!(broken(Some(u64::MAX), |_| ()), None);
        let reconnected = |judged: &mut Facts| judged.reconnected(PLACE.1, 60_000 - SEEN);
        assert_eq!(broken(Some(u64::MAX), reconnected), Some(2), "it has reached the store for long enough");
        assert_eq!(broken(Some(60_001 - SEEN), |_| ()), None, "its agent cannot have read the window yet");
        assert_eq!(broken(None, |_| ()), Some(2), "it was never cut off");
        let stopped = |judged: &mut Facts| judged.agents_stalled.extend([(PLACE.1, u64::MAX)]);
        assert_eq!(broken(None, stopped), None, "its agent looks at nothing");
        assert_eq!(broken(Some(60_000 - SEEN), stopped), None, "it reaches the store, and is stopped");
        let went_on = |judged: &mut Facts| judged.agents_stalled.extend([(PLACE.1, 60_000 - SEEN)]);
        assert_eq!(broken(None, went_on), Some(2), "its agent has gone on for long enough");
        let bound = |judged: &mut Facts| judged.bound.extend([PLACE]);
        assert_eq!(broken(Some(u64::MAX), bound), Some(2), "its agent has acknowledged a window");
        let admitted = |judged: &mut Facts| judged.silent.admitted(PLACE, 0);
        assert_eq!(broken(Some(u64::MAX), admitted), Some(2), "a store has admitted it");
        let lost = |judged: &mut Facts| {
            judged.silent.admitted(PLACE, 0);
            judged.silent.begin_again();
        };
        assert_eq!(broken(Some(u64::MAX), lost), None, "only a lost store has admitted it");
        let copied = |judged: &mut Facts| {
            judged.silent.begin_again();
            judged.silent.admitted(PLACE, 0);
        };
        assert_eq!(broken(Some(u64::MAX), copied), Some(2), "the copy has its admission");
        let decommissioned = |judged: &mut Facts| {
            judged.silent.admitted(PLACE, 0);
            judged.silent.decommissioned(PLACE);
        };
        assert_eq!(broken(Some(u64::MAX), decommissioned), Some(2), "the store has its decommission");
    }

    /// Its agent is ended while it is stopped, and another process of it is started.
    #[test]
    fn stop_of_an_agent_is_over_once_another_is_started() {
        let is_kept = |started_at: u64| {
            let mut judged = facts(|_| ());
            judged.agents_stalled.insert(PLACE.1, u64::MAX);
            judged.agent_ended(PLACE.1, 20_000);
            judged.agent_started(PLACE.1, started_at);
            judged.is_kept_from_reporting(PLACE, 60_000)
        };
        assert!(is_kept(60_001 - SEEN), "it cannot have reported yet");
        assert!(!is_kept(60_000 - SEEN), "it was never stopped");
    }

    /// The disk of a new node is full while its release hangs, and its agent ends at each start. A rollback moves the window.
    #[test]
    fn agent_of_an_unadmitted_instance_hides_none_on_a_full_disk() {
        let broken = |node: usize, until: u64, change: fn(&mut Facts)| {
            let mut judged = facts(|service| service.windows = vec![(0, 1, 1)]);
            judged.disks_full.insert(node, until);
            change(&mut judged);
            judged.came_in(60_000, PLACE, (2, None), "pantry/n0");
            judged.breaches.first().map(|breach| breach.rule)
        };
        assert_eq!(broken(PLACE.1, u64::MAX, |_| ()), None);
        let restarted = 60_000 - SEEN - AGAIN.as_secs() * 1_000;
        assert_eq!(broken(PLACE.1, restarted + 1, |_| ()), None, "it may have been started again just now");
        assert_eq!(broken(PLACE.1, restarted, |_| ()), Some(2), "it has run for long enough");
        assert_eq!(broken(PLACE.1 + 1, u64::MAX, |_| ()), Some(2), "the disk of another node is full");
        let bound = |judged: &mut Facts| judged.bound.extend([PLACE]);
        assert_eq!(broken(PLACE.1, u64::MAX, bound), Some(2), "its agent has acknowledged a window");
        let admitted = |judged: &mut Facts| judged.silent.admitted(PLACE, 0);
        assert_eq!(broken(PLACE.1, u64::MAX, admitted), Some(2), "a store has admitted it");
    }

    /// A blank store without a window admits a new node, whose agent is cut off then. A person reconciles the store without it.
    #[test]
    fn cut_off_newcomer_of_a_blank_store_is_not_refused() {
        let broken = |has_no_window: bool, started: u32, change: fn(&mut Facts)| {
            let mut judged = facts(|service| {
                (service.windows, service.has_no_window) = (vec![(0, 2, 2)], has_no_window);
            });
            judged.silent.admitted(PLACE, 0);
            judged.started(PLACE, started);
            judged.services[0].has_no_window = false;
            judged.agents_cut.insert(PLACE.1, u64::MAX);
            change(&mut judged);
            judged.came_in(60_000, PLACE, (1, None), "pantry/n0");
            judged.breaches.first().map(|breach| breach.rule)
        };
        assert_eq!(broken(true, 1, |_| ()), None);
        assert_eq!(broken(false, 1, |_| ()), Some(2), "the store had the window");
        assert_eq!(broken(true, 2, |_| ()), Some(2), "it was started inside the lost window");
        let bound = |judged: &mut Facts| judged.bound.extend([PLACE]);
        assert_eq!(broken(true, 1, bound), Some(2), "its agent has acknowledged a window");
        let reconnected = |judged: &mut Facts| judged.reconnected(PLACE.1, 60_000 - SEEN);
        assert_eq!(broken(true, 1, reconnected), Some(2), "it has reached the store for long enough");
    }

    /// A release of version 2 that was started 10 s after the beginning.
    fn release() -> Slot {
        let is = Behaviour::good(2, 0);
        let running = Running { tag: "pantry-2".to_owned(), is, since: 10_000, pid: 1, put_back: false };
        Slot { running: Some(running), release_since: 10_000, ..Slot::default() }
    }

    /// A newcomer is started outside the window of a lost store, and the blank store is reconciled with the version that it says.
    #[test]
    fn newcomer_of_a_blank_store_comes_in_as_what_it_says() {
        let broken = |change: fn(&mut Facts), lies_until: u64| {
            let mut judged = facts(|service| service.windows = vec![(0, 3, 3)]);
            judged.services[0].loses_its_store(9_000);
            judged.started(PLACE, 2);
            judged.services[0].has_no_window = false;
            judged.services[0].windows.push((20_000, 3, 7));
            change(&mut judged);
            let slot = Slot { hiccups: [(Hiccup::Lies, lies_until)].into(), ..release() };
            let taken_for = judged.taken_for(PLACE, &slot, 60_000);
            judged.came_in(60_000, PLACE, (2, taken_for), "pantry/n0");
            judged.breaches.first().map(|breach| breach.rule)
        };
        assert_eq!(broken(|_| (), 60_001), None);
        assert_eq!(broken(|_| (), 60_000), Some(2), "it says what it is");
        let others: [(&str, fn(&mut Facts)); 4] = [
            ("no store was lost", |judged| judged.services[0].former = None),
            ("the store had the window", |judged| judged.unbound.clear()),
            ("an order says what it is to run", |judged| {
                judged.replaced_by.insert(PLACE, "pantry-2".to_owned());
            }),
            ("what it says is outside, too", |judged| judged.services[0].windows.push((30_000, 3, 6))),
        ];
        for (why, other) in others {
            assert_eq!(broken(other, 60_001), Some(2), "{why}");
        }
    }

    /// A store that was lost has admitted a newcomer whose agent is cut off. A roll admits its version, and a rollback undoes what
    /// that uses.
    #[test]
    fn untraced_newcomer_is_late_once_its_form_goes() {
        let is_late = |version: u32, change: fn(&mut Facts)| {
            let mut judged = facts(|service| {
                service.windows = vec![(0, 1, 1), (20_000, 1, 2), (50_000, 1, 1)];
                service.undoing = Some((2, false));
            });
            judged.silent.admitted(PLACE, 0);
            judged.silent.begin_again();
            judged.agents_cut.insert(PLACE.1, u64::MAX);
            change(&mut judged);
            judged.is_late(PLACE, version, 60_000)
        };
        assert!(is_late(2, |_| ()));
        assert!(!is_late(1, |_| ()), "it does not use the form");
        let others: [(&str, fn(&mut Facts)); 5] = [
            ("nothing is undone", |judged| judged.services[0].undoing = None),
            ("the copy has its admission", |judged| judged.silent.admitted(PLACE, 0)),
            ("the copy has its decommission", |judged| judged.silent.decommissioned(PLACE)),
            ("its agent has acknowledged a window", |judged| judged.bound.extend([PLACE])),
            ("it has reached the store for long enough", |judged| {
                judged.reconnected(PLACE.1, 60_000 - SEEN);
            }),
        ];
        for (why, other) in others {
            assert!(!is_late(2, other), "{why}");
        }
    }

    /// Its agent reaches the store once the rollback has ended, and puts a disable-file that the health check does not heed.
    #[test]
    fn heedless_newcomer_heard_after_a_rollback_is_late() {
        let is_late = |version: u32, before: fn(&mut Facts), after: fn(&mut Facts)| {
            let mut judged = facts(|service| service.undoing = Some((2, true)));
            judged.silent.admitted(PLACE, 0);
            judged.silent.begin_again();
            before(&mut judged);
            judged.services[0].undone = Some((2, judged.silent.counted()));
            judged.silent.reported(PLACE, 59_000);
            judged.bound.insert(PLACE);
            judged.unheeded.insert(PLACE);
            after(&mut judged);
            judged.is_late(PLACE, version, 60_000)
        };
        assert!(is_late(2, |_| (), |_| ()));
        assert!(!is_late(1, |_| (), |_| ()), "it does not use the form");
        assert!(!is_late(2, |judged| judged.silent.admitted(PLACE, 0), |_| ()), "the store had admitted it");
        assert!(!is_late(2, |judged| judged.silent.reported(PLACE, 0), |_| ()), "the store had its report");
        let others: [(&str, fn(&mut Facts)); 3] = [
            ("nothing hides it, or that is heeded", |judged| judged.unheeded.clear()),
            ("another rollback is under way", |judged| judged.services[0].undoing = Some((2, false))),
            ("an upgrade of the schema goes on", |judged| judged.services[0].undoing = None),
        ];
        for (why, other) in others {
            assert!(!is_late(2, |_| (), other), "{why}");
        }
    }

    #[test]
    fn only_what_starts_outside_a_lost_window_is_unbound() {
        let unbound = |has_no_window: bool, is_bound: bool| {
            let mut judged = facts(|service| {
                service.windows = vec![(0, 1, 1)];
                service.has_no_window = has_no_window;
            });
            judged.bound.extend(is_bound.then_some(PLACE));
            [1, 2].map(|version| {
                judged.started(PLACE, version);
                judged.unbound.contains(&PLACE)
            })
        };
        assert_eq!(unbound(true, false), [false, true]);
        assert_eq!(unbound(false, false), [false; 2], "the store has the window");
        assert_eq!(unbound(true, true), [false; 2], "its agent has acknowledged the window");
    }

    /// Its agent acknowledges the first window before the release answers, and a second window follows.
    #[test]
    fn first_window_does_not_bind_at_once_what_started_before() {
        let broken = |has_no_window: bool, started: u32, at: u64| {
            let mut judged = facts(|service| {
                service.windows = vec![(0, 1, 1)];
                service.has_no_window = has_no_window;
            });
            judged.started(PLACE, started);
            let set_by = BY_RECONCILIATION.parse().unwrap();
            let first = ServiceVersion::new(1).unwrap();
            let window = Window { floor: first, ceiling: first, set_by, contracted: None };
            judged.services[0].goes_by(&window, 60_000);
            judged.services[0].goes_by(&window, 70_000);
            judged.bound.insert(PLACE);
            judged.came_in(at, PLACE, (2, None), "pantry/n0");
            judged.breaches.first().map(|breach| breach.rule)
        };
        assert_eq!(broken(true, 2, 60_000 + OLD - 1), None);
        assert_eq!(broken(true, 2, 60_000 + OLD), Some(2), "its agent has had time to see the first one");
        assert_eq!(broken(false, 2, 60_000 + OLD - 1), Some(2), "the store had the window");
        assert_eq!(broken(true, 1, 60_000 + OLD - 1), Some(2), "it was started inside the lost window");
    }
}
