//! What is said at the end, in words and figures.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use crate::demo::alone::Alone;
use crate::demo::arguments::DemoPlan;
use crate::demo::gate::{MAX_UNAVAILABLE, span};
use crate::demo::report::{BeforeAfter, DemoReport, Latency, Outcome, PhaseSeconds, Requests, VersionCounts};
use crate::gate::file::Gate;
use crate::gate::upgrade::Upgraded;
use crate::ideal::{Ideal, IdealTerms, ideal, sequential_slots};
use crate::load::departure::departures;
use crate::load::sweep::Sweep;
use crate::world::balancer::{CHECK_INTERVAL, FALL, RISE};

/// The ideal of this run: of a rollback, the upgrade and the rollback.
///
/// # Errors
/// When the gate file lacks a term.
pub fn ideal_of(plan: &DemoPlan, alone: &Alone, gate: &Gate, upgraded: &Upgraded) -> anyhow::Result<Ideal> {
    let forward = sequential_slots(&upgraded.ended.waves, MAX_UNAVAILABLE);
    // Those before the broken one go there and back; the broken one leaves rotation once and comes back once, and its
    // start is waited for until the spec's deadline.
    let (slots, broken_start) = match plan.break_at {
        None => (forward, Duration::ZERO),
        Some(at) => (2 * (at - 1) + 1, alone.stop + span(gate, "health", "healthy_deadline")?),
    };
    Ok(ideal(IdealTerms {
        slots,
        fall: FALL,
        rise: RISE,
        check_interval: CHECK_INTERVAL,
        in_flight: departures(&upgraded.entries)
            .iter()
            .map(|left| Duration::from_secs_f64(left.in_flight_ms / 1e3))
            .sum(),
        stop: alone.stop,
        start_to_ready: alone.start_to_ready,
        min_healthy_time: span(gate, "health", "min_healthy_time")?,
        broken_start,
        read: upgraded.ended.read,
        fill: alone.fill,
    }))
}

/// The report.
pub fn report(plan: &DemoPlan, upgraded: &Upgraded, ideal: &Ideal) -> DemoReport {
    let (ended, load) = (&upgraded.ended, &upgraded.load);
    let (began, over) = upgraded.span_ms;
    let (before, after) = (upgraded.spread_at(began), upgraded.spread_at(f64::MAX));
    let outcome = Outcome::of(&ended.word, &after, plan.instances);
    let phases =
        ended.phases.iter().map(|(phase, seconds)| PhaseSeconds { phase: phase.clone(), seconds: *seconds });
    DemoReport {
        outcome,
        instances: plan.instances,
        waves: u32::try_from(ended.waves.len()).unwrap_or(u32::MAX),
        requests: Requests { sent: load.sent, ok: load.ok, failed: load.failed, not_sent: load.not_sent },
        latency_ms: Latency {
            p50: load.latency_ms.p50,
            p99: load.latency_ms.p99,
            p999: load.latency_ms.p999,
        },
        phases: phases.collect(),
        spread: BeforeAfter { before, after },
        ideal_seconds: rounded(ideal.seconds),
        actual_seconds: rounded((over - began) / 1e3),
        certificate: upgraded.certificate.as_ref().and_then(|made| made.clone().ok()),
    }
}

fn rounded(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

/// Whether it ended as the arguments call for: no request failed, and what the load made is as it was left.
pub fn is_good(plan: &DemoPlan, upgraded: &Upgraded, report: &DemoReport) -> bool {
    let proved = !matches!(upgraded.certificate, Some(Err(_)));
    report.is_good(plan.called_for()) && proved && upgraded.sweep.as_ref().is_none_or(Sweep::is_good)
}

/// The text.
pub fn text(plan: &DemoPlan, upgraded: &Upgraded, report: &DemoReport, ideal: &Ideal, dir: &Path) -> String {
    let mut text = String::new();
    let mut line = |word: &str, what: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{word:<12}{what}");
    };
    let called_for = plan.called_for();
    line("", "");
    let verdict = match is_good(plan, upgraded, report) {
        true => format!("{}, as it should be", report.outcome.word()),
        false => {
            format!("{}; called for is {} with no failed request", report.outcome.word(), called_for.word())
        }
    };
    line("outcome", &verdict);
    if let Some(because) = &upgraded.ended.because {
        line("because", because);
    }
    if let Some(Err(untrue)) = &upgraded.certificate {
        line("trouble", &format!("completed, but without a certificate that is true: {untrue}"));
    }
    line(
        "spread",
        &format!("before: {}; after: {}", counts(&report.spread.before), counts(&report.spread.after)),
    );
    let sizes: Vec<String> = upgraded.ended.waves.iter().map(u32::to_string).collect();
    line("waves", &format!("{}, of {} instances", report.waves, sizes.join(", ")));
    let phases: Vec<String> =
        report.phases.iter().map(|p| format!("{} {:.1} s", p.phase, p.seconds)).collect();
    line("phases", &phases.join(", "));
    let Requests { sent, ok, failed, not_sent } = report.requests;
    let late =
        if not_sent > 0 { format!(" + {not_sent} not sent in time by the load") } else { String::new() };
    line("requests", &format!("{sent} sent = {ok} ok + {failed} failed{late}"));
    let by: Vec<String> =
        upgraded.load.by_version.iter().map(|(v, n)| format!("{n} by version {v}")).collect();
    line(
        "",
        &format!(
            "answered {}; {} read what the other version wrote",
            by.join(", "),
            upgraded.load.read_across
        ),
    );
    for (reason, count) in &upgraded.load.failures {
        line("", &format!("failed: {count} x {reason}"));
    }
    for first in upgraded.load.first_failures.iter().take(5) {
        line("", &format!("  {first}"));
    }
    if let Some(Sweep { read, wrong, unread }) = &upgraded.sweep {
        let right = read - wrong.len() - unread.len();
        line("", &format!("{right} of {read} images that the load left, read again, are as they were left"));
        for first in wrong.iter().chain(unread).take(5) {
            line("", &format!("  {first}"));
        }
    }
    let Latency { p50, p99, p999 } = report.latency_ms;
    line(
        "latency",
        &format!(
            "p50 {p50:.1} ms, p99 {p99:.1} ms, p99.9 {p999:.1} ms (of an upload: beyond its own length)"
        ),
    );
    if let Some(certificate) = &report.certificate {
        line("certificate", &format!("{certificate} in certificate.json, verified without the store"));
    }
    let (actual, least) = (report.actual_seconds, report.ideal_seconds);
    line(
        "time",
        &format!("actual {actual:.1} s, ideal {least:.1} s ({:.2} of it); the ideal:", actual / least),
    );
    let _ = writeln!(text, "{ideal}\n{:<12}{}", "files", dir.display());
    text
}

fn counts(counts: &VersionCounts) -> String {
    let parts: Vec<String> = counts.iter().map(|(version, n)| format!("{n} at version {version}")).collect();
    if parts.is_empty() { "nothing known".to_owned() } else { parts.join(", ") }
}
