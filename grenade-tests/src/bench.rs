//! `make bench`: the figures that the project promises, each with its limit, measured on real programs.
//!
//! What counts is a ratio within one run, taken side by side: a machine under other work moves both sides. Absolute
//! limits (CPU, memory) are told as they are. Nothing is warmed up out of sight and no run is left out.

pub mod arguments;
pub mod figure;
pub mod fleet;
pub mod median;
pub mod proc;
pub mod reaction;
pub mod rebuild;
pub mod rest;
pub mod spread;

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::bench::arguments::Part;
use crate::bench::figure::{Figure, Report};

/// Measures the parts, prints each figure as it comes, and writes `report.json` into `dir`. Answers whether none was
/// missed.
///
/// # Errors
/// When a part could not be measured at all; what was measured before it is written.
pub async fn run(parts: &[Part], dir: &Path) -> anyhow::Result<bool> {
    std::fs::create_dir_all(dir).with_context(|| format!("could not make {}", dir.display()))?;
    let mut report = Report::begin();
    for part in parts {
        println!("== {}", part.word());
        match measure(*part, dir).await {
            Ok(figures) => {
                for figure in &figures {
                    println!("{figure}");
                }
                report.add(part.word(), figures);
            }
            Err(error) => {
                report.could_not(part.word(), format!("{error:#}"));
                report.write(dir)?;
                return Err(error.context(format!("could not measure {}", part.word())));
            }
        }
        report.write(dir)?;
    }
    let missed = report.missed();
    println!("== {} of {} limits are kept", report.limits() - missed, report.limits());
    Ok(missed == 0)
}

/// Where the report goes unless told otherwise: `target/bench`, beside `target/<profile>` with this program.
///
/// # Errors
/// When the system does not tell where this program is.
pub fn default_dir() -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe().context("could not find this program")?;
    let target = here.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    Ok(target.join("bench"))
}

async fn measure(part: Part, dir: &Path) -> anyhow::Result<Vec<Figure>> {
    match part {
        Part::Spread => Ok(spread::measure()),
        Part::Rebuild => rebuild::measure(dir).await,
        Part::Rest => rest::measure(dir).await,
        Part::Reaction => reaction::measure(dir).await,
    }
}
