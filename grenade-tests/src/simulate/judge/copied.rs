//! Orders that only a copy of the store has, which took the place of the store. An agent that has obeyed a later order does not
//! obey them before a person has reconciled the copy, and another store may take its place before that.

use super::Facts;
use crate::simulate::slot::At;
use std::collections::BTreeMap;
use tidegate_proto::record::report::Step;

impl Facts {
    /// A copy took the place of the store, and what it orders was taken in. `before`: what was ordered out before.
    pub(in crate::simulate) fn note_copied(&mut self, before: &BTreeMap<At, u64>) {
        let ordered = self.ordered_out.keys().copied();
        self.copied = ordered.filter(|at| !before.contains_key(at)).collect();
    }

    /// Another store takes the place of the copy: orders that only the copy had, and that no agent obeyed, are lost with it.
    pub(in crate::simulate) fn forget_copied(&mut self) {
        for at in std::mem::take(&mut self.copied) {
            self.ordered_out.remove(&at);
        }
    }

    /// An instance has reported this step to the copy. What leaves rotation may obey the copy's order.
    pub(super) fn obeys_copied(&mut self, at: At, step: Option<&Step>) {
        if matches!(step, Some(Step::Draining | Step::Drained { .. } | Step::Replacing)) {
            self.copied.remove(&at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ServiceFacts;
    use super::*;
    use crate::simulate::slot::{Behaviour, Cause, Running, Slot};
    use tidegate_proto::record::directive::Disposition;

    const PLACE: At = (0, 0);

    fn runs(version: u32, out_at: u64) -> Slot {
        let is = Behaviour::good(version, 0);
        let running = Running { tag: format!("pantry-{version}"), is, since: 0, pid: 1, put_back: false };
        Slot { running: Some(running), out: Some((out_at, Cause::Order)), ..Slot::default() }
    }

    /// The rules that are broken where a copy orders an instance out, and another store that takes its place is reconciled to a
    /// window without what runs there: its agent refuses that as it comes back, while the only other instance is drained.
    fn broken(before: impl FnOnce(&mut Facts), under_the_copy: impl FnOnce(&mut Facts)) -> Vec<u8> {
        let windows = vec![(0, 1, 2)];
        let service = ServiceFacts { instances: 2, min_in_service: 1, windows, ..ServiceFacts::default() };
        let mut facts = Facts { services: vec![service], ..Facts::default() };
        before(&mut facts);
        let ordered_before = facts.ordered_out.clone();
        facts.directs(PLACE, &Disposition::Drain, 20_000);
        facts.note_copied(&ordered_before);
        under_the_copy(&mut facts);
        facts.forget_copied();
        facts.services[0].windows.push((40_000, 1, 1));
        let refused = Slot { came_at: 42_000, ..runs(2, 42_004) };
        facts.taken_out(42_004, PLACE, &[(PLACE, refused), ((0, 1), runs(1, 19_000))].into(), "pantry/n00");
        facts.breaches.iter().map(|breach| breach.rule).collect()
    }

    #[test]
    fn order_of_a_lost_copy_takes_nothing_out() {
        assert_eq!(broken(|_| (), |_| ()), Vec::<u8>::new());
        let drained = |facts: &mut Facts| facts.directs(PLACE, &Disposition::Drain, 10_000);
        assert_eq!(broken(drained, |_| ()), [4], "its agent may have obeyed the store before the copy");
        let obeys = |facts: &mut Facts| facts.reports(25_000, PLACE, Some(&Step::Draining), None, "n00");
        assert_eq!(broken(|_| (), obeys), [4], "its agent obeys the copy");
        let ordered = |facts: &mut Facts| {
            facts.directs(PLACE, &Disposition::Drain, 25_000);
            facts.orders(PLACE, &Disposition::Drain, None);
        };
        assert_eq!(broken(|_| (), ordered), [4], "a coordinator has ordered it again");
    }
}
