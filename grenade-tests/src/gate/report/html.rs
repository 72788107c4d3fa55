//! The report as one HTML file that needs nothing else: no network, no script.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::gate::impact::stretch::Stretch;
use crate::gate::mixed::Memory;
use crate::gate::report::chart::{self, Span, latency, percentiles, versions};
use crate::gate::report::junit::{escaped, lines};
use crate::gate::report::{Died, GateReport, Load};
use crate::gate::verdict::Evidence;
use crate::load::entry::Entry;

const STYLE: &str = "\
body{font:15px/1.45 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}\
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}\
.verdict{display:inline-block;padding:.15rem .7rem;border:2px solid;border-radius:.3rem;font-weight:700;margin-right:.7rem}\
.pass{color:#14632e}.fail{color:#a11212}.inconclusive{color:#7a5200}\
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #ccc}\
td.n{text-align:right;font-variant-numeric:tabular-nums}svg{width:100%;height:auto}\
.axis{font-size:11px;fill:#444}.label{font-size:12px;fill:#111}.grid{stroke:#ddd}\
.p50{fill:none;stroke:#1f5fa8;stroke-width:2}.p99{fill:none;stroke:#1f5fa8;stroke-width:1.5;stroke-dasharray:5 3}\
.drain{fill:#8883}.failed{stroke:#a11212;stroke-width:2;fill:none}\
.v0{fill:#9dc3e6}.v1{fill:#f3d19c}.none{fill:#eee}.out{fill-opacity:.45;stroke:#555;stroke-dasharray:3 2}\
pre{white-space:pre-wrap;background:#f6f6f6;padding:.6rem;overflow-wrap:anywhere}\
td,th{overflow-wrap:break-word}@media screen and (max-width:50rem){table{display:block;overflow-x:auto}}\
@media print{body{margin:0;max-width:none}h2{break-after:avoid}svg,tr{break-inside:avoid}}";

/// The document.
pub fn html(report: &GateReport, evidence: &Evidence<'_>, spec: &str) -> String {
    let entries = &evidence.upgraded.entries;
    let title = format!("{}: {}", report.gate, report.verdict.word());
    let mut page = format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{}</title><style>{STYLE}</style></head><body>",
        escaped(&title)
    );
    let word = report.verdict.word();
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "<h1><span class=\"verdict {word}\">{}</span>{}</h1><p>{} {}, {:.0} seconds</p>",
        word.to_uppercase(),
        escaped(&report.gate),
        escaped(&report.service),
        report.versions(),
        report.seconds
    );
    tags(&mut page, report);
    let last = entries.iter().map(|entry| entry.done_ms).fold(report.upgrade.span_ms.1, f64::max);
    let span = Span { end_ms: last };
    let (began, ended) = report.upgrade.span_ms;
    let _ = write!(
        page,
        "<h2>Latency during the upgrade</h2><p>The line is p50, the dashed line p99, by half seconds; grey: an instance is \
         out of rotation; a cross: a failed request. The upgrade took from {:.1} s to {:.1} s.</p>{}",
        began / 1e3,
        ended / 1e3,
        latency(entries, &report.upgrade.changes, span)
    );
    let _ = write!(
        page,
        "<h2>Latency by percentile</h2><p>The dashed line is before the upgrade, the line since its start.</p>{}",
        percentiles(entries, began)
    );
    let _ = write!(
        page,
        "<h2>Version of each node</h2><p>Dashed: out of rotation.</p>{}",
        versions(&report.upgrade.changes, span)
    );
    if let Some(up) = evidence.impact.and_then(|impact| impact.upgraded.as_ref()) {
        pools(&mut page, &up.stretch);
    }
    loads(&mut page, report);
    failures(&mut page, report);
    deaths(&mut page, report);
    let phases: Vec<String> =
        report.upgrade.phases.iter().map(|(phase, seconds)| format!("{phase} {seconds:.1} s")).collect();
    let _ = write!(page, "<h2>Phases</h2><p>{}</p>", escaped(&phases.join(", ")));
    let _ = writeln!(page, "<h2>Plan</h2><pre>{}</pre></body></html>", lines(spec));
    page
}

fn tags(page: &mut String, report: &GateReport) {
    for tag in &report.tags {
        let word = tag.verdict.word();
        let _ = write!(page, "<h2><span class=\"{word}\">{word}</span>: {}</h2><table>", tag.tag.word());
        for check in &tag.checks {
            let word = check.verdict.word();
            let _ = write!(
                page,
                "<tr><td class=\"{word}\">{word}</td><td>{}</td><td>{}</td></tr>",
                escaped(&check.check),
                escaped(&check.found)
            );
        }
        page.push_str("</table>");
    }
}

/// Both pools, on one scale.
fn pools(page: &mut String, stretch: &Stretch) {
    let span = Span { end_ms: stretch.length_ms() };
    let all: Vec<Entry> = stretch.treated.iter().chain(&stretch.twin).cloned().collect();
    let scale = chart::scale(&all, span);
    for (title, entries, changes) in [
        ("The pool that was upgraded again and again", &stretch.treated, stretch.changes.as_slice()),
        ("Its twin at the same time", &stretch.twin, &[]),
    ] {
        // Writing to a string cannot fail.
        let _ = write!(page, "<h2>{title}</h2>{}", chart::latency_on(scale, entries, changes, span));
    }
}

fn loads(page: &mut String, report: &GateReport) {
    page.push_str(
        "<h2>Requests</h2><table><tr><th></th><th>sent</th><th>failed</th><th>p50 ms</th><th>p99 ms</th><th>max ms</th>\
         <th>sent late, p99 ms</th><th>cpu pressure %</th><th>steal %</th><th>memory MiB</th></tr>",
    );
    for (name, load) in report.loads() {
        let percent = |value: Option<f64>| value.map_or("unknown".to_owned(), |value| format!("{value:.1}"));
        let Load { sent, failed, p50_ms, p99_ms, max_ms, host, memory, .. } = load;
        let _ = write!(
            page,
            "<tr><td>{name}</td><td class=\"n\">{sent}</td><td class=\"n\">{failed}</td><td class=\"n\">{p50_ms:.1}</td>\
             <td class=\"n\">{p99_ms:.1}</td><td class=\"n\">{max_ms:.1}</td><td class=\"n\">{:.1}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
            host.lag_p99_ms,
            percent(host.mean.cpu_pressure),
            percent(host.mean.steal),
            of_versions(memory)
        );
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

fn failures(page: &mut String, report: &GateReport) {
    let told: Vec<&String> = report.loads().into_iter().flat_map(|(_, load)| &load.first_failures).collect();
    if told.is_empty() {
        return;
    }
    page.push_str("<h2>First failed requests</h2><table>");
    for failure in told {
        let _ = write!(page, "<tr><td>{}</td></tr>", escaped(failure));
    }
    page.push_str("</table>");
}
