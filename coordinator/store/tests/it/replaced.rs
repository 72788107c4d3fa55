//! Another store takes the place of the one that a watch follows: after the watch has found its place and before its stream
//! is open, or while its stream goes on; or of the one that a leader writes to.

use crate::line::{Line, Opens};
use crate::suite::leading::campaign;
use crate::world::{Watched, budget, budget_key, term};
use std::time::Duration;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::{Commit, Key, Precondition, Prefix, Revision};
use tidegate_store::{CommitError, Scope, Seen, Store};

async fn put(store: &Embedded, name: &str) -> Revision {
    let direct = Store::over(store.client().await.unwrap(), Prefix::default());
    direct.commit(&Commit::new().put(budget_key(name), budget(1))).await.unwrap().revision
}

/// A store, a line to it, and a watch over the line that has seen the event of this revision.
async fn watched() -> (Embedded, Line, Watched, Revision) {
    let store = Embedded::in_memory();
    let (line, over) = Line::to(&store).await;
    let mut watched = Watched::begin(&over, vec![Scope::All]);
    watched.until(|seen| matches!(seen, Seen::Listed(_))).await;
    let last = put(&store, "a").await;
    watched.until(|seen| matches!(seen, Seen::Changed { revision, .. } if *revision == last)).await;
    (store, line, watched, last)
}

#[tokio::test]
async fn store_replaced_between_list_and_stream_is_reported() {
    for scopes in [vec![Scope::All], vec![Scope::Key(budget_key("a")), Scope::Key(budget_key("b"))]] {
        let (store, blank) = (Embedded::in_memory(), Embedded::in_memory());
        put(&store, "a").await;
        let last = put(&store, "b").await;
        let (line, over) = Line::to(&store).await;
        line.leads_to(store, Opens::Replaced(blank.clone()));
        let mut watched = Watched::begin(&over, scopes);
        let listed = watched.next().await;
        assert!(matches!(&listed, Seen::Listed(snapshot) if snapshot.entries.len() == 2), "{listed:?}");
        let restored = watched.next().await;
        assert!(
            matches!(restored, Seen::Restored { seen, found } if seen == last && found < last),
            "{restored:?}"
        );
        let listed = watched.next().await;
        assert!(matches!(&listed, Seen::Listed(snapshot) if snapshot.entries.is_empty()), "{listed:?}");
        let made = put(&blank, "a").await;
        let next = watched.next().await;
        assert!(matches!(&next, Seen::Changed { revision, .. } if *revision == made), "{next:?}");
    }
}

#[tokio::test]
async fn store_replaced_before_a_watch_resumes_is_reported() {
    for count in [0, 10] {
        let (store, line, mut watched, last) = watched().await;
        let blank = Embedded::in_memory();
        for n in 0..count {
            put(&blank, &format!("other{n}")).await;
        }
        // The same history, so that the watch finds its place there.
        line.leads_to(store.restored_in_memory(), Opens::Replaced(blank));
        store.close().await;
        let restored = watched.until(|seen| matches!(seen, Seen::Restored { .. })).await;
        assert!(matches!(restored, Seen::Restored { seen, .. } if seen == last), "{restored:?}");
        let listed = watched.next().await;
        assert!(matches!(&listed, Seen::Listed(snapshot) if snapshot.entries.len() == count), "{listed:?}");
    }
}

#[tokio::test]
async fn restored_store_is_not_reported_as_regained() {
    for count in [0, 10] {
        let (store, line, mut watched, last) = watched().await;
        let blank = Embedded::in_memory();
        for n in 0..count {
            put(&blank, &format!("other{n}")).await;
        }
        line.goes_to(&blank);
        store.close().await;
        let lost = watched.next().await;
        assert!(matches!(lost, Seen::Lost { .. }), "{lost:?}");
        let restored = watched.next().await;
        assert!(matches!(restored, Seen::Restored { seen, .. } if seen == last), "{restored:?}");
        let listed = watched.next().await;
        assert!(matches!(&listed, Seen::Listed(snapshot) if snapshot.entries.len() == count), "{listed:?}");
    }
}

