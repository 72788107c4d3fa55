//! What is put into the latencies of an idle pool, to see whether the judge finds it.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::gate::impact::judge::FEWEST_DRAINS;
use crate::gate::impact::series::Series;

/// How long a stall goes on.
const STALLS_FOR_MS: f64 = 300.0;
/// One request of so many is hit by it.
const HIT: usize = 10;
/// What is above this quantile is the tail.
const TAIL: f64 = 0.95;

/// Instants of drains that never were: as many as the judge needs, each somewhere in its own part of the time.
pub fn instants(length_ms: f64, seed: u64) -> Vec<f64> {
    let mut dice = StdRng::seed_from_u64(seed);
    let part = length_ms / FEWEST_DRAINS as f64;
    (0..FEWEST_DRAINS).map(|n| part * (n as f64 + dice.random_range(0.25..0.75))).collect()
}

/// Every request takes so many times as long.
pub fn slowed(series: &Series, times: f64) -> Series {
    series.map(|_, point| point.latency_ms * times)
}

/// What is slow anyway takes so many times as long.
pub fn tail_slowed(series: &Series, times: f64) -> Series {
    let limit = series.quantile(TAIL);
    series.map(|_, point| point.latency_ms * if point.latency_ms > limit { times } else { 1.0 })
}

/// A tenth of the requests after each of these instants, which are in order, takes longer by so much.
pub fn stalled(series: &Series, after_ms: &[f64], by_ms: f64) -> Series {
    let is_hit = |at_ms: f64| {
        let since = after_ms[..after_ms.partition_point(|from| *from <= at_ms)].last();
        since.is_some_and(|from| at_ms - from < STALLS_FOR_MS)
    };
    series.map(|n, point| {
        let by = if n.is_multiple_of(HIT) && is_hit(point.at_ms) { by_ms } else { 0.0 };
        point.latency_ms + by
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::impact::series::Point;

    #[test]
    fn slow_down_and_stall_hit_what_they_should() {
        let points: Vec<Point> =
            (0..100).map(|n| Point { at_ms: f64::from(n) * 10.0, latency_ms: 5.0 }).collect();
        let series = Series::from(points);
        assert!(slowed(&series, 1.2).points().iter().all(|point| (point.latency_ms - 6.0).abs() < 1e-9));
        let stalled = stalled(&series, &[200.0], 100.0);
        let hit = stalled.points().iter().filter(|point| point.latency_ms > 50.0);
        assert_eq!(hit.map(|point| point.at_ms as u32).collect::<Vec<_>>(), [200, 300, 400]);
        let uneven = series.map(|n, _| n as f64);
        assert_eq!(tail_slowed(&uneven, 2.0).points()[99].latency_ms as u32, 198);
        assert_eq!(tail_slowed(&uneven, 2.0).points()[90].latency_ms as u32, 90);
    }

    #[test]
    fn instants_are_enough_in_order_and_within_the_time() {
        let at = instants(60_000.0, 1);
        assert_eq!(at.len(), FEWEST_DRAINS);
        assert!(at.is_sorted() && at[0] > 0.0 && at[FEWEST_DRAINS - 1] < 60_000.0, "{at:?}");
    }
}
