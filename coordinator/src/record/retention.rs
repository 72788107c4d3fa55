//! How long events are kept: the newest of each subject, counted. The leader removes older ones now and then, by a task
//! of its own, so that no turn waits for it. No decision reads events.

use crate::leadership::Leadership;
use crate::telemetry::Chain;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tidegate_proto::key::{EventSeq, Kind, Subject};
use tidegate_proto::{Commit, Key};
use tidegate_store::{CommitError, Reader, Scope, StoreError};

/// The most events of one subject that are kept: of 300 bytes or so each, 3 MB. An upgrade of 2,000 instances has fewer.
pub const KEPT: usize = 10_000;

/// A leader that has just begun has better things to do.
const AT_FIRST: Duration = Duration::from_secs(60);

/// Between two looks.
const EVERY: Duration = Duration::from_secs(3600);

/// How many events one transaction removes: as many as directives are written at once.
const AT_ONCE: usize = 60;

/// Why events were not removed; the next look is the retry.
#[derive(Debug, thiserror::Error)]
pub enum NotTrimmed {
    /// Their keys could not be read.
    #[error(transparent)]
    Unread(#[from] StoreError),
    /// They could not be removed.
    #[error(transparent)]
    Uncommitted(#[from] CommitError),
}

/// Looks after the events for a leader, until it is dropped.
pub async fn look_after(store: Reader, leadership: Arc<Leadership>) {
    let mut wait = AT_FIRST;
    loop {
        tokio::time::sleep(wait).await;
        wait = EVERY;
        match trim(&store, &leadership, KEPT).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, kept = KEPT, "old events are removed"),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "old events are not removed; tries again later")
            }
        }
    }
}

/// Removes all events but the newest `kept` of each subject; how many those were.
///
/// # Errors
/// [`NotTrimmed`]; what was removed until then stays removed.
pub async fn trim(store: &Reader, leadership: &Leadership, kept: usize) -> Result<usize, NotTrimmed> {
    let old = beyond(store.keys(&Scope::Kind(Kind::Event)).await?, kept);
    for some in old.chunks(AT_ONCE) {
        let commit = some.iter().cloned().fold(Commit::new(), Commit::delete);
        leadership.commit(&commit).await?;
    }
    Ok(old.len())
}

/// Which of these events are not among the newest `kept` of their subject.
fn beyond(keys: Vec<Key>, kept: usize) -> Vec<Key> {
    let mut subjects: BTreeMap<Subject, Vec<EventSeq>> = BTreeMap::new();
    for key in keys {
        if let Key::Event(subject, seq) = key {
            subjects.entry(subject).or_default().push(seq);
        }
    }
    let old = subjects.into_iter().flat_map(|(subject, mut events)| {
        events.sort_unstable();
        events.truncate(events.len().saturating_sub(kept));
        events.into_iter().map(move |seq| Key::Event(subject.clone(), seq))
    });
    old.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(subject: &Subject, term: i64, number: u64) -> Key {
        Key::Event(subject.clone(), EventSeq { term, number })
    }

    #[test]
    fn newest_events_per_subject_are_kept_across_terms() {
        let upgrade = Subject::Upgrade("u".parse().unwrap());
        let keys = vec![
            event(&upgrade, 9, 0),
            event(&upgrade, 5, 11),
            event(&upgrade, 5, 2),
            event(&Subject::Fleet, 5, 1),
            Key::Leader,
        ];
        assert_eq!(beyond(keys.clone(), 2), [event(&upgrade, 5, 2)]);
        assert_eq!(beyond(keys, 3), []);
    }
}
