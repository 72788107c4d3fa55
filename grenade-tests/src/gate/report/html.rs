//! The report as one HTML file that needs nothing else: no network, no script.

mod failures;
mod plan;
mod style;
mod table;
mod trust;

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::gate::impact::Impact;
use crate::gate::mixed::Memory;
use crate::gate::report::chart::{self, Span, latency, versions};
use crate::gate::report::junit::{escaped, lines};
use crate::gate::report::percentiles::{Curve, around, percentiles};
use crate::gate::report::{Died, GateReport, Load};
use crate::gate::verdict::Evidence;
use crate::load::entry::Entry;

/// The document.
pub fn html(report: &GateReport, evidence: &Evidence<'_>, spec: &str) -> String {
    let entries = &evidence.upgraded.entries;
    let title = format!("{}: {}", report.gate, report.verdict.word());
    let mut page = format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{}</title><style>{}</style></head><body>",
        escaped(&title),
        style::STYLE
    );
    let word = report.verdict.word();
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "<h1><span class=\"verdict {word}\">{}</span>{}</h1><p>{} {}</p><p>Began {}, took {:.0} s, on {}.</p>",
        word.to_uppercase(),
        escaped(&report.gate),
        escaped(&report.service),
        report.versions(),
        escaped(&report.context.began),
        report.context.seconds,
        escaped(&report.context.machine.words())
    );
    tags(&mut page, report);
    let last = entries.iter().map(|entry| entry.done_ms).fold(report.upgrade.span_ms.1, f64::max);
    let span = Span { end_ms: last };
    let (began, ended) = report.upgrade.span_ms;
    let _ = write!(
        page,
        "<h2>Latency during the upgrade</h2><p>By half seconds. The upgrade took from {:.1} s to {:.1} s.</p>{}",
        began / 1e3,
        ended / 1e3,
        latency(entries, &report.upgrade.changes, span)
    );
    let _ = write!(page, "<h2>Latency by percentile</h2>{}", around(entries, began));
    let _ = write!(page, "<h2>Version of each node</h2>{}", versions(&report.upgrade.changes, span));
    if let Some(impact) = evidence.impact {
        pools(&mut page, impact);
    }
    trust::trust(&mut page, report);
    loads(&mut page, report);
    failures::failures(&mut page, report);
    deaths(&mut page, report);
    let phases: Vec<String> =
        report.upgrade.phases.iter().map(|(phase, seconds)| format!("{phase} {seconds:.1} s")).collect();
    let _ = write!(page, "<h2>Phases</h2><p>{}</p>", escaped(&phases.join(", ")));
    plan::plan(&mut page, report, spec);
    page.push_str("</body></html>\n");
    page
}

fn tags(page: &mut String, report: &GateReport) {
    for tag in &report.tags {
        let word = tag.verdict.word();
        let _ = write!(
            page,
            "<h2><span class=\"{word}\">{word}</span>: {}</h2><table class=\"checks\">",
            tag.tag.word()
        );
        for check in &tag.checks {
            let word = check.verdict.word();
            let _ = write!(
                page,
                "<tr><td class=\"word {word}\">{word}</td><td>{}</td><td>{}</td></tr>",
                escaped(&check.check),
                escaped(&check.found)
            );
        }
        page.push_str("</table>");
    }
    for tag in &report.not_decided {
        let _ = write!(page, "<h2>not decided: {}</h2><p>{}.</p>", tag.word(), report.why_not_decided());
    }
}

/// Both pools, on one scale: over time where one of them was upgraded, and by percentile.
fn pools(page: &mut String, impact: &Impact) {
    let (stretch, names) = match (&impact.upgraded, impact.alternates) {
        (None, _) => (&impact.idle, ["idle pool", "idle twin"]),
        (Some(up), true) => (&up.stretch, ["upgraded pool", "the same pool, not upgraded"]),
        (Some(up), false) => (&up.stretch, ["upgraded pool", "twin"]),
    };
    let [pool, twin] = names;
    if impact.upgraded.is_some() {
        let span = Span { end_ms: stretch.length_ms() };
        let all: Vec<Entry> = stretch.treated.iter().chain(&stretch.twin).cloned().collect();
        let scale = chart::scale(&all, span);
        for (name, seen) in [
            (pool, (stretch.treated.as_slice(), stretch.changes.as_slice())),
            (twin, (stretch.twin.as_slice(), [].as_slice())),
        ] {
            let title = format!("Latency over time: {name}");
            // Writing to a string cannot fail.
            let _ = write!(page, "<h2>{title}</h2>{}", chart::latency_on(scale, &title, seen, span));
        }
    }
    let curves = [Curve::solid(pool, stretch.treated.iter()), Curve::dashed(twin, stretch.twin.iter())];
    let title = format!("Latency by percentile: {pool} and {twin}");
    let _ = write!(page, "<h2>{title}</h2>{}", percentiles(&title, &curves));
}

/// What is counted of each load; from `sent late` to `steal` it is what was seen of the machine.
const OF_LOAD: [&str; 11] = [
    "load",
    "sent",
    "failed",
    "p50 ms",
    "p99 ms",
    "max ms",
    "sent late, p99 ms",
    "cpu pressure %",
    "memory pressure %",
    "steal %",
    "memory MiB",
];

fn loads(page: &mut String, report: &GateReport) {
    page.push_str("<h2>Requests</h2>");
    table::begin(page, &OF_LOAD);
    for (name, load) in report.loads() {
        let percent = |value: Option<f64>| value.map_or("unknown".to_owned(), |value| format!("{value:.1}"));
        let ms = |value: f64| format!("{value:.1}");
        let Load { sent, failed, p50_ms, p99_ms, max_ms, host, memory, .. } = load;
        let cells = [
            escaped(&name),
            sent.to_string(),
            failed.to_string(),
            ms(*p50_ms),
            ms(*p99_ms),
            ms(*max_ms),
            ms(host.lag_p99_ms),
            percent(host.mean.cpu_pressure),
            percent(host.mean.memory_pressure),
            percent(host.mean.steal),
            of_versions(memory),
        ];
        page.push_str("<tr>");
        table::cells(page, &OF_LOAD, &cells);
        page.push_str("</tr>");
    }
    page.push_str("</table>");
}

/// The memory of the instances of each version, before and after the load: of each the one that has most then.
fn of_versions(memory: &[Memory]) -> String {
    let mut most = BTreeMap::<u32, &Memory>::new();
    for one in memory {
        let known = most.entry(one.version).or_insert(one);
        if one.after > known.after {
            *known = one;
        }
    }
    let mebibytes = |kibibytes: u64| kibibytes as f64 / 1024.0;
    let cell = |(version, one): (&u32, &&Memory)| match one.before.min(one.after) {
        0 => format!("version {version}: unknown"),
        _ => format!("version {version}: {:.0} to {:.0}", mebibytes(one.before), mebibytes(one.after)),
    };
    match most.is_empty() {
        true => "not measured".to_owned(),
        false => most.iter().map(cell).collect::<Vec<_>>().join("<br>"),
    }
}

fn deaths(page: &mut String, report: &GateReport) {
    if report.deaths.is_empty() {
        return;
    }
    page.push_str("<h2>Processes that ended without having been asked to</h2>");
    for Died { part, death } in &report.deaths {
        let (words, log) = (escaped(&death.words()), lines(&death.log));
        let _ = write!(page, "<p>{}: {words}; its last lines:</p><pre>{log}</pre>", escaped(part));
    }
}
