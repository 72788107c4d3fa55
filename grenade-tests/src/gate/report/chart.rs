//! Charts as SVG: latency over time with the drains marked, and the version of each node. Distinguished by form and
//! text, not by colour alone.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::gate::quantile::quantile;
use crate::gate::report::junit::escaped;
use crate::gate::watch::Change;
use crate::load::entry::Entry;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;

/// Milliseconds on the horizontal axis.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Where it ends; it begins at 0.
    pub end_ms: f64,
}

impl Span {
    fn x(self, at_ms: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (at_ms / self.end_ms.max(1.0)).clamp(0.0, 1.0)
    }

    fn axis(self, svg: &mut String, y: f64) {
        let step = [1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0, 600.0];
        let step = step.into_iter().find(|step| self.end_ms / 1e3 / step <= 12.0).unwrap_or(1_800.0);
        let mut at = 0.0;
        while at * 1e3 <= self.end_ms {
            let x = self.x(at * 1e3);
            // Writing to a string cannot fail.
            let _ = write!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y}\" class=\"axis\" text-anchor=\"middle\">{at:.0} s</text>"
            );
            at += step;
        }
    }
}

/// Milliseconds on the vertical axis, by powers of ten: a stall and the usual answer are both to be seen.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    lowest: f64,
    highest: f64,
    top: f64,
    bottom: f64,
}

impl Scale {
    fn over(values: impl Iterator<Item = f64>, top: f64, bottom: f64) -> Self {
        let (lowest, highest) =
            values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let lowest = if lowest.is_finite() { 10_f64.powf(lowest.max(0.01).log10().floor()) } else { 1.0 };
        Self { lowest, highest: highest.max(lowest * 10.0), top, bottom }
    }

    fn y(self, ms: f64) -> f64 {
        let part = (ms.max(self.lowest) / self.lowest).log10() / (self.highest / self.lowest).log10();
        self.bottom - (self.bottom - self.top) * part
    }

    fn grid(self, svg: &mut String) {
        let mut tick = self.lowest;
        while tick <= self.highest * 1.01 {
            for at in [1.0, 2.0, 5.0] {
                let ms = tick * at;
                if ms > self.highest * 1.01 {
                    break;
                }
                // Writing to a string cannot fail.
                let _ = write!(
                    svg,
                    "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{1:.1}\" y2=\"{1:.1}\" class=\"grid\"/><text x=\"{2}\" \
                     y=\"{3:.1}\" class=\"axis\" text-anchor=\"end\">{ms} ms</text>",
                    WIDTH - RIGHT,
                    self.y(ms),
                    LEFT - 6.0,
                    self.y(ms) + 4.0
                );
            }
            tick *= 10.0;
        }
    }
}

/// Latency by quantile, before the upgrade and from its start on: a percentile curve of each.
pub fn percentiles(entries: &[Entry], began_ms: f64) -> String {
    const HEIGHT: f64 = 240.0;
    const BOTTOM: f64 = 200.0;
    const QUANTILES: [(f64, &str); 7] = [
        (0.1, "10 %"),
        (0.25, "25 %"),
        (0.5, "50 %"),
        (0.75, "75 %"),
        (0.9, "90 %"),
        (0.99, "99 %"),
        (0.999, "99.9 %"),
    ];
    let good = entries.iter().filter(|entry| entry.is_ok());
    let (before, since): (Vec<&Entry>, Vec<&Entry>) = good.partition(|entry| entry.done_ms < began_ms);
    let sorted = |entries: &[&Entry]| {
        let mut latencies: Vec<f64> = entries.iter().map(|entry| entry.latency_ms()).collect();
        latencies.sort_by(f64::total_cmp);
        latencies
    };
    let curves = [("before", sorted(&before), "p99"), ("since", sorted(&since), "p50")];
    let at = QUANTILES.map(|(quantile, _)| quantile);
    let values = curves.iter().filter(|(_, latencies, _)| !latencies.is_empty());
    let scale = Scale::over(
        values.clone().flat_map(|(_, sorted, _)| at.map(|at| quantile(sorted, at))),
        20.0,
        BOTTOM,
    );
    let x = |n: usize| LEFT + 30.0 + (WIDTH - LEFT - RIGHT - 60.0) * n as f64 / (QUANTILES.len() - 1) as f64;
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Latency by percentile\">");
    scale.grid(&mut svg);
    for (_, sorted, class) in values {
        let points: Vec<String> = at
            .iter()
            .enumerate()
            .map(|(n, at)| format!("{:.1},{:.1}", x(n), scale.y(quantile(sorted, *at))))
            .collect();
        let _ = write!(svg, "<polyline points=\"{}\" class=\"{class}\"/>", points.join(" "));
    }
    for (n, (_, name)) in QUANTILES.iter().enumerate() {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"220\" class=\"axis\" text-anchor=\"middle\">{name}</text>",
            x(n)
        );
    }
    svg.push_str("</svg>");
    svg
}

const HEIGHT: f64 = 260.0;
const BOTTOM: f64 = 220.0;
const BIN_MS: f64 = 500.0;

/// Latency by half seconds: a band from p50 to p99, failures as crosses, and the times when an instance was out of rotation
/// as bars below.
pub fn latency(entries: &[Entry], changes: &[Change], span: Span) -> String {
    latency_on(scale(entries, span), entries, changes, span)
}