/// Its revisions have caught up, and one watch alone has events to compare.
#[tokio::test]
async fn restored_store_that_one_watch_knows_is_reported_by_each() {
    let (store, copy) = (Embedded::in_memory(), Embedded::in_memory());
    let (line, over) = Line::to(&store).await;
    let narrow = vec![Scope::Key(budget_key("a")), Scope::Key(budget_key("b"))];
    let mut watches = [Watched::begin(&over, vec![Scope::All]), Watched::begin(&over, narrow)];
    for watched in &mut watches {
        watched.until(|seen| matches!(seen, Seen::Listed(_))).await;
    }
    let last = put(&store, "a").await;
    for watched in &mut watches {
        watched.until(|seen| matches!(seen, Seen::Changed { revision, .. } if *revision == last)).await;
    }
    for n in 0..10 {
        put(&copy, &format!("other{n}")).await;
    }
    line.goes_to(&copy);
    store.close().await;
    for watched in &mut watches {
        watched.until(|seen| matches!(seen, Seen::Restored { .. })).await;
    }
}

/// As after `etcdutl snapshot restore --bump-revision N --mark-compacted`: the copy is ahead of what was seen, and has no
/// history to compare.
#[tokio::test]
async fn older_copy_without_history_is_reported_restored() {
    for creates in [false, true] {
        let (store, line, mut watched, _) = watched().await;
        let copy = store.restored_in_memory();
        let direct = Store::over(store.client().await.unwrap(), Prefix::default());
        let mut lost = Commit::new().put(budget_key("a"), budget(2));
        if creates {
            lost = lost.put(budget_key("b"), budget(1));
        }
        let last = direct.commit(&lost).await.unwrap().revision;
        watched.until(|seen| matches!(seen, Seen::Changed { revision, .. } if *revision == last)).await;
        let mut ahead = last;
        for n in 0..10 {
            ahead = put(&copy, &format!("other{n}")).await;
        }
        copy.client().await.unwrap().compact(ahead.0, None).await.unwrap();
        line.goes_to(&copy);
        store.close().await;
        let restored = watched.until(|seen| matches!(seen, Seen::Restored { .. })).await;
        assert!(matches!(restored, Seen::Restored { seen, .. } if seen == last), "{restored:?}");
        let listed = watched.next().await;
        assert!(matches!(&listed, Seen::Listed(snapshot) if snapshot.entries.len() == 11), "{listed:?}");
    }
}

#[tokio::test]
async fn member_that_lags_is_no_store_that_fell_back() {
    let (store, line, mut watched, _) = watched().await;
    let lagging = store.restored_in_memory();
    let last = put(&store, "b").await;
    watched.until(|seen| matches!(seen, Seen::Changed { revision, .. } if *revision == last)).await;
    line.leads_to(store.restored_in_memory(), Opens::Lagging(lagging.clone()));
    store.close().await;
    watched.until(|seen| matches!(seen, Seen::Regained)).await;
    line.is_opened().await;
    assert_eq!(put(&lagging, "b").await, last, "it catches up");
    let made = put(&lagging, "c").await;
    let next = watched.next().await;
    assert!(matches!(&next, Seen::Changed { revision, .. } if *revision == made), "{:?}", watched.reported);
}

