//! The judge: what a client, a database administrator and an auditor see, and whether it may be so. Nothing of the planner
//! is asked.

use super::document::Fall;
use super::scenario::UpgradePlan;
use super::silence::SilentInstances;
use super::slot::{At, Cause, Slot};
use super::stream_facts::StreamFacts;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::record::upgrade::PhaseName;
use tidegate_proto::record::window::Window;

/// How old what the coordinator sees of an instance may be, in milliseconds: the longest lease, the time until its end is
/// noticed, and a change of leaders.
pub(super) const OLD: u64 = 15_000;

/// The longest delay until a coordinator sees a change, in milliseconds.
const LAG: u64 = 2_000;

/// No stop lasts longer, in milliseconds.
const STOP_LASTS: u64 = 5_000;

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Breach {
    /// When, in milliseconds from the beginning.
    pub at: u64,
    /// Which, by its number in `docs/rules.md`; 0 = none of them: a dead end, a wait without a reason, a process that broke.
    pub rule: u8,
    /// What was seen.
    pub what: String,
}

/// One service, as the judge knows it.
#[derive(Debug, Clone, Default)]
pub(super) struct ServiceFacts {
    /// How many instances it has.
    pub instances: u64,
    /// How many health URLs must answer 200, by the last upgrade that began and that the store knows.
    pub min_in_service: u64,
    /// How long a drain may last.
    pub drain_deadline: u64,
    /// Whether an upgrade of it is under way.
    pub upgrading: bool,
    /// Floors and ceilings that were committed, each with its time.
    pub windows: Vec<(u64, u32, u32)>,
    /// Whether the store took the place of another and has no window.
    pub has_no_window: bool,
    /// The lowest version that can serve with what was contracted, by the windows.
    pub contracted: u32,
    /// Since when its database lacks the form of the upgrade under way, as far as the judge has looked.
    pub lacks_since: Option<u64>,
    /// Drains that break rule 1 if the database still lacked the form, each with its time and what to say of it.
    pub drained_on_lack: Vec<(u64, String)>,
}

/// What is not verified after so many milliseconds has failed, as every spec says.
const HEALTHY_DEADLINE: u64 = 30_000;

impl ServiceFacts {
    /// An upgrade begins.
    pub(super) fn begins(&mut self, plan: &UpgradePlan) {
        self.is_bound_by(plan);
        self.upgrading = true;
    }

    /// A window is committed.
    pub(super) fn goes_by(&mut self, window: &Window, now: u64) {
        self.windows.push((now, window.floor.get(), window.ceiling.get()));
        self.has_no_window = false;
        self.contracted = window.contracted.map_or(window.floor.get(), |version| version.get());
    }

    /// Of the upgrades that the store knows, this one began last.
    pub(super) fn is_bound_by(&mut self, plan: &UpgradePlan) {
        self.min_in_service = plan.min_in_service;
        self.drain_deadline = if plan.fails_on_deadline { u64::MAX } else { plan.drain_deadline };
    }
}

/// What is known.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Nodes that showed an earlier document of the metadata group than before.
    pub falls: Vec<Fall>,
    /// Services.
    pub services: Vec<ServiceFacts>,
    /// When the last directive of an instance was committed.
    pub directed: BTreeMap<At, u64>,
    /// The phase of each upgrade, and since when.
    pub phases: BTreeMap<String, (PhaseName, u64)>,
    /// Every phase that any upgrade reached.
    pub reached: BTreeSet<PhaseName>,
    /// Whether an upgrade is paused.
    pub paused: BTreeMap<String, bool>,
    /// The wave of each roll, and since when.
    pub waves: BTreeMap<String, (u32, u64)>,
    /// What the store says of each instance.
    pub silent: SilentInstances,
    /// Nodes whose agents lied: what runs there is unknown, and they are not judged.
    pub byzantine: BTreeSet<usize>,
    /// Nodes whose agents have lost their journals.
    pub journals_lost: BTreeSet<usize>,
    /// Release streams.
    pub streams: StreamFacts,
    /// Instances whose agents have acknowledged a window.
    pub bound: BTreeSet<At>,
    /// Instances outside a window that was lost with its store, whose agents knew of none: until an upgrade of the service
    /// rolls, what they do with the rows is not judged.
    pub unbound: BTreeSet<At>,
    /// When an operator enabled an instance again that they had disabled.
    pub shown: BTreeMap<At, u64>,
    /// Until when the leader may read the store late, in milliseconds.
    pub disturbed_until: u64,
    /// What was broken.
    pub breaches: Vec<Breach>,
}

