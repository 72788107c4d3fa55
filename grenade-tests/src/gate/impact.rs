//! Whether an upgrade was felt: the judge of zero-impact. Pure.
//!
//! Two pools, the same load at the same time; only one is upgraded. A comparison of before and during raises a false alarm
//! in 15 to 94 % of innocent runs, with any test: time itself changes more than an upgrade does. Blocks of five seconds are
//! compared with the twin's of the same time, which removes what both felt.
//!
//! Four parts, each at a quarter of 5 %: p50 and p99 (paired blocks, against a margin), clusters of outliers (exact binomial
//! against the twin), and outliers locked to the drains (against drains at other times). Three-valued: a pass is earned.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, StudentsT};

use crate::gate::report::quantile;
use crate::gate::verdict::{Check, Word};
use crate::load::entry::Entry;

/// The family-wise error, shared by the four parts.
const ALPHA: f64 = 0.05 / 4.0;
/// The length of a block.
const BLOCK_MS: f64 = 5_000.0;
/// Fewer blocks tell nothing.
const FEWEST_BLOCKS: usize = 12;
/// A block with fewer requests in one of the pools has no p99.
const FEWEST_IN_BLOCK: usize = 200;
/// By how much p50 may be slower.
const MARGIN_P50: f64 = 0.05;
/// By how much p99 may be slower.
const MARGIN_P99: f64 = 0.10;
/// Outliers closer than this are one cluster.
const MERGED_MS: f64 = 250.0;
/// An outlier so soon after a drain began may be the drain's.
const LOCKED_MS: f64 = 1_000.0;
/// Fewer drains tell nothing: with 0 in the twin, significance needs at least 7 with an outlier.
const FEWEST_DRAINS: usize = 20;
/// How often drains are moved to other times.
const SHUFFLES: usize = 2_000;
/// The power for which the report gives the smallest detectable shift.
const POWER: f64 = 0.9;

/// Judges a pool beside its twin; `drains_ms` are the instants at which instances of the pool left rotation.
pub fn judge(treated: &[Entry], twin: &[Entry], drains_ms: &[f64]) -> Vec<Check> {
    let outliers = Outliers::beyond(twin);
    vec![
        shift("p50 beside the twin", treated, twin, 0.5, MARGIN_P50),
        shift("p99 beside the twin", treated, twin, 0.99, MARGIN_P99),
        clusters(&outliers, treated, twin),
        locked(&outliers, treated, drains_ms),
    ]
}

/// Latencies of the good answers, with their instants.
fn latencies(entries: &[Entry]) -> impl Iterator<Item = (f64, f64)> {
    entries.iter().filter(|entry| entry.is_ok()).map(|entry| (entry.scheduled_ms, entry.latency_ms()))
}

/// Sorted latencies by block.
fn blocks(entries: &[Entry]) -> Vec<Vec<f64>> {
    let mut blocks: Vec<Vec<f64>> = Vec::new();
    for (at, latency) in latencies(entries) {
        let block = (at / BLOCK_MS) as usize;
        if blocks.len() <= block {
            blocks.resize(block + 1, Vec::new());
        }
        blocks[block].push(latency);
    }
    blocks.iter_mut().for_each(|block| block.sort_by(f64::total_cmp));
    blocks
}

