//! `grenade compare`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::gate::cli::{INCONCLUSIVE, print};
use crate::gate::impact::judge;
use crate::gate::impact::series::Series;
use crate::gate::report::text;
use crate::gate::verdict::{Check, Word, worst};
use crate::load::entry;

/// Judges two ledgers.
///
/// # Errors
/// When a file cannot be read, or is not what it should be.
pub(super) fn compare(twin: &Path, upgraded: &Path, drains: &Path) -> anyhow::Result<Vec<Check>> {
    let text =
        std::fs::read_to_string(drains).with_context(|| format!("could not read {}", drains.display()))?;
    let instant = |(n, line): (usize, &str)| {
        let parsed = line.trim().parse::<f64>().ok().filter(|at| at.is_finite() && *at >= 0.0);
        parsed.with_context(|| format!("{}:{}: `{line}` is no time in milliseconds", drains.display(), n + 1))
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let drains: Vec<f64> = lines.map(instant).collect::<anyhow::Result<_>>()?;
    let [treated, twin] = [upgraded, twin].map(|path| entry::read(path).map(|entries| Series::of(&entries)));
    Ok(judge::judge(&treated?, &twin?, &drains, 1))
}

/// Prints checks that stand for themselves, and answers by the worst of them.
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
