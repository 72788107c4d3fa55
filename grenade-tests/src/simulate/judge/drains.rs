//! Drains, as agents report them: none lasts until its deadline although nothing of its instance has run for a while.

use super::Facts;
use crate::simulate::misled::lasted_until;
use crate::simulate::slot::At;
use std::collections::BTreeSet;
use tidegate_proto::record::report::Step;

/// After so many milliseconds an agent has seen that nothing is in flight where a process ended, and has reported that: two
/// checks of the balancer, a look, and the longest lease, for which a report may be late.
pub(in crate::simulate) const COUNTED: u64 = 10_000;

/// Instances whose last report says that they are being drained.
#[derive(Debug, Default)]
pub(in crate::simulate) struct Drains(BTreeSet<At>);

impl Drains {
    /// Another store took the place of the one with these reports.
    pub(in crate::simulate) fn begin_again(&mut self) {
        self.0.clear();
    }

    /// The step of an instance is another one, or unknown. Whether that ends a drain by its deadline.
    fn end_by_deadline(&mut self, at: At, step: Option<&Step>) -> bool {
        let was_drained = self.0.remove(&at);
        match step {
            Some(Step::Draining) => {
                self.0.insert(at);
                false
            }
            Some(Step::Drained { forced }) => was_drained && *forced,
            Some(Step::Failed { at: failed, .. }) => was_drained && failed == "draining",
            _ => false,
        }
    }
}

impl Facts {
    /// The report of an instance was written with this step, or is gone; what was started there ended at `ended`. Where its
    /// agent asks the balancer, that nothing listens and the balancer has no session shows that nothing is in flight.
    pub(in crate::simulate) fn reports(
        &mut self,
        now: u64,
        at: At,
        step: Option<&Step>,
        ended: Option<u64>,
        name: &str,
    ) {
        self.obeys_copied(at, step);
        let is_late = self.drains.end_by_deadline(at, step);
        let asks = self.services.get(at.0).is_some_and(|service| service.asks_balancer);
        if let Some(ended) = ended.filter(|ended| ended + COUNTED <= now)
            && is_late
            && asks
            && !lasted_until(&self.byzantine, at.1, ended)
        {
            let text = format!("{name} was drained until the deadline, but its process ended at {ended}");
            self.breach(now, 6, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ServiceFacts;
    use super::*;

    const PLACE: At = (0, 0);
    const NOW: u64 = 50_000;
    const LONG_AGO: Option<u64> = Some(NOW - COUNTED);

    fn failed(at: &str) -> Option<Step> {
        Some(Step::Failed { at: at.to_owned(), reason: "it took too long".to_owned() })
    }

    /// The rules that these reports break, one after the other, where what was started ended then.
    fn broken(asks_balancer: bool, ended: Option<u64>, steps: [Option<Step>; 2]) -> Vec<u8> {
        let service = ServiceFacts { asks_balancer, ..ServiceFacts::default() };
        let mut facts = Facts { services: vec![service], ..Facts::default() };
        for step in &steps {
            facts.reports(NOW, PLACE, step.as_ref(), ended, "pantry/n00");
        }
        facts.breaches.iter().map(|breach| breach.rule).collect()
    }

    #[test]
    fn deadline_ends_no_drain_of_what_ended_long_before() {
        let none = Vec::<u8>::new();
        let draining = || Some(Step::Draining);
        let forced = || Some(Step::Drained { forced: true });
        assert_eq!(broken(true, LONG_AGO, [draining(), forced()]), [6]);
        assert_eq!(broken(true, LONG_AGO, [draining(), failed("draining")]), [6]);
        assert_eq!(broken(true, LONG_AGO, [draining(), failed("staging")]), none);
        assert_eq!(broken(true, LONG_AGO, [draining(), Some(Step::Drained { forced: false })]), none);
        assert_eq!(broken(false, LONG_AGO, [draining(), forced()]), none, "no balancer shows it");
        assert_eq!(broken(true, None, [draining(), forced()]), none, "it runs, or its agent stopped it");
        assert_eq!(broken(true, Some(NOW - COUNTED + 1), [draining(), forced()]), none, "not long before");
        assert_eq!(broken(true, LONG_AGO, [None, forced()]), none, "its report was gone meanwhile");
        assert_eq!(broken(true, LONG_AGO, [forced(), forced()]), none, "it is said once more");
    }

    #[test]
    fn process_that_ended_after_the_lies_of_its_agent_is_judged() {
        let broken = |lied_until: u64| {
            let service = ServiceFacts { asks_balancer: true, ..ServiceFacts::default() };
            let byzantine = [(PLACE.1, lied_until)].into();
            let mut facts = Facts { services: vec![service], byzantine, ..Facts::default() };
            for step in [Step::Draining, Step::Drained { forced: true }] {
                facts.reports(200_000, PLACE, Some(&step), Some(100_000), "pantry/n00");
            }
            facts.breaches.len()
        };
        assert_eq!(broken(40_000), 0, "the next agent may not have seen it run");
        assert_eq!(broken(39_999), 1);
    }
}
