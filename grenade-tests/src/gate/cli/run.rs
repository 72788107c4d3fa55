//! `grenade run`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::gate::cli::{Unwritable, in_a_world, load, not_run, say_undecided};
use crate::gate::exit::{BAD_INPUT, INCONCLUSIVE, NOT_RUN, OnInconclusive, print, say, span};
use crate::gate::file::Gate;
use crate::gate::impact::calibrate::Calibration;
use crate::gate::plan::Plan;
use crate::gate::report::{junit, text};
use crate::gate::run::{self, Asked};
use crate::gate::verdict::Word;
use crate::gate::written::Arrangement;
use crate::world::place::PlaceError;
use tidegate_proto::GateTag;

#[derive(Debug, clap::Args)]
pub(super) struct Run {
    /// The gate file.
    gate: PathBuf,
    /// Directory for ledgers, logs and reports; it must be empty, absent, or an earlier run's, which is removed
    #[arg(long, value_name = "DIR", default_value = "grenade-artifacts")]
    artifacts: PathBuf,
    /// Write JUnit XML to this file as well
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print the report as JSON instead of text
    #[arg(long)]
    json: bool,
    /// Run the upgrade by this plan (`grenade plan` prints one)
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Try every frozen mix: one to all but one of the instances at the target
    #[arg(long)]
    every_mix: bool,
    /// Add these figures of `grenade calibrate` to the report
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Abort after so long
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = span)]
    max_time: Duration,
    /// What an inconclusive verdict counts as
    #[arg(long, value_name = "VERDICT")]
    on_inconclusive: Option<OnInconclusive>,
}

impl Run {
    /// Runs the gate.
    pub(super) async fn run(self) -> ExitCode {
        let mut gate = match load(&self.gate) {
            Ok(gate) => gate,
            Err(code) => return code,
        };
        say_undecided(&gate);
        if self.every_mix && !gate.tags.contains(&GateTag::Rolling) {
            say(format_args!(
                "{}: --every-mix tries every frozen mix for the tag rolling, which this gate does not assert: add \
                 `rolling`, or leave out --every-mix",
                gate.origin.at("tags")
            ));
            return ExitCode::from(BAD_INPUT);
        }
        if self.every_mix {
            let mix = |target| Arrangement { base: gate.instances - target, target };
            gate.arrangements = (1..gate.instances).map(mix).collect();
        }
        let plan = self.plan.as_deref().map(|path| Plan::load(path, &gate)).transpose();
        let calibration = self.calibration.as_deref().map(|path| read_calibration(path, &gate)).transpose();
        let (plan, calibration) = match plan.and_then(|plan| Ok((plan, calibration?))) {
            Ok(given) => given,
            Err(error) => {
                say(format_args!("{error:#}"));
                return ExitCode::from(BAD_INPUT);
            }
        };
        // The directory of the artifacts is made, or emptied, when the run begins.
        let is_within = |path: &PathBuf| path.starts_with(&self.artifacts);
        if let Some(path) = self.junit.as_ref().filter(|path| !is_within(path))
            && let Err(source) = std::fs::File::create(path)
        {
            return not_run(&Unwritable { path: path.clone(), source }.into());
        }
        let asked = Asked {
            artifacts: self.artifacts,
            junit: self.junit,
            plan,
            calibration,
            most: self.max_time,
            on_inconclusive: self.on_inconclusive,
        };
        let report = match in_a_world(&asked.artifacts, asked.most, async |world| {
            run::run(world, &gate, &asked).await
        })
        .await
        {
            Ok(report) => report,
            Err(error) => {
                let xml = junit::not_run(&gate.name, &format!("{error:#}"));
                // A directory that is not a run's is left as it is.
                let is_own = error.downcast_ref::<PlaceError>().is_none();
                let own = is_own.then(|| asked.artifacts.join("junit.xml"));
                for path in asked.junit.into_iter().chain(own) {
                    // Where it cannot be written, that is the error already, or there is no such directory.
                    let _ = std::fs::write(path, &xml);
                }
                return not_run(&error);
            }
        };
        let said = match self.json {
            true => serde_json::to_string_pretty(&report).unwrap_or_default() + "\n",
            false => text::text(&report, &asked.artifacts),
        };
        if print(&said) != ExitCode::SUCCESS {
            return ExitCode::from(NOT_RUN);
        }
        match (report.verdict, self.on_inconclusive) {
            (Word::Pass, _) | (Word::Inconclusive, Some(OnInconclusive::Pass)) => ExitCode::SUCCESS,
            (Word::Fail, _) | (Word::Inconclusive, Some(OnInconclusive::Fail)) => ExitCode::FAILURE,
            (Word::Inconclusive, None) => ExitCode::from(INCONCLUSIVE),
        }
    }
}

fn read_calibration(path: &Path, gate: &Gate) -> anyhow::Result<Calibration> {
    let text = std::fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    let calibration = Calibration::parse(&text).with_context(|| path.display().to_string())?;
    let (shown, own) = (path.display(), gate.impact.rate);
    ensure!(
        calibration.gate == gate.name && calibration.rate == own,
        "{shown} is of `{}` at {} requests a second, and this gate is `{}` at {own}",
        calibration.gate,
        calibration.rate,
        gate.name
    );
    Ok(calibration)
}
