//! Whether the twin, which is not upgraded, became slower while its neighbour was upgraded: two pools on one machine share
//! the damage, and a comparison of both at the same time does not see what both felt.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::gate::impact::judge::{ALPHA, FEWEST_BLOCKS, FEWEST_IN_BLOCK, Margin, P50, P99, percent};
use crate::gate::impact::series::Series;
use crate::gate::quantile::quantile;
use crate::gate::verdict::{Check, Word};

/// Compares the twin's blocks with its own before anything was upgraded. Never fails: it can only be inconclusive.
pub fn moved(before: &Series, during: &Series) -> Check {
    let parts = [part("p50", P50, before, during), part("p99", P99, before, during)];
    let found = parts.iter().map(|(_, found)| found.as_str()).collect::<Vec<_>>().join("; ");
    let stands = parts.iter().all(|(stands, _)| *stands);
    let word = if stands { Word::Pass } else { Word::Inconclusive };
    Check::new("the twin is as fast as before the upgrade", word, found)
}

/// By Welch's interval of the mean logs of a quantile, which need not have the same variance before and after. It has moved
/// if the whole interval is beyond the margin.
fn part(name: &str, margin: Margin, before: &Series, during: &Series) -> (bool, String) {
    let allowed = (1.0 + margin.of(before)).ln();
    let logs = |series: &Series| -> Vec<f64> {
        let whole = series.blocks().into_iter().filter(|block| block.len() >= FEWEST_IN_BLOCK);
        whole.map(|block| quantile(&block, margin.at).max(1e-3).ln()).collect()
    };
    let (before, during) = (logs(before), logs(during));
    if before.len().min(during.len()) < FEWEST_BLOCKS {
        return (false, format!("{name}: {} and {} whole blocks", before.len(), during.len()));
    }
    let (a, b) = (Mean::of(&before), Mean::of(&during));
    let error = (a.square + b.square).sqrt();
    let freedom = (a.square + b.square).powi(2)
        / (a.square.powi(2) / (a.n - 1.0) + b.square.powi(2) / (b.n - 1.0)).max(f64::MIN_POSITIVE);
    let Ok(student) = StudentsT::new(0.0, 1.0, freedom.max(1.0)) else {
        return (false, format!("{name}: no distribution for so few blocks"));
    };
    let (shift, reach) = (b.mean - a.mean, student.inverse_cdf(1.0 - ALPHA) * error);
    let found = format!(
        "{name} {:+.1} % [{:+.1}, {:+.1}]",
        percent(shift),
        percent(shift - reach),
        percent(shift + reach)
    );
    (shift - reach <= allowed, found)
}

/// A mean, with the square of its standard error.
struct Mean {
    n: f64,
    mean: f64,
    square: f64,
}

impl Mean {
    fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Self { n, mean, square: variance / n }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::impact::simulated::Machine;

    #[test]
    fn only_a_twin_that_became_slower_is_found() {
        let mut alike = 0;
        for seed in 0..20 {
            let (before, _) = Machine::new(seed).pools(60.0, &|_, latency| latency);
            let (during, _) = Machine::new(seed + 100).pools(60.0, &|_, latency| latency);
            alike += u32::from(moved(&before, &during).verdict == Word::Pass);
            let (slower, _) = Machine::new(seed + 100).pools(60.0, &|_, latency| latency * 2.0);
            assert_eq!(moved(&before, &slower).verdict, Word::Inconclusive, "seed {seed}");
        }
        assert!(alike >= 18, "{alike} of 20");
    }

    #[test]
    fn twin_with_too_few_blocks_is_inconclusive() {
        let (before, during) = Machine::new(1).pools(30.0, &|_, latency| latency);
        let check = moved(&before, &during);
        assert_eq!(check.verdict, Word::Inconclusive);
        assert!(check.found.contains("6 and 6 whole blocks"), "{check:?}");
    }
}
