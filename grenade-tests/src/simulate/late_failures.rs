//! What failed for good after it was verified, as its agent reports it: it is written down as a failure of the upgrade before
//! that goes on.

use super::judge::Facts;
use super::misled::lasted_until;
use super::names::Names;
use super::slot::At;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::record::exception::Exception;
use tidegate_proto::record::report::{Report, Rotation};
use tidegate_proto::record::upgrade::PhaseName;

/// What failed after it was verified, and what upgrades have written down of it.
#[derive(Debug, Default)]
pub(super) struct LateFailures {
    /// Instances that report a lasting fault, each with the version that failed and since when.
    lasting: BTreeMap<At, (u32, u64)>,
    /// Nodes that each upgrade does without: a failure is written down, or a person has skipped it.
    exempt: BTreeSet<(String, usize)>,
    /// Nodes that a person keeps out.
    cordoned: BTreeSet<usize>,
    /// The service of each upgrade, and the version that it goes to.
    targets: BTreeMap<String, (usize, u32)>,
    /// Another store took the place of the first: whose reports count in it is not known here.
    is_replaced: bool,
}

/// The version that failed for good after it was verified, by a report of its agent, where no person keeps it out.
pub(super) fn failed_at(report: &Report) -> Option<u32> {
    let lasts = report.fault.as_ref().is_some_and(|fault| fault.lasting);
    let counts = lasts && report.rotation != Rotation::Maintenance;
    report.version.filter(|_| counts).map(|version| version.get())
}

/// Whether an upgrade does without an instance.
pub(super) fn is_exempt(exception: &Exception) -> bool {
    exception.failure.is_some() || exception.skipped.is_some()
}

impl LateFailures {
    /// Another store takes the place of the one in which all this was.
    pub(super) fn begin_again(&mut self) {
        *self = Self { is_replaced: true, ..Self::default() };
    }

    /// The record of an upgrade is written.
    pub(super) fn goes_to(&mut self, id: &str, service: usize, version: u32) {
        self.targets.insert(id.to_owned(), (service, version));
    }

    /// An instance reports, at the version that failed for good if it did.
    pub(super) fn reported(&mut self, at: At, failed: Option<u32>, now: u64) {
        match failed {
            None => {
                self.lasting.remove(&at);
            }
            Some(version) => {
                let (was, since) = self.lasting.get(&at).copied().unwrap_or((version, now));
                self.lasting.insert(at, (version, if was == version { since } else { now }));
            }
        }
    }

    /// The record of what an upgrade does without is written, or is gone.
    pub(super) fn excepts(&mut self, id: &str, node: usize, is_exempt: bool, now: u64) {
        let key = (id.to_owned(), node);
        if is_exempt {
            self.exempt.insert(key);
        } else {
            self.exempt.remove(&key);
        }
        self.counts_from(node, now);
    }

    /// A person takes a node out, or lets it back.
    pub(super) fn cordons(&mut self, node: usize, is_out: bool, now: u64) {
        if is_out {
            self.cordoned.insert(node);
        } else {
            self.cordoned.remove(&node);
        }
        self.counts_from(node, now);
    }

    /// An upgrade goes on after a pause, in which it wrote nothing down: what was reported until then counts from now on.
    pub(super) fn goes_on(&mut self, id: &str, now: u64) {
        let Some(target) = self.targets.get(id) else { return };
        let of_it = self.lasting.iter_mut().filter(|(at, (version, _))| (at.0, *version) == *target);
        of_it.for_each(|(_, (_, since))| *since = now);
    }

    /// What a node reports counts from now on, or again.
    fn counts_from(&mut self, node: usize, now: u64) {
        let of_it = self.lasting.iter_mut().filter(|(at, _)| at.1 == node);
        of_it.for_each(|(_, (_, since))| *since = now);
    }

    /// Instances that failed at the version of an upgrade, and that it does not know as failed; each with since when.
    fn unwritten(&self, id: &str) -> Vec<(At, u64)> {
        let Some(target) = self.targets.get(id).filter(|_| !self.is_replaced) else { return Vec::new() };
        let of = self.lasting.iter().filter(|(at, (version, _))| (at.0, *version) == *target);
        let counted = of.filter(|(at, _)| {
            !self.cordoned.contains(&at.1) && !self.exempt.contains(&(id.to_owned(), at.1))
        });
        counted.map(|(at, (_, since))| (*at, *since)).collect()
    }
}

/// An instance is ordered to drain on behalf of an upgrade. A paused one orders none by itself: a person retries that instance.
pub(super) fn judge_drain(facts: &mut Facts, names: &Names, id: &str, now: u64) {
    let rolls = facts.phases.get(id).is_some_and(|(phase, _)| *phase == PhaseName::Roll);
    if rolls && !facts.paused.contains_key(id) {
        judge(facts, names, id, now);
    }
}

