//! Agents that a reconciliation does not cover: they obey nothing of the store, and go on inside the window of the former one.

use super::{Facts, OLD};
use crate::simulate::slot::At;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_proto::record::reconciliation::{AcceptedState, Claim, Reconciliation};
use tidegate_proto::record::report::Report;
use tidegate_proto::{InstanceId, Revision};

/// What agents have obeyed, and which of them the last reconciliation does not cover.
#[derive(Debug, Default)]
pub(in crate::simulate) struct Obeyed {
    /// What each instance has obeyed, by its last report.
    claims: BTreeMap<At, (InstanceId, Claim)>,
    /// Instances that obeyed later revisions than the store had when it was reconciled without them, and until when they may not
    /// obey it, in milliseconds: `u64::MAX` until a reconciliation covers them, or a window is later than what they obeyed.
    uncovered: BTreeMap<At, u64>,
    /// Instances whose agents have reported that they obeyed a store which was lost, and have not lost their journal since.
    pub(super) former: BTreeSet<At>,
}

impl Obeyed {
    /// An instance reports what it has obeyed. Its last admission does not count: no agent compares that.
    pub(in crate::simulate) fn reported(&mut self, at: At, id: InstanceId, report: &Report) {
        let obeyed = AcceptedState { revision: report.generation.max(report.window), ..report.obeyed() };
        self.claims.insert(at, (id, Claim::from(obeyed)));
    }

    /// The store is reconciled at this revision.
    pub(in crate::simulate) fn reconciled(&mut self, word: &Reconciliation, revision: Revision, now: u64) {
        for (at, (id, claim)) in &self.claims {
            let obeyed =
                AcceptedState { term: claim.term.as_ref(), floor: claim.floor, revision: claim.revision };
            if claim.revision > revision && !word.covers(&id.service, &id.node, obeyed) {
                self.uncovered.insert(*at, u64::MAX);
            } else if let Some(until) = self.uncovered.get_mut(at) {
                *until = (*until).min(now + OLD);
            }
        }
    }

    /// A window of a service is committed at this revision.
    pub(in crate::simulate) fn window_set(&mut self, service: usize, revision: Revision, now: u64) {
        for (at, until) in &mut self.uncovered {
            let is_later = self.claims.get(at).is_none_or(|(_, claim)| claim.revision < revision);
            if at.0 == service && is_later {
                *until = (*until).min(now + OLD);
            }
        }
    }

    /// Another store takes the place of this one.
    pub(in crate::simulate) fn begin_again(&mut self) {
        self.uncovered.clear();
        let have_obeyed = self.claims.iter().filter(|(_, (_, claim))| claim.revision.exists());
        self.former = have_obeyed.map(|(at, _)| *at).collect();
    }

    /// Whether the agent of an instance may not obey the store, although that is reconciled.
    pub(in crate::simulate) fn is_uncovered(&self, at: At, now: u64) -> bool {
        self.uncovered.get(&at).is_some_and(|until| now < *until)
    }
}

impl Facts {
    /// Whether the agent of an instance may still obey the window of a former store, and that admits this version: it obeys
    /// the store only once a person has reconciled that with what the agent had obeyed. One that has acknowledged no window,
    /// or lost its journal, obeys the store at once, but hides nothing before it can read the window there. Nor does one
    /// that is kept from reporting to the store and that nothing there names, however long ago that was reconciled.
    pub(in crate::simulate) fn obeys_former(&self, at: At, version: u32, now: u64) -> bool {
        let former = self.services.get(at.0).and_then(|service| service.former.as_ref());
        let may_obey = former.is_some_and(|(until, admitted)| {
            let is_admitted = admitted.iter().any(|admitted| admitted.contains(&version));
            is_admitted
                && (now < *until || self.obeyed.is_uncovered(at, now) || self.is_lost_with_its_store(at, now))
        });
        may_obey && (self.bound.contains(&at) || self.is_kept_from_reporting(at, now))
    }