/// The scale on which all of these are to be seen.
pub fn scale(entries: &[Entry], span: Span) -> Scale {
    let bins = bins(entries, span);
    let all = bins.iter().filter(|bin| !bin.is_empty());
    Scale::over(all.flat_map(|bin| [quantile(bin, 0.5), quantile(bin, 0.99)]), 20.0, BOTTOM)
}

/// Sorted latencies of the good answers, by half seconds.
fn bins(entries: &[Entry], span: Span) -> Vec<Vec<f64>> {
    let bins = (span.end_ms / BIN_MS).ceil().max(1.0) as usize;
    let mut latencies: Vec<Vec<f64>> = vec![Vec::new(); bins];
    for entry in entries.iter().filter(|entry| entry.is_ok()) {
        let bin = ((entry.scheduled_ms / BIN_MS) as usize).min(bins - 1);
        latencies[bin].push(entry.latency_ms());
    }
    latencies.iter_mut().for_each(|bin| bin.sort_by(f64::total_cmp));
    latencies
}

/// The same, on a scale that others share.
pub fn latency_on(scale: Scale, entries: &[Entry], changes: &[Change], span: Span) -> String {
    let latencies = bins(entries, span);
    let y = |ms: f64| scale.y(ms);
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Latency over time\">");
    for out in outages(changes, span.end_ms) {
        let (from, to) = (span.x(out.from_ms), span.x(out.to_ms));
        let _ = write!(
            svg,
            "<rect x=\"{from:.1}\" y=\"20\" width=\"{:.1}\" height=\"{}\" class=\"drain\"><title>{} out of rotation, \
             {:.1} s to {:.1} s</title></rect>",
            (to - from).max(1.0),
            BOTTOM - 20.0,
            escaped(&out.node),
            out.from_ms / 1e3,
            out.to_ms / 1e3
        );
    }
    scale.grid(&mut svg);
    for (name, at) in [("p50", 0.5), ("p99", 0.99)] {
        let points: Vec<String> = latencies
            .iter()
            .enumerate()
            .filter(|(_, bin)| !bin.is_empty())
            .map(|(n, bin)| format!("{:.1},{:.1}", span.x((n as f64 + 0.5) * BIN_MS), y(quantile(bin, at))))
            .collect();
        let _ = write!(svg, "<polyline points=\"{}\" class=\"{name}\"/>", points.join(" "));
    }
    for entry in entries.iter().filter(|entry| entry.is_failed()).take(2_000) {
        let x = span.x(entry.scheduled_ms);
        let _ = write!(
            svg,
            "<path d=\"M{:.1} 24 l8 8 m0 -8 l-8 8\" class=\"failed\"><title>{}</title></path>",
            x - 4.0,
            escaped(&crate::gate::verdict::words(entry))
        );
    }
    span.axis(&mut svg, 240.0);
    svg.push_str("</svg>");
    svg
}

/// A time out of rotation.
struct Outage {
    node: String,
    from_ms: f64,
    to_ms: f64,
}

fn outages(changes: &[Change], end_ms: f64) -> Vec<Outage> {
    let mut out = Vec::new();
    for node in nodes(changes) {
        let mut since = None;
        for change in changes.iter().filter(|change| change.node == node) {
            match (change.in_rotation, since) {
                (false, None) => since = Some(change.at_ms),
                (true, Some(from_ms)) => {
                    out.push(Outage { node: node.to_owned(), from_ms, to_ms: change.at_ms });
                    since = None;
                }
                _ => {}
            }
        }
        if let Some(from_ms) = since {
            out.push(Outage { node: node.to_owned(), from_ms, to_ms: end_ms });
        }
    }
    out
}

fn nodes(changes: &[Change]) -> Vec<&str> {
    let mut nodes: Vec<&str> = changes.iter().map(|change| change.node.as_str()).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// The version of each node over time; hatched while it is out of rotation.
pub fn versions(changes: &[Change], span: Span) -> String {
    const ROW: f64 = 26.0;
    let nodes = nodes(changes);
    let known: BTreeSet<u32> = changes.iter().filter_map(|change| change.version).collect();
    let height = ROW * nodes.len() as f64 + 30.0;
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Version of each node\">");
    for (n, node) in nodes.iter().enumerate() {
        let y = ROW * n as f64 + 4.0;
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{}\" class=\"axis\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            y + 14.0,
            escaped(node)
        );
        let own: Vec<&Change> = changes.iter().filter(|change| change.node == *node).collect();
        for (at, change) in own.iter().enumerate() {
            let until = own.get(at + 1).map_or(span.end_ms, |next| next.at_ms);
            let (from, to) = (span.x(change.at_ms), span.x(until));
            let (class, label) = match change.version {
                Some(version) => (format!("v{}", known.range(..version).count() % 2), version.to_string()),
                None => ("none".to_owned(), String::new()),
            };
            let rotation = if change.in_rotation { "" } else { " out" };
            let _ = write!(
                svg,
                "<rect x=\"{from:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"20\" class=\"{class}{rotation}\"><title>version \
                 {label}{rotation}</title></rect>",
                (to - from).max(0.5)
            );
            if to - from > 14.0 {
                let _ = write!(
                    svg,
                    "<text x=\"{:.1}\" y=\"{}\" class=\"label\">{label}</text>",
                    from + 4.0,
                    y + 14.0
                );
            }
        }
    }
    span.axis(&mut svg, height - 8.0);
    svg.push_str("</svg>");
    svg
}
