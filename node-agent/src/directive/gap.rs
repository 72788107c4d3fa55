//! A break of the answers 200 of a health URL.

use std::time::Duration;
use tokio::time::Instant;

/// The last time during which the health URL did not answer 200.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    pub since: Instant,
    pub until: Option<Instant>,
    /// Whether it was seen to answer 200 before.
    pub after_good: bool,
}

impl Gap {
    pub(super) fn lasts(self, now: Instant) -> Duration {
        self.until.unwrap_or(now).saturating_duration_since(self.since)
    }

    /// What an answer other than 200 makes of it: one that comes after less time than this lasted belongs to it.
    pub(super) fn again(self, now: Instant) -> Option<Self> {
        let good = self.until.map_or(Duration::ZERO, |until| now.saturating_duration_since(until));
        (good < self.lasts(now)).then_some(Self { until: None, ..self })
    }
}
