//! A metadata group of the instances of a service: which documents its people set, drawn from dice of its own.

use super::dice::Dice;
use super::scenario::ServicePlan;
use serde::{Deserialize, Serialize};

/// One group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetadataPlan {
    /// The service whose instances belong to it.
    pub on: usize,
    /// Whether agents run a hook after each change.
    pub hook: bool,
    /// The documents, by time: the first is number 1.
    pub updates: Vec<DocumentUpdate>,
}

/// Another document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DocumentUpdate {
    /// When it is set at the earliest, in milliseconds from the beginning of the world: one update at a time.
    pub at: u64,
    /// `rolling`, `canary` or `immediate`.
    pub pattern: String,
    /// With `rolling`: how many instances are exposed at a time.
    pub batch: u64,
    /// How long instances may take to signal success or failure, in milliseconds.
    pub timeout: u64,
    /// Whether all are returned after the first failure, or none however many fail.
    pub returns: bool,
}

/// The group of a world, in a tenth of them.
pub fn draw(dice: &mut Dice, services: &[ServicePlan]) -> Option<MetadataPlan> {
    if !dice.percent(10) {
        return None;
    }
    let on = usize::try_from(dice.below(services.len() as u64)).unwrap_or(0);
    let count = dice.within(2, 4);
    let mut updates: Vec<DocumentUpdate> = (0..count).map(|_| update(dice)).collect();
    updates.sort_by_key(|update| update.at);
    Some(MetadataPlan { on, hook: dice.percent(70), updates })
}

fn update(dice: &mut Dice) -> DocumentUpdate {
    let pattern = match dice.below(10) {
        0..=5 => "rolling",
        6..=7 => "canary",
        _ => "immediate",
    };
    DocumentUpdate {
        at: dice.within(2_000, 60_000),
        pattern: pattern.to_owned(),
        batch: dice.within(1, 3),
        timeout: if dice.percent(50) { dice.within(1_000, 3_000) } else { 15_000 },
        returns: dice.percent(50),
    }
}
