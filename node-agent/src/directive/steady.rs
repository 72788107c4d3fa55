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
    fn second_short_dip_soon_after_the_first_is_a_break() {
        let (good, dip) = ([true; 10], [false; 2]);
        assert_eq!(after(&[&good[..], &dip, &good, &dip, &good].concat()), Some(900));
        let long = [true; 110];
        assert_eq!(after(&[&good[..], &dip, &long, &dip, &good].concat()), Some(13_300));
    }
}
