//! The command line.

use anyhow::Context;
use clap::Parser;
use std::path::PathBuf;

use super::draw;
use super::plan::Plan;

/// As many upgrades fit into a minute at most.
const A_MINUTE: u64 = 3;

/// Upgrades a fleet of real processes, one upgrade after the other, under load, while faults drawn from a seed happen; and
/// judges from outside. Each process runs on a host (a network namespace) of its own.
///
/// Exit code 0: no rule was broken; 1: one was; 2: it could not run.
#[derive(Debug, Parser)]
#[command(name = "tidegate-nemesis")]
pub struct Arguments {
    /// No upgrade begins after so many minutes; the last one is brought to its end
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub minutes: u64,
    /// Seed of the plan; default: any
    #[arg(long)]
    pub seed: Option<u64>,
    /// At most so many upgrades
    #[arg(long)]
    pub upgrades: Option<usize>,
    /// Play the plan of this file (JSON) instead of drawing it from the seed
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Leave out all faults but these kinds, by their names in the table at the end: LeaderKilled,'Cut Members'
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = draw::kind_named)]
    pub only: Vec<String>,
    /// Print the plan as JSON, for --plan, and run nothing
    #[arg(long)]
    pub print_plan: bool,
    /// Print each line of the log as it happens
    #[arg(long)]
    pub log: bool,
    /// Directory for logs, made if it is absent; default: a new one below the system's for temporary files, removed after
    /// a good run
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

impl Arguments {
    /// The seed of `--seed`, or any.
    pub(super) fn seed_or_any(&self) -> u64 {
        self.seed.unwrap_or_else(|| rand::random_range(1..1_000_000))
    }

    /// The plan that was asked for.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn drawn(&self, seed: u64) -> anyhow::Result<Plan> {
        let most = usize::try_from(self.minutes * A_MINUTE)?.min(self.upgrades.unwrap_or(usize::MAX));
        let mut plan = match &self.plan {
            None => draw::plan(seed, most),
            Some(path) => {
                let text = std::fs::read_to_string(path);
                let text = text.with_context(|| format!("could not read {}", path.display()))?;
                serde_json::from_str(&text).with_context(|| format!("{} is no plan", path.display()))?
            }
        };
        if !self.only.is_empty() {
            for upgrade in &mut plan.upgrades {
                upgrade.faults.retain(|fault| self.only.contains(&fault.what.kind()));
            }
        }
        Ok(plan)
    }
}
