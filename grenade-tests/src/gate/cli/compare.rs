//! `grenade compare`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};

use crate::gate::exit::{INCONCLUSIVE, print};
use crate::gate::host::HostSeen;
use crate::gate::impact::judge;
use crate::gate::impact::series::Series;
use crate::gate::report::text;
use crate::gate::verdict::impact::{failures, same_load};
use crate::gate::verdict::{Check, On, Word, worst};
use crate::gate::written::HostBounds;
use crate::load::entry::{self, Entry};

/// Judges two ledgers.
///
/// # Errors
/// When a file cannot be read, or is not what it should be.
pub(super) fn compare(twin: &Path, upgraded: &Path, drains: &Path) -> anyhow::Result<Vec<Check>> {
    if let (Ok(one), Ok(other)) = (twin.canonicalize(), upgraded.canonicalize()) {
        ensure!(one != other, "{} is both the twin and the upgraded pool", twin.display());
    }
    let text =
        std::fs::read_to_string(drains).with_context(|| format!("could not read {}", drains.display()))?;
    let instant = |(n, line): (usize, &str)| {
        let parsed = line.trim().parse::<f64>().ok().filter(|at| at.is_finite() && *at >= 0.0);
        parsed.with_context(|| format!("{}:{}: `{line}` is no time in milliseconds", drains.display(), n + 1))
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let mut instants: Vec<f64> = lines.map(instant).collect::<anyhow::Result<_>>()?;
    instants.sort_by(f64::total_cmp);
    instants.dedup();
    let (treated, twin) = (ledger(upgraded)?, ledger(twin)?);
    let series = Series::of(&treated);
    if let Some(outside) = instants.iter().find(|at| **at > series.length_ms()) {
        bail!(
            "{}: {outside} ms is after the end of {} ({:.0} ms); the times count from the load's start",
            drains.display(),
            upgraded.display(),
            series.length_ms()
        );
    }
    let host = HostSeen::late_by(&treated).worse(HostSeen::late_by(&twin));
    let on = On { host: &host, bounds: &HostBounds::default() };
    let mut checks = vec![same_load(&treated, &twin), failures(&treated, &twin, on)];
    checks.extend(judge::judge(&series, &Series::of(&twin), &instants, 1));
    Ok(checks)
}

fn ledger(path: &Path) -> anyhow::Result<Vec<Entry>> {
    let entries = entry::read(path)?;
    ensure!(!entries.is_empty(), "{} has no request in it", path.display());
    Ok(entries)
}

/// Prints checks without a report around them, and answers by the worst of them.
pub(super) fn said(checks: &[Check], json: bool) -> ExitCode {
    let verdict = worst(checks.iter().map(|check| check.verdict));
    let text = match json {
        true => {
            let document = serde_json::json!({"verdict": verdict, "checks": checks});
            format!("{document:#}\n")
        }
        false => format!("{}  zero-impact\n{}", verdict.word().to_uppercase(), text::checks(checks)),
    };
    let printed = print(&text);
    match verdict {
        _ if printed != ExitCode::SUCCESS => printed,
        Word::Pass => ExitCode::SUCCESS,
        Word::Fail => ExitCode::FAILURE,
        Word::Inconclusive => ExitCode::from(INCONCLUSIVE),
    }
}
