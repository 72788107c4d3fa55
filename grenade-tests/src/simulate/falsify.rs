//! Falsified runs. In a world without faults, one thing is made false beside the product: a record of the history that the
//! judge reads, or a thing of the world. The judge must find the rule broken that it breaks; so the judge itself is judged.

mod action;
pub(super) mod kind;
pub(super) mod report;
mod scenarios;
mod suits;

use self::kind::Falsification;
use super::scenario::Scenario;
use super::world::World;
use crate::trace::falsify::FalseRecord;
use tidegate_proto::record::upgrade::PhaseName;

/// The falsification of a run, and how far it was carried out.
#[derive(Debug, Default)]
pub(super) struct Plan {
    falsification: Option<Falsification>,
    is_done: bool,
}

impl Plan {
    /// That of a scenario.
    pub(super) fn of(scenario: &Scenario) -> Self {
        Self { falsification: scenario.falsify, is_done: false }
    }

    /// The record that is falsified when the history is judged.
    pub(super) fn record(&self) -> Option<FalseRecord> {
        match self.falsification {
            Some(Falsification::History(record)) => Some(record),
            _ => None,
        }
    }

    /// Does what is to be done to the world, as soon as that is possible in its phase of its upgrade.
    pub(super) async fn step(&mut self, world: &mut World, id: &str, (phase, since): (PhaseName, u64)) {
        let Some(Falsification::Action(action)) = self.falsification.filter(|_| !self.is_done) else {
            return;
        };
        if action.is_due(id, phase) && action.apply(world, since).await.is_some() {
            world.testbed.log(format!("falsified: {action:?}"));
            self.is_done = true;
        }
    }

    /// Whether the judge has found out what was done.
    pub(super) fn is_found(&self, world: &World) -> bool {
        let rule = self.falsification.map(Falsification::rule);
        let is_action = matches!(self.falsification, Some(Falsification::Action(_)));
        is_action && world.testbed.state().facts.breaches.iter().any(|breach| Some(breach.rule) == rule)
    }
}
