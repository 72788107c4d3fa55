//! `grenade calibrate`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use crate::gate::cli::{in_a_world, load, not_run};
use crate::gate::exit::{BAD_INPUT, print, say};
use crate::gate::run;

#[derive(Debug, clap::Args)]
pub(super) struct Calibrate {
    /// The gate file; its service, load and `impact` are used
    gate: PathBuf,
    /// Directory for ledgers, logs and calibration.json; it must be empty, absent, or an earlier run's
    #[arg(long, value_name = "DIR", default_value = "grenade-calibration")]
    artifacts: PathBuf,
    /// How many idle pairs are recorded; each takes `impact.length`, and as long again for each further look where the judge is inconclusive
    #[arg(long, value_name = "N", default_value = "20", value_parser = clap::value_parser!(u32).range(2..=500))]
    pairs: u32,
    /// How many runs are simulated with each effect, from what was recorded
    #[arg(long, value_name = "N", default_value = "2000", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Print the figures as JSON instead of text
    #[arg(long)]
    json: bool,
}

impl Calibrate {
    /// Measures.
    pub(super) async fn run(self) -> ExitCode {
        let gate = match load(&self.gate) {
            Ok(gate) => gate,
            Err(code) => return code,
        };
        if gate.load_command.is_some() {
            say(format_args!(
                "{}: `grenade calibrate` sends the same requests to two pools, and what `load.command` sends cannot be \
                 repeated; use `load.steps` in its place",
                self.gate.display()
            ));
            return ExitCode::from(BAD_INPUT);
        }
        // Bringing up, and the simulated runs.
        let most = gate.impact.length * self.pairs * gate.impact.looks + Duration::from_secs(3_600);
        let calibrated = in_a_world(&self.artifacts, most, async |world| {
            let calibration = run::calibrate(world, &gate, (self.pairs, self.runs), most).await?;
            let text = serde_json::to_string_pretty(&calibration)?;
            let path = world.path("calibration.json");
            std::fs::write(&path, text).with_context(|| format!("could not write {}", path.display()))?;
            Ok(calibration)
        });
        match calibrated.await {
            Ok(calibration) if self.json => match serde_json::to_string_pretty(&calibration) {
                Ok(text) => print(&(text + "\n")),
                Err(error) => not_run(&error.into()),
            },
            Ok(calibration) => print(&calibration.text()),
            Err(error) => not_run(&error),
        }
    }
}
