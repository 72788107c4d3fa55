//! When people accept, for contract, that a database lists no sessions. By that they state that no old program is connected
//! to it, so they look at what runs first: else the statement would be false.

use super::scenario::{Scenario, UpgradePlan};
use super::slot::{At, Running, Slot};
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
        let is_judged =
            |at: &At, slot: &Slot| self.services.contains(&at.0) && !state.facts.is_unknown(*at, slot);
        state.slots.iter().any(|(at, slot)| is_judged(at, slot) && self.is_in(slot, now))
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
    use crate::simulate::event_log::EventLog;
    use crate::simulate::judge::{Facts, ServiceFacts};
    use crate::simulate::names::Names;
    use crate::simulate::slot::{Behaviour, Hiccup};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn person_sees_an_old_program_that_began_after_the_lies() {
        let old = OldPrograms { services: vec![0], needs: 2 };
        for (lied_until, sees) in [(u64::MAX, false), (0, true)] {
            let names = Names { services: vec!["pantry".to_owned()], nodes: vec!["n00".to_owned()] };
            let releases = [("pantry-1".to_owned(), Behaviour::good(1, 0))].into();
            let (services, byzantine) = (vec![ServiceFacts::default()], [(0, lied_until)].into());
            let facts = Facts { services, byzantine, ..Facts::default() };
            let testbed = Testbed::new(names, releases, EventLog::new(false), facts);
            tokio::time::advance(Duration::from_secs(61)).await;
            testbed.start((0, 0), "pantry-1");
            assert_eq!(old.run(&testbed), sees, "it lied until {lied_until}");
        }
    }

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
