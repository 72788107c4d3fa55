//! How long the store takes to show what a leader writes, and so how old the leader's view is.

use std::collections::VecDeque;
use std::time::Duration;
use tidegate_planner::ViewAge;
use tidegate_proto::Revision;
use tokio::time::Instant;

/// The writes of a leadership that its view did not show yet, and the last one that it showed.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// Each with when it was sent.
    unseen: VecDeque<(Revision, Instant)>,
    last: Option<Last>,
}

#[derive(Debug, Clone, Copy)]
struct Last {
    sent: Instant,
    /// How long after that it was seen.
    after: Duration,
}

impl Shown {
    /// A write that was sent then has this revision.
    pub(crate) fn wrote(&mut self, revision: Revision, sent: Instant) {
        self.unseen.push_back((revision, sent));
    }

    /// How old a view of this revision is. Before it shows a write, nothing is known of that.
    pub(crate) fn age(&mut self, view: Revision) -> ViewAge {
        let now = Instant::now();
        let seen = self.unseen.iter().filter(|(revision, _)| *revision <= view).map(|(_, sent)| *sent).max();
        if let Some(sent) = seen.filter(|sent| self.last.is_none_or(|last| last.sent < *sent)) {
            self.last = Some(Last { sent, after: now.duration_since(sent) });
        }
        self.unseen.retain(|(revision, _)| *revision > view);
        match self.last {
            Some(Last { sent, after }) => {
                ViewAge { age_ms: ms(now.duration_since(sent)), shown_after_ms: ms(after) }
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
}