/// An undisturbed coordinator has read the store after so many milliseconds.
const KNOWN: u64 = 1_000;

impl Facts {
    /// After how long the leader has read the store, in milliseconds.
    pub(super) fn known_after(&self, now: u64) -> u64 {
        if now < self.disturbed_until { OLD } else { KNOWN }
    }

    /// Notes what was broken.
    pub(super) fn breach(&mut self, at: u64, rule: u8, what: String) {
        // Once is enough.
        if self.breaches.len() < 100 {
            self.breaches.push(Breach { at, rule, what });
        }
    }

    /// The judge looked whether the database of a service has the form of the upgrade under way. Drains since the look
    /// before are judged by what is found now, or, where another database took its place since they were ordered, by what
    /// was found before.
    pub(super) fn looked_at_form(
        &mut self,
        service: usize,
        (has, now): (bool, u64),
        replaced_at: Option<u64>,
    ) {
        let facts = &mut self.services[service];
        facts.lacks_since = if has { None } else { facts.lacks_since.or(Some(now)) };
        for (at, what) in std::mem::take(&mut facts.drained_on_lack) {
            if !has || replaced_at.is_some_and(|replaced| at <= replaced) {
                self.breach(at, 1, what);
            }
        }
    }

    /// An agent took an instance out of rotation, or stopped it. As many as must stay, stay: all that orders took out, and
    /// all that were out by themselves when this was ordered, for long enough to be known, are counted.
    pub(super) fn taken_out(&mut self, now: u64, at: At, slots: &BTreeMap<At, Slot>, name: &str) {
        let Some(service) = self.services.get(at.0) else { return };
        let version = slots.get(&at).and_then(|slot| slot.alive(now)).map(|run| run.is.version);
        if version.is_some_and(|version| version < service.contracted) {
            // It cannot serve any more with what is left of the schema: it is disabled at once.
            return;
        }
        let ordered_at = self.directed.get(&at).copied().unwrap_or(now);
        if self.shown.get(&at).is_some_and(|shown| ordered_at < shown + LAG && now < shown + OLD) {
            // It was ordered while a person kept it out, or before a coordinator could know that they no longer do.
            return;
        }
        let admits =
            |version| service.windows.last().is_none_or(|(_, low, top)| (*low..=*top).contains(&version));
        let is_new = |slot: &Slot| slot.came_at > ordered_at && now < slot.came_at + HEALTHY_DEADLINE + OLD;
        if version.is_some_and(admits) && slots.get(&at).is_some_and(is_new) {
            // Its agent takes back by itself what it showed, and what was not verified in its time.
            return;
        }
        if slots.get(&at).is_some_and(|slot| slot.lied_since(ordered_at.saturating_sub(OLD), now)) {
            // No component could know that what reported another version served requests.
            return;
        }
        let of_it =
            || slots.iter().filter(|((service, node), _)| *service == at.0 && !self.byzantine.contains(node));
        // One that says another version than it is, is refused by that.
        let lied = |s: &Slot| s.lied_since(ordered_at.saturating_sub(OLD), now);
        let by_order = of_it().filter(|(_, s)| matches!(&s.out, Some((_, Cause::Order))) && !lied(s));
        let by_order = by_order.count() as u64;
        let known = |since: u64| since + OLD < ordered_at;
        let by_itself = of_it()
            .filter(|(_, s)| matches!(&s.out, Some((since, Cause::Misfortune(_))) if known(*since)))
            .count() as u64;
        let left = service.instances.saturating_sub(by_order + by_itself);
        if left < service.min_in_service {
            let least = service.min_in_service;
            self.breach(
                now,
                4,
                format!(
                    "{name} was taken out of rotation: {by_order} are out by order and {by_itself} by themselves, {left} are left of {least} that must stay"
                ),
            );
        }
    }

