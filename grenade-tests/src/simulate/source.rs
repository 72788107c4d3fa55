//! Where scenarios come from: drawn from seeds, drawn near kept ones, kept in a file, or plans of a gate job.

use std::path::Path;

use super::child::{self, Became, Play, Setting};
use super::draw;
use super::kept;
use super::many::Arguments;
use super::planned;
use super::scenario::Scenario;
use super::scenario_file;
use crate::gate::file::{self, Gate};
use crate::gate::plan::Plan;

/// Where from.
pub(super) enum Source<'a> {
    /// A seed, with no other kinds of faults than these; none = all.
    Seeds(&'a [String]),
    /// A seed, near these scenarios.
    Near(Vec<Scenario>),
    /// The scenario of a file.
    File(&'a Path, Box<Scenario>),
    /// Plans for a gate: this one, or those that seeds draw.
    Plans(Box<Gate>, Option<Plan>),
}

impl<'a> Source<'a> {
    /// What the arguments name.
    ///
    /// # Errors
    /// What is wrong with the scenario's file, the gate file, the plan or the directory of kept scenarios.
    pub(super) fn of(arguments: &'a Arguments) -> anyhow::Result<Self> {
        Ok(match (&arguments.replay, &arguments.gate, &arguments.near) {
            (Some(path), ..) => Self::File(path, Box::new(scenario_file::read(path)?)),
            (None, Some(path), _) => {
                let gate = file::load(path)?;
                let plan = arguments.plan.as_ref().map(|plan| Plan::load(plan, &gate)).transpose()?;
                anyhow::ensure!(
                    gate.procedure.is_none(),
                    "a plan is for Tidegate; this gate has a `procedure`"
                );
                Self::Plans(Box::new(gate), plan)
            }
            (None, None, Some(directory)) => Self::Near(kept::load(directory)?),
            (None, None, None) => Self::Seeds(&arguments.only_faults),
        })
    }

    /// Whether there is one scenario, whatever the seed.
    pub(super) fn is_one(&self) -> bool {
        matches!(self, Self::File(..))
    }

    /// The name of the one scenario's file.
    pub(super) fn file(&self) -> Option<String> {
        match self {
            Self::File(path, _) => Some(path.display().to_string()),
            Self::Seeds(_) | Self::Near(_) | Self::Plans(..) => None,
        }
    }

    /// Whether every kind of fault is drawn in every phase.
    pub(super) fn draws_everything(&self) -> bool {
        matches!(self, Self::Seeds(kinds) if kinds.is_empty())
    }

    /// The scenario of a seed.
    ///
    /// # Errors
    /// When nothing is drawn of the kinds that are asked for.
    pub(super) fn scenario(&self, seed: u64) -> anyhow::Result<Scenario> {
        match self {
            Self::Seeds(kinds) => draw::scenario_with(seed, kinds),
            Self::Near(kept) => Ok(draw::near(seed, kept).expect("a directory without scenarios is refused")),
            Self::File(_, scenario) => Ok(Scenario::clone(scenario)),
            Self::Plans(gate, plan) => {
                let drawn = plan.is_none().then(|| Plan::draw(seed, gate));
                let plan = plan.as_ref().or(drawn.as_ref());
                Ok(planned::scenario(seed, gate, plan.expect("one is given or drawn")))
            }
        }
    }

    /// Plays it in a process of its own.
    ///
    /// # Errors
    /// As [`child::run`].
    pub(super) fn play(&self, seed: u64, setting: Setting<'_>) -> anyhow::Result<Became> {
        match self {
            Self::Seeds(kinds) => child::run(Play::Seed(seed, kinds), setting),
            Self::File(_, scenario) => child::run(Play::Scenario(scenario), setting),
            Self::Near(_) | Self::Plans(..) => child::run(Play::Scenario(&self.scenario(seed)?), setting),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn only_random_worlds_of_all_kinds_draw_everything() {
        let draws_everything = |more: &[&str]| {
            let all = std::iter::once("tidegate-simulate").chain(more.iter().copied());
            let arguments = Arguments::parse_from(all);
            Source::of(&arguments).unwrap().draws_everything()
        };
        let gate = concat!(env!("CARGO_MANIFEST_DIR"), "/gates/pantry-sqlite.yaml");
        let near = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios");
        assert!(draws_everything(&[]));
        assert!(!draws_everything(&["--only-faults", "Pause"]));
        assert!(!draws_everything(&["--gate", gate]));
        assert!(!draws_everything(&["--near", near]));
    }
}
