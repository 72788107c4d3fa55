//! The report for a person: the verdict first, then what it rests on.

use std::fmt::Write;
use std::path::Path;

use crate::gate::report::{Died, GateReport, Load};
use crate::gate::verdict::{Check, Word};
use tidegate_proto::printable::one_line;

/// The text.
pub fn text(report: &GateReport, artifacts: &Path) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{}  {}: {} {}, in {:.0} s",
        report.verdict.word().to_uppercase(),
        report.gate,
        report.service,
        report.versions(),
        report.context.seconds
    );
    for tag in &report.tags {
        let _ = writeln!(text, "\n{:<13} {}", tag.verdict.word(), tag.tag.word());
        text.push_str(&checks(&tag.checks));
    }
    for tag in &report.not_decided {
        let why = report.why_not_decided();
        let _ = writeln!(text, "\n{:<13} {}\n          {why}", "not decided", tag.word());
    }
    text.push('\n');
    for (name, load) in report.loads() {
        let _ = writeln!(text, "{}", line(&name, load));
        text.push_str(&kinds(load));
    }
    report.deaths.iter().for_each(|died| text.push_str(&death(died)));
    if let Some(calibration) = &report.calibration {
        let idle = calibration.idle_pairs;
        let _ = writeln!(
            text,
            "calibration   of {} idle pairs {} passed, {} were inconclusive and {} failed; smallest p99 shift {:.1} % in 120 s; \
             began {} on {}",
            idle.runs,
            idle.pass,
            idle.inconclusive,
            idle.fail,
            calibration.smallest_p99_shift_percent,
            one_line(&calibration.context.began),
            one_line(&calibration.context.machine.words())
        );
    }
    let _ =
        writeln!(text, "machine       {}; began {}", report.context.machine.words(), report.context.began);
    let _ = writeln!(text, "files         {}", artifacts.display());
    text
}

/// How many lines of the log of a process that ended are shown.
const LAST_LINES: usize = 5;

/// A process that ended, with its last lines.
fn death(Died { part, death }: &Died) -> String {
    let lines: Vec<&str> = death.log.lines().collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    let last = last.iter().map(|line| format!("              | {}\n", one_line(line)));
    format!("{part:<13} {}\n{}", one_line(&death.words()), last.collect::<String>())
}

/// Each check with what was found.
pub fn checks(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let sign = match check.verdict {
            Word::Pass => "ok",
            Word::Inconclusive => "?",
            Word::Fail => "FAILED",
        };
        let _ = writeln!(text, "  {sign:<7} {}\n          {}", check.check, check.found);
    }
    text
}

/// The failures of a load by kind, in one line; nothing where none failed.
fn kinds(load: &Load) -> String {
    let kinds = load.by_kind();
    let each = kinds.iter().map(|(kind, count)| format!("{count} x {}", one_line(kind)));
    match each.collect::<Vec<_>>() {
        none if none.is_empty() => String::new(),
        some => format!("              failed: {}\n", some.join(", ")),
    }
}

fn line(name: &str, load: &Load) -> String {
    let pressure = |what: &str, share: Option<f64>| {
        share.map(|share| format!(", {what} {share:.0} %")).unwrap_or_default()
    };
    let cpu = pressure("cpu pressure", load.host.mean.cpu_pressure);
    let memory = pressure("memory pressure", load.host.mean.memory_pressure);
    let steal = pressure("steal", load.host.mean.steal);
    let not_sent =
        if load.not_sent > 0 { format!(", {} not sent in time", load.not_sent) } else { String::new() };
    format!(
        "{name:<13} {} requests, {} failed{not_sent}; p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms; sent at most {:.1} ms late \
         (99 %){cpu}{memory}{steal}",
        load.sent, load.failed, load.p50_ms, load.p99_ms, load.max_ms, load.host.lag_p99_ms
    )
}