    /// An instance answers 200 again: its version is one that was admitted lately.
    pub(super) fn came_in(&mut self, now: u64, at: At, version: u32, name: &str) {
        let Some(service) = self.services.get(at.0) else { return };
        let mut allowed = service.windows.iter().rev();
        let mut outside = None;
        for (since, floor, ceiling) in allowed.by_ref() {
            if (*floor..=*ceiling).contains(&version) {
                return;
            }
            outside.get_or_insert((*floor, *ceiling));
            if since + OLD < now {
                break;
            }
        }
        if let Some((floor, ceiling)) = outside {
            if service.has_no_window && !self.bound.contains(&at) {
                // No component could know that the store which was lost had a window.
                self.unbound.insert(at);
                return;
            }
            self.breach(
                now,
                2,
                format!(
                    "{name} came into rotation at version {version}, outside the window {floor} to {ceiling}"
                ),
            );
        }
    }

    /// An instance is in again, or may be, without its agent: a person removed the disable-file, or nothing heeds it.
    pub(super) fn shown_again(&mut self, now: u64, at: At) {
        self.shown.insert(at, now);
    }

    /// An agent stopped a service that still worked on something, or that the balancer still sent requests to.
    pub(super) fn stopped_at_work(
        &mut self,
        now: u64,
        at: At,
        hidden_at: Option<u64>,
        exposed: bool,
        name: &str,
    ) {
        let deadline = self.services.get(at.0).map_or(0, |service| service.drain_deadline);
        let late = hidden_at.is_some_and(|since| now >= since + deadline);
        // A stop that had begun is not taken back where the instance is enabled again without its agent.
        let shown = self.shown.get(&at).is_some_and(|since| now < since + STOP_LASTS);
        if (exposed || !late) && !shown {
            let how = if exposed { "it was in rotation" } else { "requests were in flight" };
            self.breach(now, 6, format!("{name} was stopped while {how}, {hidden_at:?} hidden"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::slot::{Behaviour, Running};

    const PLACE: At = (0, 0);
    const NONE: [u8; 0] = [];

    fn facts(instances: u64, min_in_service: u64) -> Facts {
        let service = ServiceFacts { instances, min_in_service, drain_deadline: 5_000, ..Default::default() };
        Facts { services: vec![service], ..Facts::default() }
    }

    fn rules(facts: &Facts) -> Vec<u8> {
        facts.breaches.iter().map(|breach| breach.rule).collect()
    }

    fn runs(version: u32) -> Slot {
        let is =
            Behaviour { version, says: None, ready_after: 0, starts: true, crashes_after: None, flaps: None };
        let running = Running { tag: format!("pantry-{version}"), is, since: 0, pid: 1 };
        Slot { running: Some(running), ..Slot::default() }
    }

    fn out(since: u64, cause: Cause) -> Slot {
        Slot { out: Some((since, cause)), ..runs(1) }
    }

    #[test]
    fn instance_taken_out_beyond_the_budget_breaks_rule_4() {
        let slots: BTreeMap<At, Slot> =
            [(PLACE, out(100, Cause::Order)), ((0, 1), out(90, Cause::Order)), ((0, 2), runs(1))].into();
        let mut allowed = facts(3, 1);
        allowed.taken_out(100, PLACE, &slots, "pantry/n0");
        assert_eq!(rules(&allowed), NONE);
        let mut judged = facts(3, 2);
        judged.taken_out(100, PLACE, &slots, "pantry/n0");
        assert_eq!(rules(&judged), [4]);
    }

    #[test]
    fn outage_counts_once_it_must_be_known() {
        for (since, broken) in [(59_000, vec![]), (10_000, vec![4])] {
            let other = out(since, Cause::Misfortune("nothing runs"));
            let slots: BTreeMap<At, Slot> =
                [(PLACE, out(60_000, Cause::Order)), ((0, 1), other), ((0, 2), runs(1))].into();
            let mut judged = facts(3, 2);
            judged.directed.insert(PLACE, 59_990);
            judged.taken_out(60_000, PLACE, &slots, "pantry/n0");
            assert_eq!(rules(&judged), broken, "out since {since}");
        }
    }

    #[test]
    fn version_below_what_is_contracted_may_be_disabled_at_once() {
        let slots: BTreeMap<At, Slot> = [(PLACE, out(100, Cause::Order))].into();
        let mut judged = facts(1, 1);
        judged.services[0].contracted = 2;
        judged.taken_out(100, PLACE, &slots, "pantry/n0");
        assert_eq!(rules(&judged), NONE);
    }

    #[test]
    fn version_outside_the_window_that_comes_in_breaks_rule_2() {
        let mut judged = facts(1, 0);
        judged.services[0].windows = vec![(0, 1, 2), (10_000, 2, 2)];
        judged.came_in(12_000, PLACE, 1, "pantry/n0");
        assert_eq!(rules(&judged), NONE, "it was admitted a moment ago");
        judged.services[0].windows.push((30_000, 2, 2));
        judged.came_in(60_000, PLACE, 2, "pantry/n0");
        assert_eq!(rules(&judged), NONE);
        judged.came_in(60_000, PLACE, 1, "pantry/n0");
        assert_eq!(rules(&judged), [2]);
    }

    #[test]
    fn blank_store_binds_only_who_has_acknowledged_a_window() {
        let mut judged = facts(1, 0);
        judged.services[0].windows = vec![(0, 2, 2)];
        judged.services[0].has_no_window = true;
        judged.came_in(60_000, PLACE, 3, "pantry/n0");
        assert_eq!((rules(&judged), judged.unbound.contains(&PLACE)), (vec![], true));
        judged.bound.insert(PLACE);
        judged.came_in(61_000, PLACE, 3, "pantry/n0");
        assert_eq!(rules(&judged), [2]);
    }

    #[test]
    fn drain_is_judged_by_the_next_look_at_the_form() {
        let found = |has, replaced_at| {
            let mut judged = facts(1, 0);
            judged.services[0].lacks_since = Some(5_000);
            judged.services[0].drained_on_lack = vec![(40_000, "pantry/n0 was drained".to_owned())];
            judged.looked_at_form(0, (has, 41_000), replaced_at);
            judged.looked_at_form(0, (false, 46_000), None);
            (rules(&judged), judged.services[0].lacks_since)
        };
        assert_eq!(found(true, None), (vec![], Some(46_000)), "the form came between two looks");
        assert_eq!(found(true, Some(30_000)), (vec![], Some(46_000)), "with another database");
        assert_eq!(found(true, Some(40_500)), (vec![1], Some(46_000)), "it came after the drain");
        assert_eq!(found(false, None), (vec![1], Some(5_000)));
    }

    #[test]
    fn stop_at_work_breaks_rule_6() {
        let mut judged = facts(1, 0);
        judged.stopped_at_work(6_000, PLACE, Some(1_000), false, "pantry/n0");
        assert_eq!(rules(&judged), NONE, "the deadline has passed");
        judged.stopped_at_work(3_000, PLACE, Some(1_000), false, "pantry/n0");
        judged.stopped_at_work(6_000, PLACE, Some(1_000), true, "pantry/n0");
        assert_eq!(rules(&judged), [6, 6]);
    }
}
