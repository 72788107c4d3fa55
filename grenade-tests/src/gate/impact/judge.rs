//! Whether an upgrade was felt. Pure.
//!
//! Two ledgers, of the same load at the same time; only one pool is upgraded. A comparison of before and during raises a false alarm
//! in 15 to 94 % of innocent runs, with any test: time itself changes more than an upgrade does. Blocks of five seconds are
//! compared with the twin's of the same time, which removes what both felt.
//!
//! Four parts, each at a quarter of 5 %: p50 and p99 (paired blocks, against a margin), clusters of outliers (exact binomial
//! against the twin), and outliers locked to the drains (against drains at other times). Three-valued: a pass is earned.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};

use crate::gate::impact::series::Series;
use crate::gate::quantile::quantile;
use crate::gate::verdict::{Check, Word};

/// The family-wise error, shared by the four parts.
pub const ALPHA: f64 = 0.05 / 4.0;
/// With fewer blocks it is inconclusive.
pub const FEWEST_BLOCKS: usize = 12;
/// A block with fewer requests in one of the pools has no p99.
pub const FEWEST_IN_BLOCK: usize = 200;
/// By how much p50 may be slower.
pub const P50: Margin = Margin { at: 0.5, part: 0.05 };
/// By how much p99 may be slower.
pub const P99: Margin = Margin { at: 0.99, part: 0.10 };
/// A shift by less than this, in milliseconds, counts as none. The parts above were found on a service with a p50 of 5 ms,
/// where they are 0.25 ms; of a service that answers in 1 ms, 5 % are what processes on one core cost each other.
const LEAST_MS: f64 = 0.2;
/// Outliers closer than this are one cluster.
const MERGED_MS: f64 = 250.0;
/// An outlier so soon after a drain began may be the drain's: within half of the time from drain to drain, and within these.
const LOCKED_MS: (f64, f64) = (250.0, 1_000.0);
/// With fewer drains it is inconclusive: with 0 in the twin, significance needs at least 7 with an outlier.
pub const FEWEST_DRAINS: usize = 20;
/// How often drains are moved to other times.
const SHUFFLES: usize = 2_000;
/// The power for which the report gives the smallest detectable shift.
const POWER: f64 = 0.9;

/// Judges a pool beside its twin; `drains_ms` are the instants at which instances of the pool left rotation. Who may look so
/// many times, with more requests each time, shares the error among all looks.
pub fn judge(treated: &Series, twin: &Series, drains_ms: &[f64], looks: u32) -> Vec<Check> {
    let (outliers, alpha) = (Outliers::beyond(twin), ALPHA / f64::from(looks));
    vec![
        shift("p50 beside the twin", treated, twin, P50, alpha),
        shift("p99 beside the twin", treated, twin, P99, alpha),
        clusters(&outliers, treated, twin, alpha),
        locked(&outliers, treated, drains_ms, alpha),
    ]
}

/// By how much a quantile may be above the twin's.
#[derive(Debug, Clone, Copy)]
pub struct Margin {
    /// Which quantile.
    pub at: f64,
    part: f64,
}

impl Margin {
    /// As a part of the quantile in this pool.
    pub fn of(self, twin: &Series) -> f64 {
        self.part.max(LEAST_MS / twin.quantile(self.at).max(1e-3))
    }
}

/// By how much a quantile is above the twin's, as logs.
#[derive(Debug, Clone, Copy)]
pub struct Shift {
    /// In how many blocks.
    pub blocks: usize,
    /// The mean of the log ratios of all blocks.
    pub mean: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The smallest that would have been shown with a power of 90 %.
    pub smallest: f64,
}

impl Shift {
    /// Of the quantile `at`, block by block; or why it cannot be calculated.
    ///
    /// # Errors
    /// How many blocks there are, where they are too few.
    pub fn of(treated: &Series, twin: &Series, at: f64, alpha: f64) -> Result<Self, String> {
        let (treated, twin) = (treated.blocks(), twin.blocks());
        let pairs = treated.iter().zip(&twin);
        let whole = pairs.filter(|(a, b)| a.len() >= FEWEST_IN_BLOCK && b.len() >= FEWEST_IN_BLOCK);
        let positive = |sorted: &[f64]| quantile(sorted, at).max(1e-3);
        let ratios: Vec<f64> = whole.map(|(a, b)| (positive(a) / positive(b)).ln()).collect();
        let (n, count) = (ratios.len(), ratios.len() as f64);
        if n < FEWEST_BLOCKS {
            return Err(format!(
                "{n} whole blocks; {FEWEST_BLOCKS} are needed, with {FEWEST_IN_BLOCK} requests of each pool in 5 s"
            ));
        }
        let mean = ratios.iter().sum::<f64>() / count;
        let variance = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let error = (variance / count).sqrt();
        let student = StudentsT::new(0.0, 1.0, count - 1.0).map_err(|error| error.to_string())?;
        let reach = student.inverse_cdf(1.0 - alpha) * error;
        let smallest = reach + student.inverse_cdf(POWER) * error;
        Ok(Self { blocks: n, mean, low: mean - reach, high: mean + reach, smallest })
    }
}

