//! The judge: what a client, a database administrator and an auditor see, and whether it may be so. Nothing of the planner
//! is asked.

use super::slot::{At, Cause, Slot};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::record::upgrade::PhaseName;

/// How old what the coordinator sees of an instance may be, in milliseconds: the longest lease, the time until its end is
/// noticed, and a change of leaders.
const OLD: u64 = 15_000;

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
pub struct ServiceFacts {
    /// How many instances it has.
    pub instances: u64,
    /// How many health URLs must answer 200, by the last upgrade that began.
    pub min_in_service: u64,
    /// How long a drain may last.
    pub drain_deadline: u64,
    /// Floors and ceilings that were committed, each with its time.
    pub windows: Vec<(u64, u32, u32)>,
    /// The lowest version that can serve with what was contracted, by the windows.
    pub contracted: u32,
}

/// What is known.
#[derive(Debug, Default)]
pub struct Facts {
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
    /// What was broken.
    pub breaches: Vec<Breach>,
}

impl Facts {
    /// Notes what was broken.
    pub fn breach(&mut self, at: u64, rule: u8, what: String) {
        // Once is enough.
        if self.breaches.len() < 100 {
            self.breaches.push(Breach { at, rule, what });
        }
    }

    /// An agent took an instance out of rotation, or stopped it. As many as must stay, stay: all that orders took out, and
    /// all that were out by themselves when this was ordered, for long enough to be known, are counted.
    pub fn taken_out(&mut self, now: u64, at: At, slots: &BTreeMap<At, Slot>, name: &str) {
        let Some(service) = self.services.get(at.0) else { return };
        let version = slots.get(&at).and_then(|slot| slot.alive(now)).map(|run| run.is.version);
        if version.is_some_and(|version| version < service.contracted) {
            // It cannot serve any more with what is left of the schema: it is disabled at once.
            return;
        }
        let ordered_at = self.directed.get(&at).copied().unwrap_or(now);
        let of_it = || slots.iter().filter(|((service, _), _)| *service == at.0);
        let by_order = of_it().filter(|(_, s)| matches!(&s.out, Some((_, Cause::Order)))).count() as u64;
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
    pub fn came_in(&mut self, now: u64, at: At, version: u32, name: &str) {
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
            self.breach(
                now,
                2,
                format!(
                    "{name} came into rotation at version {version}, outside the window {floor} to {ceiling}"
                ),
            );
        }
    }

    /// An agent stopped a service that still worked on something, or that the balancer still sent requests to.
    pub fn stopped_at_work(&mut self, now: u64, at: At, hidden_at: Option<u64>, exposed: bool, name: &str) {
        let deadline = self.services.get(at.0).map_or(0, |service| service.drain_deadline);
        let late = hidden_at.is_some_and(|since| now >= since + deadline);
        if exposed || !late {
            let how = if exposed { "it was in rotation" } else { "requests were in flight" };
            self.breach(now, 6, format!("{name} was stopped while {how}, {hidden_at:?} hidden"));
        }
    }
}