/// Mean of the paired log ratios of a quantile, as an interval, against a margin.
fn shift(check: &str, treated: &[Entry], twin: &[Entry], at: f64, margin: f64) -> Check {
    let (treated, twin) = (blocks(treated), blocks(twin));
    let pairs = treated.iter().zip(&twin);
    let whole = pairs.filter(|(a, b)| a.len() >= FEWEST_IN_BLOCK && b.len() >= FEWEST_IN_BLOCK);
    let positive = |sorted: &[f64]| quantile(sorted, at).max(1e-3);
    let ratios: Vec<f64> = whole.map(|(a, b)| (positive(a) / positive(b)).ln()).collect();
    let n = ratios.len();
    if n < FEWEST_BLOCKS {
        let needed =
            format!("{FEWEST_BLOCKS} are needed, with {FEWEST_IN_BLOCK} requests of each pool in 5 s");
        return Check::new(check, Word::Inconclusive, format!("{n} whole blocks; {needed}"));
    }
    let mean = ratios.iter().sum::<f64>() / n as f64;
    let variance = ratios.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    let error = (variance / n as f64).sqrt();
    let Ok(student) = StudentsT::new(0.0, 1.0, (n - 1) as f64) else {
        return Check::new(check, Word::Inconclusive, "no distribution for so few blocks");
    };
    let reach = student.inverse_cdf(1.0 - ALPHA) * error;
    let (low, high) = (mean - reach, mean + reach);
    let percent = |log: f64| (log.exp() - 1.0) * 100.0;
    let smallest = percent((student.inverse_cdf(1.0 - ALPHA) + student.inverse_cdf(POWER)) * error);
    let found = format!(
        "{:+.1} % [{:+.1}, {:+.1}] in {n} blocks, {:.0} % is allowed; the smallest detectable shift is {smallest:.1} %",
        percent(mean),
        percent(low),
        percent(high),
        margin * 100.0
    );
    let word = match (1.0 + margin).ln() {
        allowed if high < allowed => Word::Pass,
        allowed if low > allowed => Word::Fail,
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
    fn beyond(twin: &[Entry]) -> Self {
        let mut sorted: Vec<f64> = latencies(twin).map(|(_, latency)| latency).collect();
        sorted.sort_by(f64::total_cmp);
        let limit = quantile(&sorted, 0.999);
        Self { limits: [limit, 2.0 * limit] }
    }

    /// The instants of the outliers, one for each cluster.
    fn clusters(entries: &[Entry], limit: f64) -> Vec<f64> {
        let mut at: Vec<f64> = latencies(entries).filter(|(_, ms)| *ms > limit).map(|(at, _)| at).collect();
        at.sort_by(f64::total_cmp);
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
fn clusters(outliers: &Outliers, treated: &[Entry], twin: &[Entry]) -> Check {
    let check = "clusters of outliers beside the twin";
    let mut found = Vec::new();
    let mut word = Word::Pass;
    for limit in outliers.limits {
        let count = |entries| Outliers::clusters(entries, limit).len() as u64;
        let (own, twins) = (count(treated), count(twin));
        // As many or more in the pool, if each were as likely in either.
        let chance = match (own, Binomial::new(0.5, own + twins)) {
            (0, _) | (_, Err(_)) => 1.0,
            (own, Ok(binomial)) => binomial.sf(own - 1),
        };
        if chance < ALPHA / outliers.limits.len() as f64 {
            word = Word::Fail;
        }
        found.push(format!("beyond {limit:.1} ms: {own}, in the twin {twins} (p = {chance:.3})"));
    }
    Check::new(check, word, found.join("; "))
}

/// Whether outliers follow drains more often than they follow other instants of the same minutes.
fn locked(outliers: &Outliers, treated: &[Entry], drains_ms: &[f64]) -> Check {
    let check = "outliers after a drain beside those after other instants";
    let mut drains = drains_ms.to_vec();
    drains.sort_by(f64::total_cmp);
    if drains.len() < FEWEST_DRAINS {
        let found = format!("{} drains; {FEWEST_DRAINS} are needed", drains.len());
        return Check::new(check, Word::Inconclusive, found);
    }
    let mut at: Vec<f64> =
        latencies(treated).filter(|(_, ms)| *ms > outliers.limits[0]).map(|(at, _)| at).collect();
    at.sort_by(f64::total_cmp);
    let followed = |instants: &mut dyn Iterator<Item = f64>| {
        instants
            .filter(|from| {
                at.get(at.partition_point(|at| at < from)).is_some_and(|at| at - from <= LOCKED_MS)
            })
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
    let found = format!("{seen} of {} drains are followed by an outlier (p = {chance:.3})", drains.len());
    Check::new(check, if chance < ALPHA { Word::Fail } else { Word::Pass }, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::entry::{Connection, Judged};

    const RATE: f64 = 200.0;

    /// What both pools feel, and what one request feels alone.
    struct Machine {
        dice: StdRng,
        drift: f64,
    }

    impl Machine {
        fn new(seed: u64) -> Self {
            Self { dice: StdRng::seed_from_u64(seed), drift: 0.0 }
        }

        /// Of the standard normal distribution (Box and Muller).
        fn normal(&mut self) -> f64 {
            let (a, b): (f64, f64) = (self.dice.random_range(1e-12..1.0), self.dice.random_range(0.0..1.0));
            (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
        }

        /// Two pools for so long: the load of the machine drifts, and both feel it.
        fn pools(&mut self, seconds: f64, felt: &dyn Fn(f64, f64) -> f64) -> (Vec<Entry>, Vec<Entry>) {
            let count = (seconds * RATE) as u64;
            let (mut treated, mut twin) = (Vec::new(), Vec::new());
            for seq in 0..count {
                let at = seq as f64 * 1e3 / RATE;
                // Of a drift of five seconds.
                self.drift = self.drift * 0.999 + 0.045 * self.normal() * 0.2;
                let one = |machine: &mut Self| 5.0 * (machine.drift + 0.3 * machine.normal()).exp();
                twin.push(entry(seq, at, one(self)));
                let own = one(self);
                treated.push(entry(seq, at, felt(at, own)));
            }
            (treated, twin)
        }
    }

    fn entry(seq: u64, at: f64, latency: f64) -> Entry {
        Entry {
            seq,
            scheduled_ms: at,
            sent_ms: at,
            first_ms: Some(at + latency),
            done_ms: at + latency,
            own_ms: 0.0,
            kind: "read".to_owned(),
            status: Some(200),
            outcome: Judged::Ok,
            node: String::new(),
            version: None,
            written_by: None,
            bytes: 0,
            connection: Connection::Fresh,
            reason: String::new(),
        }
    }

    fn drains(seconds: f64) -> Vec<f64> {
        (1..).map(|n| f64::from(n) * 4_700.0).take_while(|at| *at < seconds * 1e3 - 1_000.0).collect()
    }

    /// How often of so many runs each word was said.
    fn said(runs: u64, felt: &dyn Fn(f64, f64) -> f64) -> [u64; 3] {
        let mut words = [0; 3];
        for seed in 0..runs {
            let (treated, twin) = Machine::new(seed).pools(120.0, felt);
            let checks = judge(&treated, &twin, &drains(120.0));
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
    fn too_little_is_inconclusive() {
        let (treated, twin) = Machine::new(1).pools(30.0, &|_, latency| latency);
        let checks = judge(&treated, &twin, &drains(30.0));
        for (n, part) in [(0, "6 whole blocks; 12 are needed"), (3, "6 drains; 20 are needed")] {
            assert_eq!(checks[n].verdict, Word::Inconclusive, "{checks:#?}");
            assert!(checks[n].found.contains(part), "{checks:#?}");
        }
    }

    #[test]
    fn outliers_that_are_close_are_one_cluster() {
        let entries: Vec<Entry> = [0.0, 100.0, 300.0, 900.0, 2_000.0]
            .map(|at| entry(0, at, if at < 1_000.0 { 50.0 } else { 1.0 }))
            .into();
        assert_eq!(Outliers::clusters(&entries, 10.0), [0.0, 900.0]);
    }
}