    /// The agent of an instance starts without its journal: it knows of no window that the one before it acknowledged.
    pub(in crate::simulate) fn starts_without_journal(&mut self, at: At) {
        self.bound.remove(&at);
        self.obeyed.claims.remove(&at);
        self.obeyed.uncovered.remove(&at);
        self.obeyed.former.remove(&at);
    }
}

#[cfg(test)]
mod tests {
    use super::super::ServiceFacts;
    use super::*;
    use serde_json::json;

    const PLACE: At = (0, 0);

    /// A reconciliation that covers what was obeyed up to this revision.
    fn word(revision: i64) -> Reconciliation {
        let word = json!({"who": "op", "why": "lost", "at": 1, "revision": revision});
        serde_json::from_value(word).unwrap()
    }

    /// The rules that are broken where version 2 comes in at 88 s. Its agent had obeyed revision 55, and the blank store was
    /// reconciled without it and has a later window, which does not admit version 2.
    fn broken(change: impl FnOnce(&mut Facts)) -> Vec<u8> {
        let service = ServiceFacts { windows: vec![(10_000, 2, 2)], ..ServiceFacts::default() };
        let mut judged = Facts { services: vec![service], bound: [PLACE].into(), ..Facts::default() };
        let id = InstanceId::new("pantry".parse().unwrap(), "n0".parse().unwrap());
        let claim = Claim { revision: Revision(55), ..Claim::default() };
        judged.obeyed.claims.insert(PLACE, (id, claim));
        judged.services[0].loses_its_store(20_000);
        judged.services[0].is_obeyed_again(30_000);
        judged.obeyed.reconciled(&word(0), Revision(11), 30_000);
        judged.services[0].windows.push((40_000, 3, 3));
        judged.services[0].has_no_window = false;
        change(&mut judged);
        judged.came_in(88_000, PLACE, (2, None), "pantry/n0");
        judged.breaches.iter().map(|breach| breach.rule).collect()
    }

    #[test]
    fn uncovered_agent_obeys_its_window_until_it_is_covered() {
        let none = Vec::<u8>::new();
        assert_eq!(broken(|_| ()), none, "its agent obeys the former window");
        let covered = |at: u64| broken(|judged| judged.obeyed.reconciled(&word(55), Revision(12), at));
        assert_eq!(covered(88_001 - OLD), none, "its agent may not have seen that");
        assert_eq!(covered(88_000 - OLD), [2], "its agent obeys the store");
        let window_set =
            |revision: i64| broken(|judged| judged.obeyed.window_set(0, Revision(revision), 88_000 - OLD));
        assert_eq!(window_set(55), none, "its agent takes in no such window");
        assert_eq!(window_set(56), [2], "the window is later than what its agent obeyed");
        let others: [(&str, fn(&mut Facts)); 3] = [
            ("the store was not behind it", |judged| {
                judged.obeyed.begin_again();
                judged.obeyed.reconciled(&word(0), Revision(55), 30_000);
            }),
            ("its agent has lost its journal", |judged| judged.starts_without_journal(PLACE)),
            ("the former window did not admit it", |judged| {
                judged.services[0].former = Some((45_000, vec![3..=3]));
            }),
        ];
        for (why, other) in others {
            assert_eq!(broken(other), [2], "{why}");
        }
    }

    #[test]
    fn agent_without_journal_has_obeyed_no_former_store() {
        let has_obeyed = |revision: i64, change: fn(&mut Facts)| {
            let mut judged = Facts::default();
            let id = InstanceId::new("pantry".parse().unwrap(), "n0".parse().unwrap());
            let claim = Claim { revision: Revision(revision), ..Claim::default() };
            judged.obeyed.claims.insert(PLACE, (id, claim));
            change(&mut judged);
            judged.obeyed.former.contains(&PLACE)
        };
        let is_lost = |judged: &mut Facts| judged.obeyed.begin_again();
        assert!(has_obeyed(55, is_lost));
        assert!(!has_obeyed(0, is_lost), "it had obeyed nothing");
        assert!(!has_obeyed(55, |_| ()), "the store is not lost");
        let without_journal = |judged: &mut Facts| {
            judged.obeyed.begin_again();
            judged.starts_without_journal(PLACE);
        };
        assert!(!has_obeyed(55, without_journal));
    }
}
