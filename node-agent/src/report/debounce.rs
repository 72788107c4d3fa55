//! Health that changes only after several equal answers, so that one lost packet writes no key.

use std::time::Duration;
use tidegate_proto::record::report::Health;
use tokio::time::Instant;

/// The health as it is reported.
#[derive(Debug, Clone)]
pub(crate) struct Debounce {
    needed: u32,
    /// Between two answers of an instance that serves which count as two. Looks follow each other faster while something moves,
    /// and one short failure would give each of them the same answer.
    spacing: Duration,
    health: Health,
    against: u32,
    counted_at: Option<Instant>,
}

impl Debounce {
    /// Not yet probed; `needed` equal answers change what was known before.
    pub(crate) fn new(needed: u32, spacing: Duration) -> Self {
        Self { needed, spacing, health: Health::Unknown, against: 0, counted_at: None }
    }

    /// What is known so far: an answer that says nothing changes nothing.
    pub(crate) fn known(&self) -> Health {
        self.health
    }

    /// No answer was asked for in a while, as on a machine that was stopped: what changed before that may have ended meanwhile.
    pub(crate) fn begins_again(&mut self) {
        (self.against, self.counted_at) = (0, None);
    }

    /// Takes an answer in. The first one counts at once, unless it is bad, the instance was verified before (`serves`), and
    /// more than one is needed: its agent was started again, and does not know the good answers before it.
    pub(crate) fn take_in(&mut self, ready: bool, serves: bool, now: Instant) -> Health {
        let answer = if ready { Health::Healthy } else { Health::Unhealthy };
        let is_too_soon = serves && self.counted_at.is_some_and(|at| now < at + self.spacing);
        if answer == self.health {
            (self.against, self.counted_at) = (0, None);
        } else if !is_too_soon {
            (self.against, self.counted_at) = (self.against + 1, Some(now));
        }
        let counts_at_once = self.health == Health::Unknown && (ready || !serves);
        if counts_at_once || self.against >= self.needed {
            self.health = answer;
            (self.against, self.counted_at) = (0, None);
        }
        self.health
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// What is reported after each of these answers, which come so long after each other.
    fn seen<const N: usize>(answers: [bool; N], serves: bool, each: Duration) -> [Health; N] {
        let (mut health, mut now) = (Debounce::new(2, SECOND / 2), Instant::now());
        answers.map(|ready| {
            now += each;
            health.take_in(ready, serves, now)
        })
    }

    #[test]
    fn one_bad_answer_changes_nothing() {
        let answers = [true, false, true, false, false, true, true];
        use Health::{Healthy as H, Unhealthy as U};
        assert_eq!(seen(answers, true, SECOND), [H, H, H, H, U, U, H]);
    }

    #[test]
    fn first_bad_answer_of_what_serves_is_no_judgement() {
        use Health::{Healthy, Unhealthy, Unknown};
        assert_eq!(seen([false, true], true, SECOND), [Unknown, Healthy]);
        assert_eq!(seen([false, false], true, SECOND), [Unknown, Unhealthy]);
        assert_eq!(seen([false, false], false, SECOND), [Unhealthy, Unhealthy], "it was not verified before");
    }

    #[test]
    fn first_bad_answer_is_enough_where_one_is_needed() {
        let now = Instant::now();
        for serves in [true, false] {
            let mut health = Debounce::new(1, SECOND / 2);
            assert_eq!(health.take_in(false, serves, now), Health::Unhealthy, "serves: {serves}");
            assert_eq!(health.take_in(true, serves, now), Health::Healthy, "serves: {serves}");
        }
    }

    #[test]
    fn answers_before_and_after_a_stop_are_not_counted_together() {
        let (mut health, mut now) = (Debounce::new(2, SECOND / 2), Instant::now());
        for (is_stopped, ready, expected) in [
            (false, true, Health::Healthy),
            (false, false, Health::Healthy),
            (true, false, Health::Healthy),
            (false, false, Health::Unhealthy),
            (true, false, Health::Unhealthy),
            (false, true, Health::Unhealthy),
            (true, true, Health::Unhealthy),
            (false, true, Health::Healthy),
        ] {
            now += SECOND;
            if is_stopped {
                health.begins_again();
            }
            assert_eq!(
                health.take_in(ready, true, now),
                expected,
                "stopped before: {is_stopped}, ready: {ready}"
            );
        }
    }

    #[test]
    fn quick_looks_at_one_failure_of_what_serves_count_once() {
        use Health::{Healthy, Unhealthy, Unknown};
        let tenth = SECOND / 10;
        assert_eq!(seen([false, false, true], true, tenth), [Unknown, Unknown, Healthy]);
        assert_eq!(seen([true, false, false, false], true, tenth), [Healthy; 4]);
        assert_eq!(seen([false; 5], true, tenth)[4], Unknown);
        assert_eq!(seen([false; 6], true, tenth)[5], Unhealthy, "it has failed for half a second");
        assert_eq!(seen([true, false, false], false, tenth), [Healthy, Healthy, Unhealthy], "it is verified");
    }
}
