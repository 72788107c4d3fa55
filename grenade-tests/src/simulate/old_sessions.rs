//! No step of contract is committed while an old program is connected, where the database lists its sessions: a coordinator
//! asks for them before each step.

use super::scenario::UpgradePlan;
use super::world::World;
use std::collections::{BTreeMap, BTreeSet};

/// From the moment in which a coordinator asks until the step is committed, in milliseconds: some fifteen statements, and
/// how late the world looks at both.
const ASKED: u64 = 1_500;

/// What the world has seen of one schema.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// Since when each program is connected, by the name of its session.
    since: BTreeMap<String, u64>,
    /// How many steps of contract there were at the last look.
    steps: Option<u64>,
    /// When another database had taken the place of the one that was there last, at the last look.
    replaced_at: Option<u64>,
    /// Whether a program of the first version is said to be connected all the time: also of a database that lists none.
    falsified: bool,
    /// Whether a program that says another version also gives that to the database.
    pub(super) named_as_said: bool,
}

/// The program that is not connected and is said to be.
const FALSIFIED: &str = "pantry/1/n00";

impl Sessions {
    /// These are connected now.
    pub(super) fn are(&mut self, names: &BTreeSet<String>, now: u64) {
        self.since.retain(|name, _| names.contains(name));
        for name in names {
            self.since.entry(name.clone()).or_insert(now);
        }
        if self.falsified {
            self.since.insert(FALSIFIED.to_owned(), 0);
        }
    }

    /// Falsifies what is seen from now on: a program of the first version has been connected since the beginning.
    pub(super) fn falsify(&mut self) {
        self.falsified = true;
    }

    /// None is.
    pub(super) fn end(&mut self) {
        self.since.clear();
    }

    /// The history has so many steps of contract now: which program below version `needs` was connected while another one
    /// was committed, and for how long; none where a statement may have taken longer since `calm`, or where the history is that
    /// of another database, which came at `replaced_at`.
    fn committed(
        &mut self,
        (steps, replaced_at): (u64, Option<u64>),
        needs: u32,
        (now, calm): (u64, u64),
    ) -> Option<(&str, u64)> {
        let is_same = std::mem::replace(&mut self.replaced_at, replaced_at) == replaced_at;
        let before = self.steps.replace(steps).filter(|_| is_same)?;
        if steps <= before || now < calm + ASKED {
            return None;
        }
        let is_old = |name: &str| version(name).is_some_and(|version| version < needs);
        let old = self.since.iter().find(|(name, since)| is_old(name) && **since + ASKED < now);
        old.map(|(name, since)| (name.as_str(), now - since))
    }
}

/// The version in `service/version/node`.
fn version(name: &str) -> Option<u32> {
    name.split('/').nth(1)?.parse().ok()
}

/// Judges the contract of an upgrade, which may be under way. `calm` says since when no coordinator is stopped and no
/// statement is slow.
pub(super) async fn judge(world: &mut World, plan: &UpgradePlan, calm: u64) {
    let now = world.testbed.now();
    let Some(schema) = world.scenario.owned_schema(plan.service) else { return };
    let database = &mut world.databases[schema];
    let is_listed = database.judge().is_some() || world.sessions[schema].falsified;
    if !is_listed || database.is_away() {
        return;
    }
    let Some(steps) = database.contract_steps().await else { return };
    let seen = (steps, database.replaced_at);
    let found = world.sessions[schema].committed(seen, plan.from + 1, (now, calm));
    if let Some((name, ms)) = found {
        let text = format!("a step of contract was committed while {name} had been connected for {ms} ms");
        world.testbed.state().facts.breach(now, 1, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_beside_an_old_session_is_found() {
        let mut sessions = Sessions::default();
        let names = ["pantry/1/n00".to_owned(), "pantry/2/n01".to_owned()];
        sessions.are(&names.clone().into(), 1_000);
        assert_eq!(sessions.committed((1, None), 2, (1_000, 0)), None, "nothing was seen before");
        assert_eq!(
            sessions.committed((2, None), 2, (2_000, 0)),
            None,
            "it was asked before the session came"
        );
        assert_eq!(sessions.committed((2, None), 2, (9_000, 0)), None, "no further step");
        assert_eq!(sessions.committed((3, None), 2, (9_000, 8_000)), None, "it was asked before a stop");
        assert_eq!(sessions.committed((4, None), 2, (9_000, 0)), Some(("pantry/1/n00", 8_000)));
        sessions.are(&names[1..].iter().cloned().collect(), 9_000);
        assert_eq!(sessions.committed((5, None), 2, (20_000, 0)), None, "all are new");
    }

    /// A copy took the place of the database after its contract had ended, and is replaced by it again.
    #[test]
    fn steps_of_a_database_that_returns_are_not_committed_now() {
        let mut sessions = Sessions::default();
        sessions.are(&["pantry/1/n00".to_owned()].into(), 1_000);
        let mut found =
            |steps, replaced_at, now| sessions.committed((steps, replaced_at), 2, (now, 0)).is_some();
        assert!(!found(2, None, 8_000));
        assert!(!found(0, Some(9_000), 9_010), "the copy lacks them");
        assert!(!found(2, Some(12_000), 12_010), "they were committed long ago");
        assert!(found(3, Some(12_000), 13_000), "this one is committed now");
    }
}