/// An upgrade goes on. What was reported while coordinators were disturbed, or a moment ago, may not be known to them.
pub(super) fn judge(facts: &mut Facts, names: &Names, id: &str, now: u64) {
    for (at, since) in facts.late_failures.unwritten(id) {
        let is_known = !facts.is_disturbed_since(since) && since + facts.known_after(now) < now;
        if is_known && !lasted_until(&facts.byzantine, at.1, since) {
            let name = names.instance(at);
            let text = format!("{id} went on, and does not count {name}, which failed after it was verified");
            facts.breach(now, 12, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const FAILED: At = (0, 1);

    fn names() -> Names {
        Names { services: vec!["pantry".to_owned()], nodes: vec!["n00".to_owned(), "n01".to_owned()] }
    }

    /// In an upgrade to version 2, an instance of that version reports a lasting fault from 10 s on.
    fn facts() -> Facts {
        let mut facts = Facts::default();
        facts.late_failures.goes_to("u0", 0, 2);
        facts.late_failures.reported(FAILED, Some(2), 10_000);
        facts
    }

    /// The rules that are broken where the upgrade goes on at this time.
    fn broken(happens: impl FnOnce(&mut Facts), now: u64) -> Vec<u8> {
        let mut facts = facts();
        happens(&mut facts);
        judge(&mut facts, &names(), "u0", now);
        facts.breaches.iter().map(|breach| breach.rule).collect()
    }

    #[test]
    fn upgrade_that_goes_on_over_a_late_failure_is_found() {
        let none = Vec::<u8>::new();
        assert_eq!(broken(|_| (), 11_001), [12]);
        assert_eq!(broken(|_| (), 11_000), none, "no coordinator may have known it");
        assert_eq!(broken(|facts| facts.late_failures.reported(FAILED, Some(2), 12_000), 12_500), [12]);
        assert_eq!(broken(|facts| facts.late_failures.reported(FAILED, None, 12_000), 20_000), none);
        let disturbed = |facts: &mut Facts| facts.disturbed_until = 12_000;
        assert_eq!(broken(disturbed, 20_000), none, "no coordinator may have seen it");
        let lies = |facts: &mut Facts| facts.byzantine.extend([(FAILED.1, u64::MAX)]);
        assert_eq!(broken(lies, 20_000), none);
    }

    #[test]
    fn late_failure_long_after_the_lies_of_its_agent_is_found() {
        let fails_late = |lied_until: u64| {
            broken(
                |facts| {
                    facts.byzantine.insert(FAILED.1, lied_until);
                    facts.late_failures.reported(FAILED, None, 70_000);
                    facts.late_failures.reported(FAILED, Some(2), 80_000);
                },
                90_000,
            )
        };
        assert_eq!(fails_late(20_000), Vec::<u8>::new());
        assert_eq!(fails_late(19_999), [12]);
    }

    #[test]
    fn failure_that_is_written_down_is_counted() {
        let none = Vec::<u8>::new();
        let written = |facts: &mut Facts| facts.late_failures.excepts("u0", 1, true, 10_500);
        assert_eq!(broken(written, 20_000), none);
        let retried = |facts: &mut Facts| {
            written(facts);
            facts.late_failures.excepts("u0", 1, false, 19_500);
        };
        assert_eq!(broken(retried, 20_000), none, "it counts again since a moment ago");
        assert_eq!(broken(retried, 21_000), [12]);
        let other = |facts: &mut Facts| facts.late_failures.excepts("u1", 1, true, 10_500);
        assert_eq!(broken(other, 20_000), [12], "it failed in another upgrade");
        assert_eq!(broken(|facts| facts.late_failures.cordons(1, true, 10_500), 20_000), none);
        assert_eq!(broken(|facts| facts.late_failures.reported(FAILED, Some(1), 10_500), 20_000), none);
    }

    #[test]
    fn drain_is_judged_in_the_roll_only() {
        let mut facts = facts();
        facts.enters("u0", PhaseName::RollingBack, 11_000);
        judge_drain(&mut facts, &names(), "u0", 20_000);
        assert_eq!(facts.breaches, []);
        facts.enters("u0", PhaseName::Roll, 20_000);
        judge_drain(&mut facts, &names(), "u0", 20_000);
        assert_eq!(facts.breaches.len(), 1);
    }

    /// A person retries another instance, whose drain has failed, while the upgrade is paused or as it goes on.
    #[test]
    fn drain_that_a_person_retries_in_a_pause_is_not_judged() {
        let broken = |resumed_at: Option<u64>| {
            let mut facts = facts();
            facts.enters("u0", PhaseName::Roll, 9_000);
            facts.paused.insert("u0".to_owned(), 9_500);
            if let Some(at) = resumed_at {
                facts.paused.clear();
                facts.late_failures.goes_on("u0", at);
            }
            judge_drain(&mut facts, &names(), "u0", 20_000);
            facts.breaches.len()
        };
        assert_eq!(broken(None), 0, "the upgrade orders none");
        assert_eq!(broken(Some(19_000)), 0, "it may not have written that down yet");
        assert_eq!(broken(Some(18_999)), 1);
    }

    #[test]
    fn hiccup_and_what_a_person_keeps_out_are_no_late_failures() {
        let report = |lasting: bool, rotation: &str| -> Report {
            let identity = json!({"nonce": "n", "boot": "b"});
            let fault = json!({"reason": "its process ended", "lasting": lasting});
            let report = json!({"version": 2, "rotation": rotation, "fault": fault, "identity": identity});
            serde_json::from_value(report).unwrap()
        };
        assert_eq!(failed_at(&report(true, "in")), Some(2));
        assert_eq!(failed_at(&report(false, "in")), None);
        assert_eq!(failed_at(&report(true, "maintenance")), None);
    }
}
