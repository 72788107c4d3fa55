//! Charts as SVG: latency over time with the drains marked, and the version of each node. Distinguished by form and
//! text, not by colour alone.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::gate::quantile::quantile;
use crate::gate::report::junit::escaped;
use crate::gate::watch::Change;
use crate::load::entry::Entry;

/// The units of a chart's width; on a screen or on paper it is as wide as that is.
pub(super) const WIDTH: f64 = 960.0;
/// What is left of the plot, for labels that narrow screens show larger.
pub(super) const LEFT: f64 = 90.0;
/// What is right of it.
pub(super) const RIGHT: f64 = 20.0;
/// What is above it.
pub(super) const TOP: f64 = 20.0;

/// A curve or a mark with its name.
#[derive(Debug, Clone, Copy)]
pub enum Key {
    /// A line.
    Line(&'static str),
    /// A shaded area.
    Area(&'static str),
    /// A cross.
    Cross(&'static str),
}

/// A chart, below the names of what is in it: each with a sample, because a copy may have no colours.
pub fn figure(keys: &[(Key, &str)], svg: &str) -> String {
    let mut figure = "<figure><figcaption>".to_owned();
    for (key, name) in keys {
        let (class, sample) = match key {
            Key::Line(class) => (class, "<line x1=\"1\" x2=\"33\" y1=\"7\" y2=\"7\""),
            Key::Area(class) => (class, "<rect x=\"6\" y=\"0\" width=\"22\" height=\"14\""),
            Key::Cross(class) => (class, "<path d=\"M13 3 l8 8 m0 -8 l-8 8\""),
        };
        // Writing to a string cannot fail.
        let _ = write!(
            figure,
            "<span class=\"key\"><svg class=\"sample\" viewBox=\"0 0 34 14\" aria-hidden=\"true\">{sample} \
             class=\"{class}\"/></svg>{}</span> ",
            escaped(name)
        );
    }
    let _ = write!(figure, "</figcaption>{svg}</figure>");
    figure
}

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
        let (mut at, mut n) = (0.0, 0);
        while at * 1e3 <= self.end_ms {
            let x = self.x(at * 1e3);
            // Writing to a string cannot fail.
            let _ = write!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y}\" class=\"axis{}\" text-anchor=\"middle\">{at:.0} s</text>",
                if n % 2 == 1 { " minor" } else { "" }
            );
            at += step;
            n += 1;
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
    /// From the lowest to the highest of these, between two heights.
    pub(super) fn over(values: impl Iterator<Item = f64>, top: f64, bottom: f64) -> Self {
        let (lowest, highest) =
            values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        let lowest = if lowest.is_finite() { 10_f64.powf(lowest.max(0.01).log10().floor()) } else { 1.0 };
        Self { lowest, highest: highest.max(lowest * 10.0), top, bottom }
    }

    /// The height of a value.
    pub(super) fn y(self, ms: f64) -> f64 {
        let part = (ms.max(self.lowest) / self.lowest).log10() / (self.highest / self.lowest).log10();
        self.bottom - (self.bottom - self.top) * part
    }

    /// Its lines. On a narrow screen only powers of ten have a label.
    pub(super) fn grid(self, svg: &mut String) {
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
                     y=\"{3:.1}\" class=\"axis{4}\" text-anchor=\"end\">{5}</text>",
                    WIDTH - RIGHT,
                    self.y(ms),
                    LEFT - 6.0,
                    self.y(ms) + 4.0,
                    if at > 1.0 { " minor" } else { "" },
                    label(ms)
                );
            }
            tick *= 10.0;
        }
    }
}

/// A latency beside its line, in few characters: the margin of a narrow screen has room for six.
fn label(ms: f64) -> String {
    if ms < 1e3 { format!("{ms} ms") } else { format!("{} s", ms / 1e3) }
}

const HEIGHT: f64 = 260.0;
const BOTTOM: f64 = 220.0;
const BIN_MS: f64 = 500.0;

/// Latency by half seconds: p50 and p99, failures as crosses, and the times when an instance was out of rotation as shades.
pub fn latency(entries: &[Entry], changes: &[Change], span: Span) -> String {
    latency_on(scale(entries, span), "Latency over time", (entries, changes), span)
}

/// The scale on which all of these are to be seen.
pub fn scale(entries: &[Entry], span: Span) -> Scale {
    let bins = bins(entries, span);
    let all = bins.iter().filter(|bin| !bin.is_empty());
    Scale::over(all.flat_map(|bin| [quantile(bin, 0.5), quantile(bin, 0.99)]), TOP, BOTTOM)
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
pub fn latency_on(
    scale: Scale,
    title: &str,
    (entries, changes): (&[Entry], &[Change]),
    span: Span,
) -> String {
    let latencies = bins(entries, span);
    let y = |ms: f64| scale.y(ms);
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", escaped(title));
    for out in outages(changes, span.end_ms) {
        let (from, to) = (span.x(out.from_ms), span.x(out.to_ms));
        let _ = write!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{}\" class=\"drain\"><title>{} out of rotation, \
             {:.1} s to {:.1} s</title></rect>",
            (to - from).max(1.0),
            BOTTOM - TOP,
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
        let points = points.join(" ");
        let _ =
            write!(svg, "<polyline points=\"{points}\" class=\"{name}\"><title>{name}</title></polyline>");
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
    span.axis(&mut svg, 245.0);
    svg.push_str("</svg>");
    let mut keys = vec![(Key::Line("p50"), "p50"), (Key::Line("p99"), "p99")];
    if changes.iter().any(|change| !change.in_rotation) {
        keys.push((Key::Area("drain"), "an instance is out of rotation"));
    }
    if entries.iter().any(|entry| !entry.is_ok()) {
        keys.push((Key::Cross("failed"), "failed request"));
    }
    figure(&keys, &svg)
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
            "<text x=\"{}\" y=\"{}\" class=\"axis node\" text-anchor=\"end\">{}</text>",
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
    span.axis(&mut svg, height - 6.0);
    svg.push_str("</svg>");
    figure(&[(Key::Area("none out"), "dashed: out of rotation; the number is the version")], &svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_of_every_line_up_to_100_s_has_six_characters_at_most() {
        let mut svg = String::new();
        Scale::over([1.0, 100_000.0].into_iter(), 0.0, 100.0).grid(&mut svg);
        let labels: Vec<&str> =
            svg.split("\"end\">").skip(1).map(|rest| &rest[..rest.find('<').unwrap()]).collect();
        assert_eq!(labels[..3], ["1 ms", "2 ms", "5 ms"]);
        assert_eq!(labels[9..12], ["1 s", "2 s", "5 s"]);
        assert_eq!(labels.last(), Some(&"100 s"));
        assert!(labels.iter().all(|label| label.len() <= 6), "{labels:?}");
    }
}
