//! `make bench`: the figures that the project promises, each with its limit, measured on real programs.
//!
//! What counts is a ratio within one run, taken side by side: a machine under other work moves both sides. Absolute
//! limits (CPU, memory) are reported as they are. Every run is reported: there is no hidden warm-up.

pub mod arguments;
pub mod figure;
pub mod fill;
pub mod fleet;
pub mod generator;
pub mod host;
pub mod median;
pub mod overhead;
pub mod proc;
pub mod reaction;
pub mod rebuild;
pub mod releases;
pub mod rest;
pub mod spread;

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::bench::arguments::{Arguments, Part};
use crate::bench::figure::{Figure, Report};
use crate::bench::host::Ticks;

/// Measures the parts, one after the other, prints one table (or the report as JSON), and writes `report.json` into
/// `dir` after each part. A part that cannot be measured is reported and does not keep the others from being measured.
/// Answers whether every limit is kept and every part was measured.
///
/// # Errors
/// When the report cannot be written.
pub async fn run(arguments: &Arguments, dir: &Path) -> anyhow::Result<bool> {
    std::fs::create_dir_all(dir).with_context(|| format!("could not make {}", dir.display()))?;
    let mut report = Report::begin();
    for part in arguments.parts() {
        // Beside the table, which is for the standard output alone.
        eprintln!("measuring {}: {}", part.word(), part.about());
        let before = Ticks::now();
        match measure(part, arguments, dir).await {
            Ok(figures) => {
                let stolen =
                    Ticks::now().zip(before).and_then(|(now, before)| now.stolen_percent_since(before));
                report.add(part.word(), figures, stolen);
            }
            Err(error) => report.could_not(part.word(), format!("{error:#}")),
        }
        report.write(dir)?;
    }
    if arguments.json {
        println!("{}", report.json()?);
    } else {
        println!("{report}");
    }
    Ok(report.is_kept())
}

/// Where the report goes by default: `target/bench`, beside `target/<profile>` with this program.
///
/// # Errors
/// When the system does not report where this program is.
pub fn default_dir() -> anyhow::Result<PathBuf> {
    let here = std::env::current_exe().context("could not find this program")?;
    let target = here.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    Ok(target.join("bench"))
}

async fn measure(part: Part, arguments: &Arguments, dir: &Path) -> anyhow::Result<Vec<Figure>> {
    match part {
        Part::Spread => Ok(spread::measure()),
        Part::Rebuild => rebuild::measure(dir).await,
        Part::Rest => rest::measure(dir).await,
        Part::Reaction => reaction::measure(dir).await,
        Part::Releases => releases::measure(dir).await,
        Part::Overhead => overhead::measure(dir, arguments.repeat).await,
        Part::Generator => generator::measure(dir).await,
        Part::Fill => fill::measure(dir, arguments.repeat, arguments.rows).await,
    }
}
