//! Scenarios that are kept in a directory.

use super::scenario::Scenario;
use super::scenario_file;
use anyhow::Context;
use std::path::{Path, PathBuf};

/// The scenarios of a directory, sorted by the names of their files.
///
/// # Errors
/// When the directory or one of its JSON files cannot be read, when such a file is no scenario to which faults can be added,
/// and when there is no such file.
pub(super) fn load(directory: &Path) -> anyhow::Result<Vec<Scenario>> {
    let all = list(directory).with_context(|| format!("could not read {}", directory.display()))?;
    let files: Vec<PathBuf> =
        all.into_iter().filter(|file| file.extension().is_some_and(|e| e == "json")).collect();
    anyhow::ensure!(!files.is_empty(), "{} has no scenario: no file *.json", directory.display());
    files.iter().map(|file| read(file)).collect()
}

fn list(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory)?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<PathBuf>>>()?;
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> anyhow::Result<Scenario> {
    let scenario = scenario_file::read(file)?;
    let of = || scenario_file::is_of(file);
    anyhow::ensure!(
        scenario.falsify.is_none(),
        "{}: it has `falsify`, which breaks a rule without any fault",
        of()
    );
    anyhow::ensure!(
        scenario.plan.is_empty(),
        "{}: it has `plan`, whose steps wait for the end of every fault",
        of()
    );
    Ok(scenario)
}