/// A log ratio in percent.
pub fn percent(log: f64) -> f64 {
    (log.exp() - 1.0) * 100.0
}

/// Whether a quantile is above the twin's by more than a margin.
fn shift(check: &str, treated: &Series, twin: &Series, margin: Margin, alpha: f64) -> Check {
    let shift = match Shift::of(treated, twin, margin.at, alpha) {
        Ok(shift) => shift,
        Err(why) => return Check::new(check, Word::Inconclusive, why),
    };
    let (margin, is_least) = (margin.of(twin), margin.of(twin) > margin.part);
    let found = format!(
        "{:+.1} % [{:+.1}, {:+.1}] in {} blocks, {:.0} %{} is allowed; the smallest detectable shift is {:.1} %",
        percent(shift.mean),
        percent(shift.low),
        percent(shift.high),
        shift.blocks,
        margin * 100.0,
        if is_least { format!(" ({LEAST_MS} ms)") } else { String::new() },
        percent(shift.smallest)
    );
    let word = match (1.0 + margin).ln() {
        allowed if shift.high < allowed => Word::Pass,
        allowed if shift.low > allowed => Word::Fail,
        _ => Word::Inconclusive,
    };
    Check::new(check, word, found)
}

/// What counts as an outlier: by the twin's own.
#[derive(Debug)]
struct Outliers {
    /// Its p99.9, and twice it.
    limits: [f64; 2],
}

impl Outliers {
    fn beyond(twin: &Series) -> Self {
        let limit = twin.quantile(0.999);
        Self { limits: [limit, 2.0 * limit] }
    }

    /// The instants of the outliers, in order.
    fn instants(series: &Series, limit: f64) -> Vec<f64> {
        let beyond = series.points().iter().filter(|point| point.latency_ms > limit);
        beyond.map(|point| point.at_ms).collect()
    }

    /// The same, one for each cluster.
    fn clusters(series: &Series, limit: f64) -> Vec<f64> {
        let mut at = Self::instants(series, limit);
        let mut last = f64::NEG_INFINITY;
        at.retain(|at| {
            let begins = at - last > MERGED_MS;
            last = *at;
            begins
        });
        at
    }
}

/// Whether the pool has more clusters of outliers than its twin.
fn clusters(outliers: &Outliers, treated: &Series, twin: &Series, alpha: f64) -> Check {
    let check = "clusters of outliers beside the twin";
    let mut found = Vec::new();
    let mut word = Word::Pass;
    for limit in outliers.limits {
        let count = |series| Outliers::clusters(series, limit).len() as u64;
        let (own, twins) = (count(treated), count(twin));
        // As many or more in the pool, if each were as likely in either.
        let chance = match (own, Binomial::new(0.5, own + twins)) {
            (0, _) | (_, Err(_)) => 1.0,
            (own, Ok(binomial)) => binomial.sf(own - 1),
        };
        if chance < alpha / outliers.limits.len() as f64 {
            word = Word::Fail;
        }
        found.push(format!("beyond {limit:.1} ms: {own}, in the twin {twins} (p = {chance:.3})"));
    }
    Check::new(check, word, found.join("; "))
}

