//! Medians and other quantiles of what was measured.

/// The value below which the share `q` (0 to 1) of the samples lies; not a number where there is none.
pub fn quantile(samples: &[f64], q: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1) as f64;
    sorted.get((q * last).round() as usize).copied().unwrap_or(f64::NAN)
}

/// The middle one.
pub fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

#[cfg(test)]
mod tests {
    use super::{median, quantile};

    #[test]
    fn the_middle_and_the_ends() {
        let samples = [5.0, 1.0, 3.0, 2.0, 4.0];
        assert_eq!((median(&samples), quantile(&samples, 0.0), quantile(&samples, 1.0)), (3.0, 1.0, 5.0));
        assert!(median(&[]).is_nan());
    }
}
