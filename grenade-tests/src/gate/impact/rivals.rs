//! Other judges, for comparison on the same data: what a build would say that used them.

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Normal};

use crate::gate::impact::series::Series;
use crate::gate::quantile::quantile;

/// The error that a test of requests may make.
const ALPHA: f64 = 0.05;
/// Kayenta: confidence, tolerance in parts of the estimate, and how many interquartile ranges an outlier is away.
const KAYENTA: (f64, f64, f64) = (0.98, 0.25, 3.0);
/// Kayenta compares points of a time series: the p99 of each second.
const POINT_MS: f64 = 1_000.0;

/// A judge of two series; says whether the second is slower.
pub type Rival = fn(&Series, &Series) -> bool;

/// Each by its name.
pub const RIVALS: [(&str, Rival); 4] = [
    ("Mann-Whitney of all requests", mann_whitney),
    ("Kolmogorov-Smirnov of all requests", kolmogorov_smirnov),
    ("requests beyond mean + 3 standard deviations", three_sigma),
    ("Kayenta's judge of the p99 of each second", kayenta),
];

fn normal() -> Normal {
    Normal::standard()
}

/// The sum of the ranks of `second` among all, less what it would be if both were alike, in standard deviations. Ties share
/// their rank.
fn rank_score(first: &[f64], second: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> =
        first.iter().map(|x| (*x, false)).chain(second.iter().map(|x| (*x, true))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut sum, mut at) = (0.0, 0);
    while at < all.len() {
        let tied = all[at..].iter().take_while(|(x, _)| *x == all[at].0).count();
        let rank = at as f64 + (tied as f64 + 1.0) / 2.0;
        sum += rank * all[at..at + tied].iter().filter(|(_, of_second)| *of_second).count() as f64;
        at += tied;
    }
    let (n, m) = (first.len() as f64, second.len() as f64);
    let u = sum - m * (m + 1.0) / 2.0;
    (u - n * m / 2.0) / (n * m * (n + m + 1.0) / 12.0).sqrt()
}

fn mann_whitney(before: &Series, during: &Series) -> bool {
    let score = rank_score(&before.sorted(), &during.sorted());
    2.0 * normal().sf(score.abs()) < ALPHA
}

/// The largest distance of both distributions, against its limit for many values.
fn kolmogorov_smirnov(before: &Series, during: &Series) -> bool {
    let (a, b) = (before.sorted(), during.sorted());
    let (n, m) = (a.len() as f64, b.len() as f64);
    let (mut i, mut j, mut distance) = (0, 0, 0.0_f64);
    while i < a.len() && j < b.len() {
        let at = a[i].min(b[j]);
        i += a[i..].iter().take_while(|x| **x <= at).count();
        j += b[j..].iter().take_while(|x| **x <= at).count();
        distance = distance.max((i as f64 / n - j as f64 / m).abs());
    }
    distance > (-(ALPHA / 2.0).ln() / 2.0 * (n + m) / (n * m)).sqrt()
}

/// Whether more of the second than of the first are beyond the first's mean and three standard deviations.
fn three_sigma(before: &Series, during: &Series) -> bool {
    let (a, b) = (before.sorted(), during.sorted());
    let mean = a.iter().sum::<f64>() / a.len() as f64;
    let deviation = (a.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / a.len() as f64).sqrt();
    let beyond = |all: &[f64]| all.len() - all.partition_point(|x| *x <= mean + 3.0 * deviation);
    let (own, others) = (beyond(&b) as u64, beyond(&a) as u64);
    let part = b.len() as f64 / (a.len() + b.len()) as f64;
    own > 0 && Binomial::new(part, own + others).is_ok_and(|binomial| binomial.sf(own - 1) < ALPHA)
}

/// By its public description: outliers are dropped, Mann-Whitney at 98 %, and the interval of the Hodges-Lehmann shift must
/// be beyond a quarter of the shift itself.
fn kayenta(before: &Series, during: &Series) -> bool {
    let (confidence, tolerance, reach) = KAYENTA;
    let (a, b) = (without_outliers(points(before), reach), without_outliers(points(during), reach));
    let mut shifts: Vec<f64> = b.iter().flat_map(|y| a.iter().map(move |x| y - x)).collect();
    shifts.sort_by(f64::total_cmp);
    let (n, m) = (a.len() as f64, b.len() as f64);
    let z = normal().inverse_cdf(1.0 - (1.0 - confidence) / 2.0);
    let from = (n * m / 2.0 - z * (n * m * (n + m + 1.0) / 12.0).sqrt()).floor().max(0.0) as usize;
    let (Some(low), estimate) = (shifts.get(from), quantile(&shifts, 0.5)) else { return false };
    *low > tolerance * estimate.abs()
}

/// The p99 of each second.
fn points(series: &Series) -> Vec<f64> {
    let mut seconds: Vec<Vec<f64>> = Vec::new();
    for point in series.points() {
        let second = (point.at_ms / POINT_MS) as usize;
        if seconds.len() <= second {
            seconds.resize(second + 1, Vec::new());
        }
        seconds[second].push(point.latency_ms);
    }
    seconds.iter_mut().for_each(|second| second.sort_by(f64::total_cmp));
    seconds.iter().filter(|second| !second.is_empty()).map(|second| quantile(second, 0.99)).collect()
}

fn without_outliers(mut values: Vec<f64>, reach: f64) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (quantile(&values, 0.25), quantile(&values, 0.75));
    let range = (high - low) * reach;
    values.retain(|value| (low - range..=high + range).contains(value));
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::impact::inject;
    use crate::gate::impact::simulated::Machine;

    #[test]
    fn ranks_are_those_of_the_book() {
        // U of the second is 9 of 9 pairs: z = (9 - 4.5) / sqrt(3 * 3 * 7 / 12).
        assert!((rank_score(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]) - 4.5 / 5.25_f64.sqrt()).abs() < 1e-9);
        // All are tied: no effect is shown.
        assert!(rank_score(&[1.0, 1.0], &[1.0, 1.0]).abs() < 1e-9);
    }

    #[test]
    fn all_judges_see_twice_as_slow_and_none_the_same() {
        let (series, _) = Machine::new(1).pools(60.0, &|_, latency| latency);
        for (name, rival) in RIVALS {
            assert!(rival(&series, &inject::slowed(&series, 2.0)), "{name} is blind");
            assert!(!rival(&series, &series), "{name} sees what is not there");
        }
    }

    #[test]
    fn judge_that_drops_outliers_misses_stalls() {
        let (series, _) = Machine::new(1).pools(60.0, &|_, latency| latency);
        let one_in_ten_seconds = [5.2, 15.2, 25.2, 35.2, 45.2, 55.2].map(|seconds| seconds * 1e3);
        let stalled = inject::stalled(&series, &one_in_ten_seconds, 100.0);
        assert!(!kayenta(&series, &stalled));
        assert!(three_sigma(&series, &stalled));
    }
}
