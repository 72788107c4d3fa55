//! A stream of compute releases on top of a service: how it is run, and what its people do with it, drawn from dice of
//! its own.

use super::dice::Dice;
use super::scenario::ServicePlan;
use serde::{Deserialize, Serialize};

/// One stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamPlan {
    /// The service whose versions its releases need.
    pub on: usize,
    /// How many computes start with it.
    pub computes: u64,
    /// Nodes whose agents pull and drop its images; none = the stream has no hooks.
    pub nodes: Vec<usize>,
    /// Whether a person approves each release.
    pub approval: bool,
    /// How many releases are kept in any case.
    pub kept: u64,
    /// How long a superseded release is kept, in milliseconds.
    pub rollback_window: u64,
    /// Whether an operator rolls the storage back as soon as a release needs its new version.
    #[serde(default)]
    pub storage_back: bool,
    /// What its people do, by time.
    pub steps: Vec<StreamStep>,
}

/// What people do with a stream at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamStep {
    /// When, in milliseconds from the beginning of the world.
    pub at: u64,
    /// What.
    pub what: StreamCommand,
}

/// What people do with a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum StreamCommand {
    /// A release that needs so many versions more of the service than it has now, first on a share of starts or not.
    Create {
        /// How many versions ahead.
        ahead: u32,
        /// Whether it goes to a share of starts first.
        canary: bool,
        /// Whether a compatibility run must have passed.
        evidence: bool,
    },
    /// The image of the latest release once more, with other settings.
    SameImage,
    /// The latest request once more, by two people at once.
    Twice,
    /// Back to the revision so many before the latest.
    RollBack(u64),
    /// Two people at once: one goes back, the other releases.
    Both(u64),
    /// A person has a waiting release go out, to a share of starts or all.
    Promote(bool),
    /// A compute is pinned to the revision so many before the latest.
    Pin(u64, u64),
    /// A pin is taken back.
    Unpin(u64),
    /// The process that starts computes reports whether the waiting release is available.
    Available(bool),
    /// Hooks that are begun on one node fail for so many milliseconds.
    HooksFail(usize, u64),
    /// Words that make no sense.
    Wrong(u64),
}

/// The stream of a world, in a quarter of them.
pub fn draw(dice: &mut Dice, services: &[ServicePlan]) -> Option<StreamPlan> {
    if !dice.percent(25) {
        return None;
    }
    let on = usize::try_from(dice.below(services.len() as u64)).unwrap_or(0);
    let mut nodes = services[0].nodes.clone();
    nodes.truncate(usize::try_from(dice.within(1, 3)).unwrap_or(1));
    if dice.percent(30) {
        nodes.clear();
    }
    let count = dice.within(4, 12);
    let mut steps: Vec<StreamStep> = (0..count)
        .map(|_| StreamStep { at: dice.within(2_000, 100_000), what: command(dice, &nodes) })
        .collect();
    steps.sort_by_key(|step| step.at);
    Some(StreamPlan {
        on,
        computes: dice.within(2, 8),
        nodes,
        approval: dice.percent(15),
        kept: if dice.percent(60) { 1 } else { dice.within(2, 3) },
        storage_back: dice.percent(40),
        rollback_window: if dice.percent(70) { 0 } else { 20_000 },
        steps,
    })
}

fn command(dice: &mut Dice, nodes: &[usize]) -> StreamCommand {
    match dice.below(20) {
        0..=5 => StreamCommand::Create {
            ahead: u32::from(dice.percent(60)),
            canary: dice.percent(35),
            evidence: dice.percent(15),
        },
        6..=8 => StreamCommand::SameImage,
        9 => StreamCommand::Twice,
        10..=12 => StreamCommand::RollBack(dice.within(1, 5)),
        13 => StreamCommand::Both(dice.within(1, 3)),
        14 => StreamCommand::Promote(dice.percent(50)),
        15..=16 => StreamCommand::Pin(dice.below(8), dice.below(4)),
        17 if dice.percent(50) => StreamCommand::Available(dice.percent(60)),
        17 => StreamCommand::Unpin(dice.below(8)),
        18 => match dice.pick(nodes) {
            Some(node) => StreamCommand::HooksFail(*node, dice.within(2_000, 20_000)),
            None => StreamCommand::SameImage,
        },
        _ => StreamCommand::Wrong(dice.below(6)),
    }
}
