//! What is said at the end, in words and figures.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use crate::demo::alone::Alone;
use crate::demo::arguments::DemoPlan;
use crate::demo::config::{MAX_UNAVAILABLE, MIN_HEALTHY, healthy_deadline};
use crate::demo::drive::Driven;
use crate::demo::picture::UpgradeSeen;
use crate::demo::report::{BeforeAfter, DemoReport, Latency, Outcome, PhaseSeconds, Requests, VersionCounts};
use crate::ideal::{Ideal, IdealTerms, ideal, sequential_slots};
use crate::world::balancer::{CHECK_INTERVAL, FALL, RISE};

/// The ideal of this run: of a rollback, the way there and the way back.
pub fn ideal_of(plan: &DemoPlan, alone: &Alone, driven: &Driven) -> Ideal {
    let forward = sequential_slots(&driven.waves, MAX_UNAVAILABLE);
    // Those before the broken one go there and back; the broken one leaves rotation once and comes back once, and its
    // start is borne until the spec's deadline.
    let (slots, broken_start) = match plan.break_at {
        None => (forward, Duration::ZERO),
        Some(at) => (2 * (at - 1) + 1, alone.stop + healthy_deadline(plan)),
    };
    ideal(IdealTerms {
        slots,
        fall: FALL,
        rise: RISE,
        check_interval: CHECK_INTERVAL,
        in_flight: driven
            .departures
            .iter()
            .map(|left| Duration::from_secs_f64(left.in_flight_ms / 1e3))
            .sum(),
        stop: alone.stop,
        start_to_ready: alone.start_to_ready,
        min_healthy_time: MIN_HEALTHY,
        broken_start,
        read: driven.read,
        fill: alone.fill,
    })
}

/// The report.
pub fn report(plan: &DemoPlan, driven: &Driven, ideal: &Ideal) -> DemoReport {
    let upgrade = driven.status.as_ref().map(UpgradeSeen::of).unwrap_or_default();
    let outcome = match driven.trouble {
        None => Outcome::of(&upgrade.phase, &driven.after, plan.instances),
        Some(_) => Outcome::Failed,
    };
    let load = &driven.load;
    DemoReport {
        outcome,
        instances: plan.instances,
        waves: u32::try_from(driven.waves.len()).unwrap_or(u32::MAX),
        requests: Requests { sent: load.sent, ok: load.ok, failed: load.failed },
        latency_ms: Latency {
            p50: load.latency_ms.p50,
            p99: load.latency_ms.p99,
            p999: load.latency_ms.p999,
        },
        phases: upgrade.left.into_iter().map(|(phase, seconds)| PhaseSeconds { phase, seconds }).collect(),
        spread: BeforeAfter { before: driven.before.clone(), after: driven.after.clone() },
        ideal_seconds: rounded(ideal.seconds),
        actual_seconds: rounded(driven.took.as_secs_f64()),
        certificate: driven.certificate.clone(),
    }
}

fn rounded(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

/// The text.
pub fn text(plan: &DemoPlan, driven: &Driven, report: &DemoReport, ideal: &Ideal, dir: &Path) -> String {
    let mut text = String::new();
    let mut line = |word: &str, what: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{word:<12}{what}");
    };
    let called_for = plan.called_for();
    line("", "");
    let verdict = match report.is_good(called_for) {
        true => format!("{}, as it should be", report.outcome.word()),
        false => {
            format!("{}; called for is {} with no failed request", report.outcome.word(), called_for.word())
        }
    };
    line("outcome", &verdict);
    if let Some(because) = driven.status.as_ref().and_then(|status| status.because.as_ref()) {
        line("because", because);
    }
    if let Some(trouble) = &driven.trouble {
        line("trouble", &format!("{trouble:#}"));
    }
    line(
        "spread",
        &format!("before: {}; after: {}", counts(&report.spread.before), counts(&report.spread.after)),
    );
    let sizes: Vec<String> = driven.waves.iter().map(u32::to_string).collect();
    line("waves", &format!("{}, of {} instances", report.waves, sizes.join(", ")));
    let phases: Vec<String> =
        report.phases.iter().map(|p| format!("{} {:.1} s", p.phase, p.seconds)).collect();
    line("phases", &phases.join(", "));
    let Requests { sent, ok, failed } = report.requests;
    line("requests", &format!("{sent} sent = {ok} ok + {failed} failed"));
    let by: Vec<String> = driven.load.by_version.iter().map(|(v, n)| format!("{n} by version {v}")).collect();
    line(
        "",
        &format!("answered {}; {} read what the other version wrote", by.join(", "), driven.load.read_across),
    );
    for (reason, count) in &driven.load.failures {
        line("", &format!("failed: {count} x {reason}"));
    }
    for first in driven.load.first_failures.iter().take(5) {
        line("", &format!("  {first}"));
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