/// Whether outliers follow drains more often than they follow other instants of the same minutes.
fn locked(outliers: &Outliers, treated: &Series, drains_ms: &[f64], alpha: f64) -> Check {
    let check = "outliers after a drain beside those after other instants";
    let mut drains = drains_ms.to_vec();
    drains.sort_by(f64::total_cmp);
    if drains.len() < FEWEST_DRAINS {
        let found = format!("{} drains; {FEWEST_DRAINS} are needed", drains.len());
        return Check::new(check, Word::Inconclusive, found);
    }
    let at = Outliers::instants(treated, outliers.limits[0]);
    let mut gaps: Vec<f64> = drains.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_by(f64::total_cmp);
    let soon = (quantile(&gaps, 0.5) / 2.0).clamp(LOCKED_MS.0, LOCKED_MS.1);
    let followed = |instants: &mut dyn Iterator<Item = f64>| {
        instants
            .filter(|from| at.get(at.partition_point(|at| at < from)).is_some_and(|at| at - from <= soon))
            .count()
    };
    let seen = followed(&mut drains.iter().copied());
    // Each drain is moved within its own interval: a shift of all by the same would keep their rhythm.
    let mut dice = StdRng::seed_from_u64(1);
    let mut as_many = 0;
    for _ in 0..SHUFFLES {
        let mut moved = (0..drains.len()).map(|n| {
            let before = if n == 0 { drains[0] - (drains[1] - drains[0]) } else { drains[n - 1] };
            let after = drains.get(n + 1).copied().unwrap_or(2.0 * drains[n] - before);
            dice.random_range((drains[n] + before) / 2.0..=(drains[n] + after) / 2.0)
        });
        as_many += usize::from(followed(&mut moved) >= seen);
    }
    let chance = (as_many + 1) as f64 / (SHUFFLES + 1) as f64;
    let found = format!(
        "{seen} of {} drains are followed by an outlier within {soon:.0} ms (p = {chance:.3})",
        drains.len()
    );
    Check::new(check, if chance < alpha { Word::Fail } else { Word::Pass }, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::impact::series::Point;
    use crate::gate::impact::simulated::Machine;

    fn drains(seconds: f64) -> Vec<f64> {
        (1..).map(|n| f64::from(n) * 4_700.0).take_while(|at| *at < seconds * 1e3 - 1_000.0).collect()
    }

    /// How often of so many runs each word was said.
    fn said(runs: u64, felt: &dyn Fn(f64, f64) -> f64) -> [u64; 3] {
        let mut words = [0; 3];
        for seed in 0..runs {
            let (treated, twin) = Machine::new(seed).pools(120.0, felt);
            let checks = judge(&treated, &twin, &drains(120.0), 1);
            let worst = checks.iter().map(|check| check.verdict).max().unwrap();
            words[worst as usize] += 1;
        }
        words
    }

    #[test]
    fn idle_pair_passes_and_what_is_felt_fails() {
        const RUNS: u64 = 20;
        let [pass, _, fail] = said(RUNS, &|_, latency| latency);
        assert!(fail <= 1 && pass >= RUNS * 9 / 10, "idle pairs: {pass} pass, {fail} fail of {RUNS}");
        let [pass, _, fail] = said(RUNS, &|_, latency| latency * 1.2);
        assert!(pass == 0 && fail >= RUNS * 9 / 10, "20 % slower: {pass} pass, {fail} fail of {RUNS}");
        let [pass, _, fail] = said(RUNS, &|_, latency| if latency > 9.0 { latency * 1.3 } else { latency });
        assert!(pass == 0 && fail >= RUNS * 9 / 10, "a slower tail: {pass} pass, {fail} fail of {RUNS}");
        // A tenth of the requests waits 100 ms, for 300 ms after each drain began.
        let stalls = |at: f64, latency: f64| {
            let since = at % 4_700.0;
            let is_hit = at > 4_700.0 && since < 300.0 && ((at / 5.0) as u64).is_multiple_of(10);
            if is_hit { latency + 100.0 } else { latency }
        };
        let [pass, _, fail] = said(RUNS, &stalls);
        assert!(pass == 0 && fail >= RUNS * 9 / 10, "stalls: {pass} pass, {fail} fail of {RUNS}");
    }

    #[test]
    fn shift_below_the_least_is_none_in_a_fast_service() {
        // Of 5 ms, 1 ms is made.
        let fast = |series: &Series| series.map(|_, point| point.latency_ms / 5.0);
        for (more_ms, word) in [(0.1, Word::Pass), (0.4, Word::Fail)] {
            let (treated, twin) = Machine::new(7).pools(120.0, &|_, latency| latency);
            let treated = fast(&treated).map(|_, point| point.latency_ms + more_ms);
            let p50 = judge(&treated, &fast(&twin), &drains(120.0), 1).remove(0);
            assert_eq!(p50.verdict, word, "{more_ms} ms: {p50:?}");
            assert!(p50.found.contains("(0.2 ms) is allowed"), "{p50:?}");
        }
    }

    #[test]
    fn too_little_is_inconclusive() {
        let (treated, twin) = Machine::new(1).pools(30.0, &|_, latency| latency);
        let checks = judge(&treated, &twin, &drains(30.0), 1);
        for (n, part) in [(0, "6 whole blocks; 12 are needed"), (3, "6 drains; 20 are needed")] {
            assert_eq!(checks[n].verdict, Word::Inconclusive, "{checks:#?}");
            assert!(checks[n].found.contains(part), "{checks:#?}");
        }
    }

    #[test]
    fn outliers_that_are_close_are_one_cluster() {
        let point = |at_ms: f64| Point { at_ms, latency_ms: if at_ms < 1_000.0 { 50.0 } else { 1.0 } };
        let series = Series::from([0.0, 100.0, 300.0, 900.0, 2_000.0].map(point).to_vec());
        assert_eq!(Outliers::clusters(&series, 10.0), [0.0, 900.0]);
    }
}
