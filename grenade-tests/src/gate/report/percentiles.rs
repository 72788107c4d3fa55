//! Percentile curves as SVG: latency by the part of the answers that took no longer, several loads on one scale.

use std::fmt::Write;

use crate::gate::quantile::quantile;
use crate::gate::report::chart::{Key, LEFT, RIGHT, Scale, TOP, WIDTH, figure};
use crate::gate::report::junit::escaped;
use crate::load::entry::Entry;

const HEIGHT: f64 = 240.0;
const BOTTOM: f64 = 200.0;

/// The parts of the answers.
const QUANTILES: [(f64, &str); 7] = [
    (0.1, "10 %"),
    (0.25, "25 %"),
    (0.5, "50 %"),
    (0.75, "75 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
];

/// A curve.
#[derive(Debug)]
pub(super) struct Curve<'a> {
    name: &'a str,
    /// How its line is drawn.
    class: &'static str,
    /// Sorted, in milliseconds.
    latencies: Vec<f64>,
}

impl<'a> Curve<'a> {
    /// A solid line.
    pub(super) fn solid<'e>(name: &'a str, entries: impl Iterator<Item = &'e Entry>) -> Self {
        Self::of(name, "p50", entries)
    }

    /// A dashed line.
    pub(super) fn dashed<'e>(name: &'a str, entries: impl Iterator<Item = &'e Entry>) -> Self {
        Self::of(name, "p99", entries)
    }

    fn of<'e>(name: &'a str, class: &'static str, entries: impl Iterator<Item = &'e Entry>) -> Self {
        let mut latencies: Vec<f64> = entries.filter(|entry| entry.is_ok()).map(Entry::latency_ms).collect();
        latencies.sort_by(f64::total_cmp);
        Self { name, class, latencies }
    }

    fn points(&self) -> impl Iterator<Item = f64> + '_ {
        QUANTILES.iter().map(|(at, _)| quantile(&self.latencies, *at))
    }
}

/// Before an upgrade, and from its start on.
pub(super) fn around(entries: &[Entry], began_ms: f64) -> String {
    let is_before = |entry: &&Entry| entry.done_ms < began_ms;
    percentiles(
        "Latency by percentile",
        &[
            Curve::solid("since the upgrade began", entries.iter().filter(|entry| !is_before(entry))),
            Curve::dashed("before the upgrade", entries.iter().filter(is_before)),
        ],
    )
}

/// Each load that has good answers.
pub(super) fn percentiles(title: &str, curves: &[Curve<'_>]) -> String {
    let curves: Vec<&Curve<'_>> = curves.iter().filter(|curve| !curve.latencies.is_empty()).collect();
    let scale = Scale::over(curves.iter().flat_map(|curve| curve.points()), TOP, BOTTOM);
    let x = |n: usize| LEFT + 30.0 + (WIDTH - LEFT - RIGHT - 60.0) * n as f64 / (QUANTILES.len() - 1) as f64;
    let mut svg =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">", escaped(title));
    scale.grid(&mut svg);
    for curve in &curves {
        let points = curve.points().enumerate();
        let points: Vec<String> = points.map(|(n, ms)| format!("{:.1},{:.1}", x(n), scale.y(ms))).collect();
        // Writing to a string cannot fail.
        let _ = write!(
            svg,
            "<polyline points=\"{}\" class=\"{}\"><title>{}</title></polyline>",
            points.join(" "),
            curve.class,
            escaped(curve.name)
        );
    }
    for (n, (_, name)) in QUANTILES.iter().enumerate() {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"225\" class=\"axis\" text-anchor=\"middle\">{name}</text>",
            x(n)
        );
    }
    svg.push_str("</svg>");
    let keys: Vec<(Key, &str)> = curves.iter().map(|curve| (Key::Line(curve.class), curve.name)).collect();
    figure(&keys, &svg)
}
