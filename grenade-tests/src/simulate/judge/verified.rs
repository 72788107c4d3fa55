//! Instances that were verified: what serves under its last order is taken out by orders alone.

use super::Facts;
use crate::simulate::slot::{At, Slot};
use std::collections::BTreeMap;
use tidegate_proto::record::report::{Report, Rotation, Step};

/// What reports said under the last directive of each instance.
#[derive(Debug, Default)]
pub(in crate::simulate) struct Verified {
    /// The revision of the last directive.
    directed: BTreeMap<At, i64>,
    /// When the agent last said that the instance serves in rotation under it.
    at: BTreeMap<At, u64>,
}

impl Verified {
    /// A directive was written; that of a copy was obeyed in another store.
    pub(in crate::simulate) fn directs(&mut self, at: At, revision: Option<i64>) {
        self.directed.insert(at, revision.unwrap_or(i64::MAX));
        self.at.remove(&at);
    }

    /// It was verified then, whatever was ordered and reported.
    pub(in crate::simulate) fn falsify(&mut self, at: At, now: u64) {
        self.at.insert(at, now);
    }
}

impl Facts {
    /// An agent says how its instance stands.
    pub(in crate::simulate) fn stands(&mut self, at: At, report: &Report, now: u64) {
        let directed = self.verified.directed.get(&at).copied().unwrap_or(i64::MAX);
        let serves = report.step == Step::Serving && report.rotation == Rotation::In;
        if serves && !report.declined && report.generation.0 >= directed {
            self.verified.at.insert(at, now);
        }
    }

    /// Whether its agent has said so of what came into rotation last, and had its journal since.
    pub(in crate::simulate) fn is_verified(&self, at: At, slot: &Slot) -> bool {
        let Some(verified) = self.verified.at.get(&at) else { return false };
        let lost = self.journals_lost.get(&at.1).is_some_and(|lost| lost >= verified);
        *verified >= slot.came_at && !lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::judge::ServiceFacts;
    use serde_json::json;

    const PLACE: At = (0, 0);

    fn says(step: &str, generation: i64) -> Report {
        let report = json!({
            "version": 2, "rotation": "in", "health": "healthy", "step": {"name": step}, "generation": generation,
            "identity": {"nonce": "n", "boot": "b"},
        });
        serde_json::from_value(report).unwrap()
    }

    /// Whether what came in at 5,000 counts as verified after its order of revision 7 and this report at 6,000.
    fn is_verified(report: &Report, then: impl FnOnce(&mut Facts, &mut Slot)) -> bool {
        let mut facts = Facts { services: vec![ServiceFacts::default()], ..Facts::default() };
        let mut slot = Slot { came_at: 5_000, ..Slot::default() };
        facts.verified.directs(PLACE, Some(7));
        facts.stands(PLACE, report, 6_000);
        then(&mut facts, &mut slot);
        facts.is_verified(PLACE, &slot)
    }

    #[test]
    fn instance_is_verified_by_a_report_under_its_last_order() {
        assert!(is_verified(&says("serving", 7), |_, _| ()));
        assert!(!is_verified(&says("verifying", 7), |_, _| ()), "it is looked at still");
        assert!(!is_verified(&says("serving", 6), |_, _| ()), "its agent has not read the order");
        let again = |facts: &mut Facts, _: &mut Slot| facts.verified.directs(PLACE, Some(8));
        assert!(!is_verified(&says("serving", 7), again), "it was ordered again");
        let crashed = |_: &mut Facts, slot: &mut Slot| slot.came_at = 6_001;
        assert!(!is_verified(&says("serving", 7), crashed), "it came in again");
        let lost = |facts: &mut Facts, _: &mut Slot| facts.journals_lost.extend([(PLACE.1, 6_001)]);
        assert!(!is_verified(&says("serving", 7), lost), "its agent knows nothing of that");
    }
}
