//! Latencies over time: what of a ledger the judge looks at.

use crate::gate::quantile::quantile;
use crate::load::entry::Entry;

/// The length of a block.
pub const BLOCK_MS: f64 = 5_000.0;

/// A good answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// When its request was due, in milliseconds since the start.
    pub at_ms: f64,
    /// How long it took from then on, in milliseconds.
    pub latency_ms: f64,
}

/// Good answers, in the order in which their requests were due.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series(Vec<Point>);

impl Series {
    /// Of a ledger.
    pub fn of(entries: &[Entry]) -> Self {
        let point = |entry: &Entry| Point { at_ms: entry.scheduled_ms, latency_ms: entry.latency_ms() };
        Self::from(entries.iter().filter(|entry| entry.is_ok()).map(point).collect::<Vec<_>>())
    }

    /// Every answer.
    pub fn points(&self) -> &[Point] {
        &self.0
    }

    /// When the last request was due.
    pub fn length_ms(&self) -> f64 {
        self.0.last().map_or(0.0, |point| point.at_ms)
    }

    /// Sorted latencies by block.
    pub fn blocks(&self) -> Vec<Vec<f64>> {
        let mut blocks: Vec<Vec<f64>> = Vec::new();
        for point in &self.0 {
            let block = (point.at_ms / BLOCK_MS) as usize;
            if blocks.len() <= block {
                blocks.resize(block + 1, Vec::new());
            }
            blocks[block].push(point.latency_ms);
        }
        blocks.iter_mut().for_each(|block| block.sort_by(f64::total_cmp));
        blocks
    }

    /// All latencies, sorted.
    pub fn sorted(&self) -> Vec<f64> {
        let mut sorted: Vec<f64> = self.0.iter().map(|point| point.latency_ms).collect();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// The latency that this part of the answers does not exceed.
    pub fn quantile(&self, at: f64) -> f64 {
        quantile(&self.sorted(), at)
    }

    /// The same, with each latency changed.
    pub fn map(&self, mut change: impl FnMut(usize, &Point) -> f64) -> Self {
        let changed = |(n, point): (usize, &Point)| Point { latency_ms: change(n, point), ..*point };
        Self(self.0.iter().enumerate().map(changed).collect())
    }
}

impl From<Vec<Point>> for Series {
    fn from(mut points: Vec<Point>) -> Self {
        points.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
        Self(points)
    }
}
