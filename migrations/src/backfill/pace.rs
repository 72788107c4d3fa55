//! How big the next batch is, and how long to rest before it: by what the last ones cost.

use crate::database::Dialect;
use std::collections::VecDeque;
use std::time::Duration;

/// Bounds of a batch, in rows: below, commits cost more than rows; above, a surprise is too big.
const FLOOR: f64 = 100.0;
const CEILING: f64 = 50_000.0;

/// A batch grows slowly and shrinks at once.
const GROWTH: f64 = 1.5;
const SHOCK: f64 = 5.0;
const SHOCK_SHRINK: f64 = 4.0;

/// How many batches are remembered; the middle one of them counts. The slow tenth counted before: a few commits that
/// waited for the disk then made all batches small, and commits cost as much as a third of the rows.
const REMEMBERED: usize = 10;

/// The longest rest, in batches.
const MAX_REST: f64 = 4.0;

/// SQLite has one writer, who asks again after growing naps instead of queueing: a batch must be
/// over before the naps grow, and the pause after it long enough to be found (measured: batches
/// back to back hold a writer's p99 at 104 ms; with a pause of 2 ms it is 1.3 ms).
const SQLITE_TARGET: Duration = Duration::from_millis(5);
const SQLITE_PAUSE: Duration = Duration::from_millis(2);

/// How long a batch takes on PostgreSQL while others write: a write that waits for a row of the batch, or for its commit,
/// waits no longer than both take. On its own a fill has longer ones, because commits cost.
const SHARED_TARGET: Duration = Duration::from_millis(15);

/// Batch size by a target for a batch's time; rest by additive decrease, multiplicative increase.
pub(super) struct Pace {
    rows: f64,
    configured: Duration,
    target: Duration,
    pause: Duration,
    /// Seconds a row, of the last batches.
    costs: VecDeque<f64>,
    /// Rest, in multiples of the batch before it.
    rest: f64,
    least_rest: f64,
}

impl Pace {
    pub(super) fn new(dialect: Dialect, batch_ms: u32) -> Self {
        let configured = Duration::from_millis(batch_ms.into());
        let (target, pause, least_rest) = match dialect {
            Dialect::Postgres => (configured, Duration::ZERO, 0.0),
            Dialect::Sqlite => (configured.min(SQLITE_TARGET), SQLITE_PAUSE, 1.0),
        };
        Pace {
            rows: FLOOR,
            configured: target,
            target,
            pause,
            costs: VecDeque::new(),
            rest: least_rest,
            least_rest,
        }
    }

    /// Rows of the next batch.
    pub(super) fn rows(&self) -> u32 {
        self.rows.round() as u32
    }

    /// Whether others write meanwhile.
    pub(super) fn share(&mut self, shared: bool) {
        self.target = if shared { self.configured.min(SHARED_TARGET) } else { self.configured };
    }

    /// Takes a batch into account.
    pub(super) fn observe(&mut self, rows: u64, took: Duration) {
        let (took, target) = (took.as_secs_f64(), self.target.as_secs_f64());
        if rows == 0 {
            return;
        }
        self.costs.push_back(took / rows as f64);
        if self.costs.len() > REMEMBERED {
            self.costs.pop_front();
        }
        if took > SHOCK * target {
            self.rows = (self.rows / SHOCK_SHRINK).max(FLOOR);
        } else {
            let wanted = target / self.middle_cost();
            self.rows = wanted.min(self.rows * GROWTH).clamp(FLOOR, CEILING);
        }
        // PostgreSQL's writers need no pause to get between batches: resting there gained nothing (measured).
        if took > 2.0 * target && self.least_rest > 0.0 {
            self.rest = (2.0 * self.rest.max(0.25)).min(MAX_REST);
        } else {
            self.rest = (self.rest - 0.1).max(self.least_rest);
        }
    }

    /// A batch that could not get its rows: smaller and rarer.
    pub(super) fn refused(&mut self) {
        self.rows = (self.rows / 2.0).max(FLOOR);
        self.rest = (2.0 * self.rest.max(0.25)).min(MAX_REST);
    }

    /// How long to rest after a batch.
    pub(super) fn rest(&self, took: Duration) -> Duration {
        // A batch that hung must not be followed by a rest of minutes: at least one batch a second.
        took.mul_f64(self.rest).min(Duration::from_secs(1)).max(self.pause)
    }

    fn middle_cost(&self) -> f64 {
        let mut sorted: Vec<f64> = self.costs.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::INFINITY).max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pace: &mut Pace, batches: u32, per_row: f64) {
        for _ in 0..batches {
            let rows = u64::from(pace.rows());
            pace.observe(rows, Duration::from_secs_f64(per_row * rows as f64));
        }
    }

    #[test]
    fn pace_finds_the_size_that_takes_the_time() {
        let mut pace = Pace::new(Dialect::Postgres, 40);
        run(&mut pace, 30, 5e-6);
        assert_eq!(pace.rows(), 8000);
        assert_eq!(pace.rest(Duration::from_millis(40)), Duration::ZERO);
    }

    #[test]
    fn beside_others_batches_are_short_and_long_again_after_them() {
        let mut pace = Pace::new(Dialect::Postgres, 40);
        pace.share(true);
        run(&mut pace, 30, 5e-6);
        assert_eq!(pace.rows(), 3000);
        pace.share(false);
        run(&mut pace, 30, 5e-6);
        assert_eq!(pace.rows(), 8000);
    }

    #[test]
    fn growth_is_bounded_and_a_shock_shrinks_at_once() {
        let mut pace = Pace::new(Dialect::Postgres, 40);
        run(&mut pace, 1, 1e-9);
        assert_eq!(pace.rows(), 150);
        run(&mut pace, 100, 1e-9);
        assert_eq!(pace.rows(), 50_000);
        pace.observe(50_000, Duration::from_secs(1));
        assert_eq!(pace.rows(), 12_500);
        assert_eq!(pace.rest(Duration::from_secs(60)), Duration::ZERO);
        let mut sqlite = Pace::new(Dialect::Sqlite, 40);
        sqlite.observe(100, Duration::from_secs(1));
        assert_eq!(sqlite.rest(Duration::from_secs(60)), Duration::from_secs(1));
    }

    #[test]
    fn one_slow_batch_in_five_does_not_shrink_the_others() {
        let mut pace = Pace::new(Dialect::Postgres, 40);
        for batch in 0..50 {
            let slow = if batch % 5 == 0 { 3.0 } else { 1.0 };
            run(&mut pace, 1, 5e-6 * slow);
        }
        assert_eq!((pace.rows(), pace.rest(Duration::from_millis(100))), (8000, Duration::ZERO));
    }

    #[test]
    fn on_sqlite_a_writer_always_finds_a_pause() {
        let mut pace = Pace::new(Dialect::Sqlite, 40);
        run(&mut pace, 50, 1e-5);
        assert_eq!(pace.rows(), 500);
        assert_eq!(pace.rest(Duration::from_millis(5)), Duration::from_millis(5));
        assert_eq!(pace.rest(Duration::ZERO), Duration::from_millis(2));
    }

    #[test]
    fn being_refused_makes_it_modest_and_success_makes_it_recover() {
        let mut pace = Pace::new(Dialect::Postgres, 40);
        run(&mut pace, 30, 5e-6);
        pace.refused();
        assert_eq!(pace.rows(), 4000);
        assert!(pace.rest(Duration::from_millis(40)) > Duration::ZERO);
        run(&mut pace, 30, 5e-6);
        assert_eq!((pace.rows(), pace.rest(Duration::from_millis(40))), (8000, Duration::ZERO));
    }
}
