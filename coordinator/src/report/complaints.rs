//! Log lines about bad keys, limited in rate: a client that may write keys must not be able to fill the log.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// The most lines within [`WINDOW`].
const MOST: u32 = 20;

/// For how long lines are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// How many were logged in the present window.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    began: Option<Instant>,
    logged: u32,
    kept_back: u64,
}

impl Complaints {
    /// Logs that a key is bad, unless too many were logged within the last minute.
    pub(super) fn log(&mut self, key: &dyn Display, why: &dyn Display, what: &'static str) {
        let may = self.may_log(Instant::now());
        if let Some(kept_back) = may.1 {
            tracing::warn!(kept_back, "more keys were bad; at most {MOST} are named within {WINDOW:?}");
        }
        if may.0 {
            tracing::warn!(%key, %why, "{what}");
        }
    }

    /// Whether one more may be logged, and how many were suppressed in the window that has ended.
    fn may_log(&mut self, now: Instant) -> (bool, Option<u64>) {
        let mut kept_back = None;
        if self.began.is_none_or(|began| now.duration_since(began) >= WINDOW) {
            kept_back = Some(std::mem::take(&mut self.kept_back)).filter(|n| *n > 0);
            (self.began, self.logged) = (Some(now), 0);
        }
        let may = self.logged < MOST;
        if may {
            self.logged += 1
        } else {
            self.kept_back += 1
        }
        (may, kept_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_lines_a_minute_and_the_number_of_the_others() {
        let (mut complaints, began) = (Complaints::default(), Instant::now());
        let logged = (0..500).filter(|_| complaints.may_log(began).0).count();
        assert_eq!(logged, 20);
        assert_eq!(complaints.may_log(began + WINDOW), (true, Some(480)));
        assert_eq!(complaints.may_log(began + WINDOW), (true, None));
    }
}
