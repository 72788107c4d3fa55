//! `grenade explore`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use crate::gate::cli::{in_a_world, load, no_plans, not_run};
use crate::gate::exit::{INCONCLUSIVE, print, span};
use crate::gate::explore;
use crate::gate::report::progress::Progress;
use crate::gate::verdict::Word;

/// How long the report may take.
const AFTERWARDS: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Args)]
pub(super) struct Explore {
    /// The gate file
    gate: PathBuf,
    /// The seed of the first plan; the next has the next number
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// How many plans at the most; the first that fails is the last
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    plans: u32,
    /// Directory for plans, ledgers and logs; it must be empty, absent, or an earlier run's
    #[arg(long, value_name = "DIR", default_value = "grenade-plans")]
    artifacts: PathBuf,
    /// Abort after so long
    #[arg(long, value_name = "TIME", default_value = "2h", value_parser = span)]
    max_time: Duration,
    /// Print what came of each plan as JSON instead of text
    #[arg(long)]
    json: bool,
}

impl Explore {
    /// Runs the plans.
    pub(super) async fn run(self) -> ExitCode {
        let gate = match load(&self.gate) {
            Ok(gate) => gate,
            Err(code) => return code,
        };
        if gate.procedure.is_some() {
            return no_plans();
        }
        // At the end of the time the results so far are printed: the work watches the clock itself.
        let explored = in_a_world(&self.artifacts, self.max_time + AFTERWARDS, async |world| {
            let progress = Progress::new(self.max_time);
            explore::explore(world, &gate, (self.seed, self.plans), &progress).await
        });
        let explored = match explored.await {
            Ok(explored) => explored,
            Err(error) => return not_run(&error),
        };
        let said = match self.json {
            true => serde_json::to_string_pretty(&explored).unwrap_or_default() + "\n",
            false => explored.text(&self.artifacts),
        };
        match (print(&said), explored.verdict) {
            (printed, _) if printed != ExitCode::SUCCESS => printed,
            (_, Word::Pass) => ExitCode::SUCCESS,
            (_, Word::Fail) => ExitCode::FAILURE,
            (_, Word::Inconclusive) => ExitCode::from(INCONCLUSIVE),
        }
    }
}
