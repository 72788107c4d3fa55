//! When people accept, for contract, that a database lists no sessions. By that they state that no old program is connected
//! to it, so they look at what runs first: else the statement would be false.

use super::scenario::{Scenario, UpgradePlan};
use super::slot::{Running, Slot};
use super::testbed::Testbed;

/// Whether an approval says that no old program is connected.
pub(super) fn says_none_is_old(phase: &str, accepts: &[String]) -> bool {
    phase == "contract" && accepts.iter().any(|part| part == "sessions")
}

/// The programs that the contract of an upgrade does not bear.
#[derive(Debug, Clone, Default)]
pub(super) struct OldPrograms {
    /// The services that share the schema.
    services: Vec<usize>,
    /// The lowest version that it bears.
    needs: u32,
}

impl OldPrograms {
    /// Those of an upgrade.
    pub(super) fn of(scenario: &Scenario, plan: &UpgradePlan) -> Self {
        let services = [vec![plan.service], scenario.sharing(plan.service)].concat();
        Self { services, needs: plan.from + 1 }
    }

    /// Whether one runs, as a person sees who looks on each node.
    pub(super) fn run(&self, testbed: &Testbed) -> bool {
        let (now, state) = (testbed.now(), testbed.state());
        let is_judged = |service: usize, node: usize| {
            self.services.contains(&service) && !state.facts.byzantine.contains_key(&node)
        };
        state.slots.iter().any(|(at, slot)| is_judged(at.0, at.1) && self.is_in(slot, now))
    }

    /// Whether one runs in an instance. What a health check answers for a while deceives no person; a release that says another
    /// version than it is does.
    fn is_in(&self, slot: &Slot, now: u64) -> bool {
        let is_old = |run: &Running| run.is.says.unwrap_or(run.is.version) < self.needs;
        slot.alive(now).is_some_and(is_old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::slot::{Behaviour, Hiccup};

    #[test]
    fn person_sees_an_old_program_whose_probe_answers_another() {
        let old = OldPrograms { services: vec![0], needs: 5 };
        let runs = |is: Behaviour| {
            let running = Running { tag: "pantry-4".to_owned(), is, since: 0, pid: 1, put_back: false };
            let mut slot = Slot { running: Some(running), ..Slot::default() };
            slot.hiccups.insert(Hiccup::Lies, 9_000);
            slot
        };
        let slot = runs(Behaviour::good(4, 10));
        assert_eq!(slot.said_version(5_000), Some(9));
        assert!(old.is_in(&slot, 5_000), "the probe lies");
        assert!(!old.is_in(&runs(Behaviour::good(5, 10)), 5_000));
        let deceives = Behaviour { says: Some(5), ..Behaviour::good(4, 10) };
        assert!(!old.is_in(&runs(deceives), 5_000), "it says so everywhere");
        assert!(!old.is_in(&Slot::default(), 5_000), "nothing runs");
    }

    #[test]
    fn only_contract_with_sessions_says_that_none_is_old() {
        let accepts = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        assert!(says_none_is_old("contract", &accepts(&["sessions"])));
        assert!(!says_none_is_old("contract", &accepts(&["everything"])));
        assert!(!says_none_is_old("roll", &accepts(&["sessions"])));
    }
}
