//! Rows a second of late, pauses included: the base of the time left.

use std::time::Duration;

/// An average that forgets: each batch weighs by its time against about five seconds.
#[derive(Default)]
pub(super) struct Rate {
    rows: f64,
    seconds: f64,
}

const MEMORY_SECONDS: f64 = 5.0;

impl Rate {
    pub(super) fn observe(&mut self, rows: u64, took: Duration) {
        let keep = (-took.as_secs_f64() / MEMORY_SECONDS).exp();
        self.rows = self.rows * keep + rows as f64;
        self.seconds = self.seconds * keep + took.as_secs_f64();
    }

    pub(super) fn per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.rows / self.seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_follows_a_change_of_pace() {
        let mut rate = Rate::default();
        assert_eq!(rate.per_second(), 0.0);
        (0..100).for_each(|_| rate.observe(100, Duration::from_millis(100)));
        assert!((rate.per_second() - 1000.0).abs() < 1.0);
        (0..300).for_each(|_| rate.observe(10, Duration::from_millis(100)));
        assert!((rate.per_second() - 100.0).abs() < 10.0, "{}", rate.per_second());
    }
}
