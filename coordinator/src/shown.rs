//! How long the store takes to show what a leader writes, and so how old the leader's view is.

use std::collections::VecDeque;
use std::time::Duration;
use tidegate_planner::ViewAge;
use tidegate_proto::Revision;
use tokio::time::Instant;

/// How many writes are remembered: those of many turns.
const MOST: usize = 256;

/// The last writes of a leadership.
#[derive(Debug, Default)]
pub(crate) struct Shown(VecDeque<Wrote>);

#[derive(Debug, Clone, Copy)]
struct Wrote {
    revision: Revision,
    sent: Instant,
    /// How long after that a view showed it.
    after: Option<Duration>,
}

impl Shown {
    /// A write that was sent then has this revision.
    pub(crate) fn wrote(&mut self, revision: Revision, sent: Instant) {
        // The outcome of a write without an answer is read back, where another one of the same content may be found.
        if let Some(same) = self.0.iter_mut().find(|wrote| wrote.revision == revision) {
            same.sent = same.sent.min(sent);
            return;
        }
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(Wrote { revision, sent, after: None });
    }

    /// How old a view of this revision is. Before it shows a write, nothing is known of that.
    pub(crate) fn age(&mut self, view: Revision) -> ViewAge {
        let now = Instant::now();
        let shown = self.0.iter_mut().filter(|wrote| wrote.revision <= view);
        match shown.max_by_key(|wrote| wrote.sent) {
            Some(last) => {
                let age = now.duration_since(last.sent);
                ViewAge { age_ms: ms(age), shown_after_ms: ms(*last.after.get_or_insert(age)) }
            }
            None => ViewAge { age_ms: u64::MAX, shown_after_ms: 0 },
        }
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn view_is_as_old_as_the_last_write_that_it_shows() {
        let mut shown = Shown::default();
        shown.wrote(Revision(7), Instant::now());
        tokio::time::advance(Duration::from_secs(2)).await;
        shown.wrote(Revision(9), Instant::now());
        let age = |age_ms, shown_after_ms| ViewAge { age_ms, shown_after_ms };
        assert_eq!(shown.age(Revision(6)), age(u64::MAX, 0), "neither is shown");
        tokio::time::advance(Duration::from_millis(100)).await;
        assert_eq!(shown.age(Revision(8)), age(2_100, 2_100), "the first one is");
        assert_eq!(shown.age(Revision(9)), age(100, 100));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(shown.age(Revision(12)), age(1_100, 100), "what others wrote says nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn write_that_was_sent_first_and_shown_last_is_no_step_back() {
        let mut shown = Shown::default();
        let first = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        shown.wrote(Revision(5), Instant::now());
        assert_eq!(shown.age(Revision(5)).age_ms, 0);
        shown.wrote(Revision(6), first);
        assert_eq!(shown.age(Revision(6)).age_ms, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn revision_that_two_writes_claim_is_of_the_first() {
        let mut shown = Shown::default();
        let first = Instant::now();
        tokio::time::advance(Duration::from_secs(4)).await;
        shown.wrote(Revision(5), Instant::now());
        shown.wrote(Revision(5), first);
        assert_eq!(shown.age(Revision(5)).age_ms, 4_000);
    }

    #[tokio::test(start_paused = true)]
    async fn older_view_stays_old_and_forgotten_writes_are_not_shown() {
        let mut shown = Shown::default();
        for revision in 1..=300 {
            tokio::time::advance(Duration::from_millis(10)).await;
            shown.wrote(Revision(revision), Instant::now());
        }
        assert_eq!(shown.age(Revision(300)).age_ms, 0);
        assert_eq!(shown.age(Revision(200)).age_ms, 1_000);
        assert_eq!(shown.age(Revision(44)).age_ms, u64::MAX);
    }
}
