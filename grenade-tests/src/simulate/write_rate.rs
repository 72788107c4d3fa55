//! How fast the store is written (rule 0): programs that answer each other's writes without a pause never come to rest, and in
//! simulated time, which stands still while anything runs, nothing else happens any more.

use std::sync::Arc;
use tidegate_proto::Key;
use tokio::sync::Notify;

/// The most revisions of one second. Forty instances that are replaced at once, with all that their agents report meanwhile,
/// take some hundreds.
const MOST: usize = 5_000;

/// How many revisions came within a second.
#[derive(Debug, Default)]
pub(super) struct WriteRate {
    second: u64,
    last: i64,
    revisions: usize,
    is_endless: bool,
    /// Signalled once more came than programs write that pause: nothing that is awaited then comes any more.
    pub endless: Arc<Notify>,
}

impl WriteRate {
    /// This revision was written now, in milliseconds. What is wrong with that, said once.
    pub(super) fn take_in(&mut self, revision: i64, now: u64, key: &Key) -> Option<String> {
        let second = now / 1000;
        if self.second != second {
            (self.second, self.revisions) = (second, 0);
        }
        self.revisions += usize::from(self.last != revision);
        self.last = revision;
        if self.revisions <= MOST || self.is_endless {
            return None;
        }
        self.is_endless = true;
        self.endless.notify_one();
        Some(format!("more than {MOST} revisions came within a second; the last one wrote {key}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: i64 = MOST as i64 + 1;

    fn found(writes: impl Iterator<Item = (i64, u64)>) -> usize {
        let (mut rate, key) = (WriteRate::default(), Key::Window("pantry".parse().unwrap()));
        writes.filter_map(|(revision, now)| rate.take_in(revision, now, &key)).count()
    }

    #[test]
    fn writes_without_a_pause_are_found_once() {
        assert_eq!(found((1..=2 * MANY).map(|revision| (revision, 7_999))), 1);
    }

    #[test]
    fn as_many_over_two_seconds_are_no_fault() {
        let second_of = |revision| if revision > MANY / 2 { 2_000 } else { 1_999 };
        assert_eq!(found((1..=MANY).map(|revision| (revision, second_of(revision)))), 0);
    }

    #[test]
    fn keys_of_one_revision_count_once() {
        assert_eq!(found((1..=MANY).map(|_| (4, 7_000))), 0);
    }
}
