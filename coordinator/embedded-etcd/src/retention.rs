//! How long history is kept: a store that runs for years must not remember every revision of them.
//!
//! The same as etcd with `--auto-compaction-retention=1h`. Watches that resume need seconds of history; one that slept
//! longer lists again, as it must with any etcd.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::time::Instant;

use crate::engine::Engine;

/// How long every revision is kept.
const KEPT: Duration = Duration::from_hours(1);
/// How often the present is noted: so much longer may a revision be kept.
const EVERY: Duration = Duration::from_mins(5);

/// Which revision was the last at which instant.
#[derive(Debug, Default)]
struct Memory(VecDeque<(Instant, i64)>);

impl Memory {
    /// Notes the present; answers up to which revision history is older than `kept`.
    fn note(&mut self, now: Instant, revision: i64, kept: Duration) -> Option<i64> {
        self.0.push_back((now, revision));
        let mut old = None;
        while let Some((_, revision)) = self.0.pop_front_if(|(then, _)| *then + kept <= now) {
            old = Some(revision);
        }
        old
    }
}

/// Compacts until the store is closed or dropped. Never holds the store while it sleeps.
async fn run(store: Weak<Engine>, every: Duration, kept: Duration) {
    let mut memory = Memory::default();
    loop {
        let Some(engine) = store.upgrade() else { return };
        let closed = engine.closed().clone();
        let (revision, compacted) = engine.peek(|state| (state.kv.revision(), state.kv.compacted()));
        let old = memory.note(Instant::now(), revision, kept).filter(|old| *old > compacted);
        if let Some(old) = old
            && let Err(refusal) = engine.compact(old).await
        {
            tracing::warn!(revision = old, ?refusal, "old revisions are kept");
        }
        drop(engine);
        tokio::select! {
            () = closed.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
    }
}

/// Starts compacting on this runtime.
pub(crate) fn begin(engine: &Arc<Engine>) {
    drop(tokio::spawn(run(Arc::downgrade(engine), EVERY, KEPT)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Embedded;

    #[test]
    fn youngest_revision_past_retention_is_returned_once() {
        let (mut memory, began) = (Memory::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        let kept = Duration::from_secs(10);
        assert_eq!(memory.note(at(0), 1, kept), None);
        assert_eq!(memory.note(at(5), 7, kept), None);
        assert_eq!(memory.note(at(9), 8, kept), None);
        assert_eq!(memory.note(at(16), 9, kept), Some(7));
        assert_eq!(memory.note(at(17), 9, kept), None);
        assert_eq!(memory.note(at(40), 9, kept), Some(9));
    }

    #[tokio::test(start_paused = true)]
    async fn old_revisions_are_forgotten_and_young_ones_kept() {
        let store = Embedded::in_memory();
        let mut client = store.client().await.unwrap();
        let (every, kept) = (Duration::from_secs(1), Duration::from_secs(10));
        tokio::spawn(run(Arc::downgrade(store.engine()), every, kept));
        let old = client.put("key", "old", None).await.unwrap().header().unwrap().revision();
        tokio::time::sleep(Duration::from_secs(20)).await;
        let young = client.put("key", "young", None).await.unwrap().header().unwrap().revision();
        client.put("key", "youngest", None).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let at = |revision| Some(etcd_client::GetOptions::new().with_revision(revision));
        let found = client.get("key", at(young)).await.unwrap();
        assert_eq!(found.kvs()[0].value(), b"young");
        let forgotten = client.get("key", at(old - 1)).await.unwrap_err();
        assert!(forgotten.to_string().contains("compacted"), "{forgotten}");
        tokio::time::sleep(Duration::from_secs(20)).await;
        let forgotten = client.get("key", at(young)).await.unwrap_err();
        assert!(forgotten.to_string().contains("compacted"), "{forgotten}");
    }
}