#[tokio::test]
async fn commit_answered_from_behind_is_reported_by_each_watch() {
    for conflicts in [false, true] {
        let (store, blank) = (Embedded::in_memory(), Embedded::in_memory());
        let (line, over) = Line::to(&store).await;
        let narrow = vec![Scope::Key(budget_key("a")), Scope::Key(budget_key("b"))];
        let mut watches = [Watched::begin(&over, vec![Scope::All]), Watched::begin(&over, narrow)];
        for watched in &mut watches {
            watched.until(|seen| matches!(seen, Seen::Listed(_))).await;
        }
        put(&store, "b").await;
        let last = put(&store, "a").await;
        for watched in &mut watches {
            watched.until(|seen| matches!(seen, Seen::Changed { revision, .. } if *revision == last)).await;
        }
        line.goes_to(&blank);
        let at = if conflicts { last } else { Revision::ABSENT };
        let commit =
            Commit::new().when(Precondition::At(budget_key("a"), at)).put(budget_key("a"), budget(2));
        let answer = over.commit(&commit).await;
        assert_eq!(answer.is_err(), conflicts, "{answer:?}");
        for watched in &mut watches {
            let restored = watched.next().await;
            assert!(
                matches!(restored, Seen::Restored { seen, found } if seen == last && found < last),
                "{restored:?}"
            );
            let (listed, count) = (watched.next().await, usize::from(!conflicts));
            assert!(
                matches!(&listed, Seen::Listed(snapshot) if snapshot.entries.len() == count),
                "{listed:?}"
            );
        }
    }
}

/// A store with one event that a watch has seen, whose stream is open at a copy without the last commit over the same
/// connection: the store, the copy, and the revision of that commit.
async fn one_commit_ahead(scopes: Vec<Scope>) -> (Line, Store, Watched, [Embedded; 2], Revision) {
    let first = Embedded::in_memory();
    let (line, over) = Line::to(&first).await;
    let mut watched = Watched::begin(&over, scopes);
    watched.until(|seen| matches!(seen, Seen::Listed(_))).await;
    let seen_last = put(&first, "a").await;
    watched.until(|seen| matches!(seen, Seen::Changed { revision, .. } if *revision == seen_last)).await;
    let (store, copy) = (first.restored_in_memory(), first.restored_in_memory());
    line.leads_to(store.clone(), Opens::Lagging(copy.clone()));
    first.close().await;
    watched.until(|seen| matches!(seen, Seen::Regained)).await;
    let commit = Commit::new().put(budget_key("b"), budget(1));
    let last = over.commit(&commit).await.unwrap().revision;
    assert!(last > seen_last, "{last}");
    (line, over, watched, [store, copy], last)
}

#[tokio::test(start_paused = true)]
async fn copy_without_the_last_answer_is_reported_in_silence() {
    for scopes in [vec![Scope::All], vec![Scope::Key(budget_key("a")), Scope::Key(budget_key("b"))]] {
        let (line, _over, mut watched, [_store, copy], last) = one_commit_ahead(scopes).await;
        line.goes_to(&copy);
        let restored = watched.next().await;
        assert!(
            matches!(restored, Seen::Restored { seen, found } if seen == last && found < last),
            "{restored:?}"
        );
        let listed = watched.next().await;
        assert!(matches!(&listed, Seen::Listed(snapshot) if snapshot.entries.len() == 1), "{listed:?}");
    }
}

