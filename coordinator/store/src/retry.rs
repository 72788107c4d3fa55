//! When to try again: the only user of `backoff`. It gives the schedule; the jitter is ours and so is the sleeping,
//! so that paused time holds. Never decides whether a call may be repeated: who calls knows.

use backoff::{Clock, backoff::Backoff, exponential::ExponentialBackoff};
use std::time::{Duration, Instant};

/// The clock of the runtime, which a test can pause.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RuntimeClock;

impl Clock for RuntimeClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

/// A schedule of waits, each about twice the last.
#[derive(Debug)]
pub(crate) struct Retry(ExponentialBackoff<RuntimeClock>);

impl Retry {
    /// For a call that a caller waits for: first after 50 ms, and not beyond `patience` in all.
    pub(crate) fn within(patience: Duration) -> Self {
        Self::new(Duration::from_millis(50), Duration::from_secs(1), Some(patience))
    }

    /// For what must come back whenever the store does: first after 50 ms, then up to every `longest`, for ever.
    pub(crate) fn forever(longest: Duration) -> Self {
        Self::new(Duration::from_millis(50), longest, None)
    }

    fn new(first: Duration, longest: Duration, patience: Option<Duration>) -> Self {
        Self(ExponentialBackoff {
            current_interval: first.min(longest),
            initial_interval: first.min(longest),
            // The crate's own jitter comes from an older rand and cannot be left to us.
            randomization_factor: 0.0,
            multiplier: 2.0,
            max_interval: longest,
            max_elapsed_time: patience,
            start_time: RuntimeClock.now(),
            clock: RuntimeClock,
        })
    }

    /// Restarts the backoff, after something has succeeded.
    pub(crate) fn reset(&mut self) {
        self.0.reset();
    }

    /// How long to wait before the next try; none where patience has ended.
    pub(crate) fn next(&mut self) -> Option<Duration> {
        // Between half of the interval and the whole: many clients that lost the store at once return spread out.
        self.0.next_backoff().map(|wait| wait.mul_f64(rand::random_range(0.5..=1.0)))
    }

    /// Waits before the next try; false where patience has ended.
    pub(crate) async fn wait(&mut self) -> bool {
        match self.next() {
            Some(wait) => {
                tokio::time::sleep(wait).await;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_longest_and_reset() {
        let mut retry = Retry::forever(Duration::from_secs(2));
        let waits: Vec<_> = (0..12).filter_map(|_| retry.next()).collect();
        assert!(waits[0] <= Duration::from_millis(50), "the first wait is {:?}", waits[0]);
        assert!(waits[11] >= Duration::from_secs(1) && waits[11] <= Duration::from_secs(2), "{waits:?}");
        retry.reset();
        assert!(retry.next().unwrap() <= Duration::from_millis(50));
    }

    #[tokio::test]
    async fn patience_ends_by_the_clock_of_the_runtime() {
        let mut retry = Retry::within(Duration::from_millis(300));
        let begun = tokio::time::Instant::now();
        let mut waits = 0;
        while retry.wait().await {
            waits += 1;
        }
        assert!(waits >= 2 && begun.elapsed() >= Duration::from_millis(75), "waited {:?}", begun.elapsed());
    }
}
