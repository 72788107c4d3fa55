//! Quantiles of what was measured.

/// Of sorted values; of none, 0.
pub fn quantile(sorted: &[f64], at: f64) -> f64 {
    let place = ((sorted.len() as f64 * at).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(place).copied().unwrap_or_default()
}
