//! For how long a condition has held without a break. A single short dip is no break.

use std::time::Duration;
use tokio::time::Instant;

/// A dip that is seen for less than this is no break.
pub(crate) const DIP: Duration = Duration::from_millis(500);

/// A dip that follows another one within this time is a break however short it is: a version that flaps is not steady.
pub(crate) const DIPS_APART: Duration = Duration::from_secs(10);

/// How long something has been good without a break.
#[derive(Debug, Clone, Default)]
pub(crate) struct Steady {
    since: Option<Instant>,
    dip: Option<Instant>,
    last_dip: Option<Instant>,
    /// When the last look ended.
    looked_at: Option<Instant>,
}

impl Steady {
    /// Takes in what was seen at `now`.
    pub(crate) fn take_in(&mut self, good: bool, now: Instant) {
        match (good, self.dip) {
            (true, Some(dip)) => {
                let flaps = self.last_dip.is_some_and(|last| dip.duration_since(last) < DIPS_APART);
                if flaps || now.duration_since(dip) >= DIP {
                    self.since = None;
                }
                (self.dip, self.last_dip) = (None, Some(now));
            }
            (false, Some(dip)) if now.duration_since(dip) >= DIP => self.forget(),
            (false, None) if self.since.is_some() => self.dip = Some(now),
            _ => {}
        }
        if good {
            self.since.get_or_insert(now);
        }
    }

    /// A look begins. Where something else, such as a slow store or disk, kept the agent from looking for longer than a dip
    /// lasts, and than two of its pauses of `pause`, it begins from nothing: a break may not have been seen. Returns whether it
    /// was good until then.
    pub(crate) fn begins_look(&mut self, now: Instant, pause: Duration) -> bool {
        let was_good = self.lasts(now).is_some();
        let begins_again = self.away(now) > DIP.max(pause * 2);
        if begins_again {
            self.forget();
        }
        begins_again && was_good
    }

    /// How long ago the last look ended.
    pub(crate) fn away(&self, now: Instant) -> Duration {
        self.looked_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at))
    }

    /// A look has ended.
    pub(crate) fn ends_look(&mut self, now: Instant) {
        self.looked_at = Some(now);
    }

    /// It begins from nothing.
    pub(crate) fn forget(&mut self) {
        (self.since, self.dip) = (None, None);
    }

    /// For how long; none where it is not good now.
    pub(crate) fn lasts(&self, now: Instant) -> Option<Duration> {
        self.since.filter(|_| self.dip.is_none()).map(|since| now.saturating_duration_since(since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For how many milliseconds it is steady after these looks, one each 100 ms.
    fn after(looks: &[bool]) -> Option<u128> {
        let (mut steady, mut now) = (Steady::default(), Instant::now());
        for good in looks {
            now += Duration::from_millis(100);
            steady.take_in(*good, now);
        }
        steady.lasts(now).map(|time| time.as_millis())
    }

    #[test]
    fn short_dip_is_no_break_and_a_longer_one_is() {
        let good = [true; 10];
        assert_eq!(after(&good), Some(900));
        assert_eq!(after(&[&good[..], &[false; 4], &good].concat()), Some(2300), "0.4 s");
        assert_eq!(after(&[&good[..], &[false; 5], &good].concat()), Some(900), "0.5 s");
        assert_eq!(after(&[&good[..], &[false; 50], &good].concat()), Some(900));
        assert_eq!(after(&[&good[..], &[false]].concat()), None, "it is not good now");
    }

    #[test]
    fn time_in_which_a_break_may_be_missed_is_not_counted() {
        let after_a_pause = |away: u64, pause: u64| {
            let (mut steady, begun) = (Steady::default(), Instant::now());
            steady.take_in(true, begun);
            steady.ends_look(begun);
            let now = begun + Duration::from_millis(away);
            let was_good = steady.begins_look(now, Duration::from_millis(pause));
            assert_eq!(was_good, steady.lasts(now).is_none(), "what was good is said where it is forgotten");
            assert!(!steady.begins_look(now, Duration::from_millis(pause)), "that is said once");
            steady.take_in(true, now);
            steady.lasts(now).map(|time| time.as_millis())
        };
        assert_eq!(after_a_pause(500, 100), Some(500));
        assert_eq!(after_a_pause(501, 100), Some(0), "a break may have come and gone");
        assert_eq!(after_a_pause(1_000, 500), Some(1_000), "it looks as often as it is configured to");
        assert_eq!(after_a_pause(1_001, 500), Some(0));
    }

    #[test]
    fn second_short_dip_soon_after_the_first_is_a_break() {
        let (good, dip) = ([true; 10], [false; 2]);
        assert_eq!(after(&[&good[..], &dip, &good, &dip, &good].concat()), Some(900));
        let long = [true; 110];
        assert_eq!(after(&[&good[..], &dip, &long, &dip, &good].concat()), Some(13_300));
    }
}