/// What the watch has seen is all there.
#[tokio::test(start_paused = true)]
async fn fall_that_a_commit_finds_is_reported_at_once() {
    let (line, over, mut watched, [_store, copy], last) = one_commit_ahead(vec![Scope::All]).await;
    line.goes_to(&copy);
    let stale = Commit::new().when(Precondition::At(budget_key("b"), last)).put(budget_key("b"), budget(2));
    let refused = over.commit(&stale).await.unwrap_err();
    assert!(matches!(refused, CommitError::Conflict { at, .. } if at < last), "{refused:?}");
    // A silent stream would be looked at later.
    let restored = tokio::time::timeout(Duration::from_secs(5), watched.next()).await.unwrap();
    assert!(
        matches!(restored, Seen::Restored { seen, found } if seen == last && found < last),
        "{restored:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn lag_behind_the_last_answer_is_no_fall() {
    let (line, _over, mut watched, [store, member], last) = one_commit_ahead(vec![Scope::All]).await;
    // Longer than a silent stream is asked and asked again.
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(put(&member, "b").await, last, "it catches up");
    let next = watched.next().await;
    assert!(matches!(&next, Seen::Changed { revision, .. } if *revision == last), "{:?}", watched.reported);
    drop((line, store));
}

#[tokio::test]
async fn copy_without_the_last_answer_is_reported_as_a_watch_resumes() {
    for scopes in [vec![Scope::All], vec![Scope::Key(budget_key("a")), Scope::Key(budget_key("b"))]] {
        let (line, _over, mut watched, [_store, copy], last) = one_commit_ahead(scopes).await;
        line.goes_to(&copy.restored_in_memory());
        copy.close().await;
        let lost = watched.next().await;
        assert!(matches!(lost, Seen::Lost { .. }), "{lost:?}");
        let restored = watched.next().await;
        assert!(
            matches!(restored, Seen::Restored { seen, found } if seen == last && found < last),
            "{restored:?}"
        );
    }
}

#[tokio::test]
async fn watch_does_not_resume_from_before_its_last_list() {
    let (store, line, mut watched, _) = watched().await;
    let (listed, other) = (store.restored_in_memory(), store.restored_in_memory());
    for name in ["b", "c"] {
        put(&listed, name).await;
        put(&other, &format!("other-{name}")).await;
    }
    let last = put(&listed, "d").await;
    listed.client().await.unwrap().compact(last.0, None).await.unwrap();
    line.goes_to(&listed);
    store.close().await;
    watched.until(|seen| matches!(seen, Seen::Listed(snapshot) if snapshot.revision == last)).await;
    assert!(matches!(watched.next().await, Seen::Regained), "{:?}", watched.reported);
    // The first, the one that was compacted, and the one after the list.
    line.has_opened(3).await;
    // It has the event that was seen before the list, and has come as far.
    assert_eq!(put(&other, "e").await, last);
    line.goes_to(&other);
    listed.close().await;
    let lost = watched.next().await;
    assert!(matches!(lost, Seen::Lost { .. }), "{:?}", watched.reported);
    let next = watched.next().await;
    assert!(matches!(&next, Seen::Listed(snapshot) if snapshot.entries.len() == 4), "{:?}", watched.reported);
    assert!(matches!(watched.next().await, Seen::Regained), "{:?}", watched.reported);
}

#[tokio::test]
async fn outage_is_reported_as_over_once_what_was_missed_is_seen() {
    let (store, line, mut watched, _) = watched().await;
    let copy = store.restored_in_memory();
    let missed = [put(&copy, "b").await, put(&copy, "c").await];
    // The last revision brings the watch no event.
    copy.client().await.unwrap().put("/elsewhere", "", None).await.unwrap();
    line.goes_to(&copy);
    store.close().await;
    let lost = watched.next().await;
    assert!(matches!(lost, Seen::Lost { .. }), "{lost:?}");
    for made in missed {
        let next = watched.next().await;
        assert!(matches!(&next, Seen::Changed { revision, .. } if *revision == made), "{next:?}");
    }
    assert!(matches!(watched.next().await, Seen::Regained), "{:?}", watched.reported);
}

#[tokio::test]
async fn leader_writes_nothing_beside_another_of_its_number() {
    let (store, blank) = (Embedded::in_memory(), Embedded::in_memory());
    let (line, over) = Line::to(&store).await;
    let direct = Store::over(blank.client().await.unwrap(), Prefix::default());
    let (one, two) = (campaign(&over, "one").await, campaign(&direct, "two").await);
    assert_eq!(one.create_revision, two.create_revision, "both stores count from the same number");
    line.goes_to(&blank);
    let step = Commit::new().put(budget_key("a"), budget(1));
    let refused = one.writes().commit(&step).await.unwrap_err();
    let fence = Precondition::CreatedAt(Key::Term(term("one")), one.create_revision);
    assert!(matches!(&refused, CommitError::Conflict { broken, .. } if *broken == [fence]), "{refused:?}");
    two.writes().commit(&step).await.unwrap();
}
