//! Watches: order, scopes, lost connections, compaction.

use crate::proxy::Line;
use crate::world::{LIMIT, Watched, World, brief_change, budget, budget_key, event, event_key, service};
use tidegate_proto::key::Kind;
use tidegate_proto::{Commit, Key, Revision};
use tidegate_store::{Change, Scope, Seen, Store};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

async fn put(store: &Store, name: &str, taken: u32) -> Revision {
    store.commit(&Commit::new().put(budget_key(name), budget(taken))).await.unwrap().revision
}

fn keys(seen: &Seen) -> Vec<String> {
    match seen {
        Seen::Changed { changes, .. } => changes.iter().map(brief_change).collect(),
        other => panic!("{other:?} is no change"),
    }
}

pub(crate) async fn all_changes_of_one_revision_come_together(world: &World) {
    let (store, mut raw) = (world.store().await, world.raw().await);
    let before = put(&store, "a", 1).await;
    let scopes = vec![Scope::Kind(Kind::Budget), Scope::Kind(Kind::Event), Scope::Kind(Kind::Budget)];
    let mut watched = Watched::begin(&store, scopes);
    match watched.next().await {
        Seen::Listed(listed) => assert_eq!((listed.revision, listed.entries.len()), (before, 1)),
        other => panic!("{other:?}"),
    }
    let commit = Commit::new()
        .put(budget_key("b"), budget(1))
        .put(event_key(0), event("b"))
        .put(Key::Maintenance("n1".parse().unwrap()), maintenance())
        .delete(budget_key("a"));
    let made = store.commit(&commit).await.unwrap().revision;
    let seen = watched.next().await;
    assert_eq!(keys(&seen), ["+budget/b", "+events/fleet/00000000000000000001-0000000000", "-budget/a"]);
    assert!(matches!(seen, Seen::Changed { revision, .. } if revision == made));
    // What is outside of the scopes is not reported; what is no key of ours is.
    put(&store, "c", 1).await;
    raw.put("/tidegate/budget/x/y", "", None).await.unwrap();
    raw.put("/tidegate/budget/z", "{", None).await.unwrap();
    assert_eq!(keys(&watched.next().await), ["+budget/c"]);
    assert_eq!(keys(&watched.next().await), ["?/tidegate/budget/x/y"]);
    match watched.next().await {
        Seen::Changed { changes, .. } => {
            assert!(matches!(&changes[..], [Change::Put(e)] if e.value.is_err()))
        }
        other => panic!("{other:?}"),
    }
}

fn maintenance() -> tidegate_proto::Value {
    let text = br#"{"schema":1,"who":"ann","why":"disk","at":0}"#;
    let key = Key::Maintenance("n1".parse().unwrap());
    tidegate_proto::Value::decode(&key, text).unwrap()
}

pub(crate) async fn an_agent_is_sent_its_own_keys_only(world: &World) {
    let store = world.store().await;
    put(&store, "one", 0).await;
    let scopes = vec![
        Scope::Key(budget_key("one")),
        Scope::Key(Key::Window(service("one"))),
        Scope::Within(Kind::Event, "fleet".into()),
    ];
    let mut watched = Watched::begin(&store, scopes);
    assert!(matches!(watched.next().await, Seen::Listed(listed) if listed.entries.len() == 1));
    let mut expected = Vec::new();
    for round in 1..=20 {
        put(&store, "other", round).await;
        expected.push(put(&store, "one", round).await);
    }
    store.commit(&Commit::new().put(event_key(0), event("e"))).await.unwrap();
    let mut got = Vec::new();
    let mut last_event = false;
    while got.len() < expected.len() || !last_event {
        match watched.next().await {
            Seen::Changed { revision, changes } => match &changes[..] {
                [Change::Put(entry)] if entry.key == budget_key("one") => got.push(revision),
                [Change::Put(entry)] if entry.key == event_key(0) => last_event = true,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(got, expected);
}

pub(crate) async fn a_watch_resumes_where_the_connection_was_cut(world: &World) {
    let direct = world.store().await;
    let (store, proxy) = world.over_proxy().await;
    for scopes in [vec![Scope::All], vec![Scope::Key(budget_key("a")), Scope::Key(budget_key("b"))]] {
        let is_narrow = scopes.len() > 1;
        put(&direct, "a", 0).await;
        let mut watched = Watched::begin(&store, scopes);
        watched.until(|seen| matches!(seen, Seen::Listed(_))).await;
        let mut expected = vec![put(&direct, "a", 1).await];
        watched.until(|seen| matches!(seen, Seen::Changed { .. })).await;
        proxy.set(Line::Closed);
        proxy.cut();
        watched.until(|seen| matches!(seen, Seen::Lost { .. })).await;
        for (name, taken) in [("a", 2), ("b", 3), ("a", 4)] {
            expected.push(put(&direct, name, taken).await);
        }
        proxy.set(Line::Open);
        if is_narrow {
            let listed = watched.next().await;
            let Seen::Listed(snapshot) = &listed else { panic!("{listed:?}") };
            let lies = snapshot.get(&budget_key("a")).map(|entry| entry.mod_revision);
            assert_eq!((snapshot.entries.len(), lies), (2, expected.last().copied()));
        } else {
            let mut got = vec![expected[0]];
            while got.len() < expected.len() {
                match watched.next().await {
                    Seen::Changed { revision, .. } => got.push(revision),
                    other => panic!("{other:?} after {:?}", watched.reported),
                }
            }
            got.sort();
            assert_eq!(got, expected, "something came twice or not at all");
        }
        let back = watched.next().await;
        assert!(matches!(back, Seen::Regained), "{back:?} after {:?}", watched.reported);
    }
}

pub(crate) async fn watch_behind_a_compaction_lists_again(world: &World) {
    let (direct, mut raw) = (world.store().await, world.raw().await);
    let (store, proxy) = world.over_proxy().await;
    put(&direct, "a", 0).await;
    let mut watched = Watched::begin(&store, vec![Scope::All]);
    watched.until(|seen| matches!(seen, Seen::Listed(_))).await;
    proxy.set(Line::Closed);
    proxy.cut();
    watched.until(|seen| matches!(seen, Seen::Lost { .. })).await;
    put(&direct, "b", 1).await;
    direct.commit(&Commit::new().delete(budget_key("a"))).await.unwrap();
    let last = put(&direct, "c", 1).await;
    raw.compact(last.0, None).await.unwrap();
    proxy.set(Line::Open);
    match watched.next().await {
        Seen::Listed(listed) => {
            let keys: Vec<_> = listed.entries.iter().map(|entry| entry.key.clone()).collect();
            assert_eq!((listed.revision, keys), (last, vec![budget_key("b"), budget_key("c")]));
        }
        other => panic!("{other:?} after {:?}", watched.reported),
    }
    assert!(matches!(watched.next().await, Seen::Regained), "{:?}", watched.reported);
    let next = put(&direct, "d", 1).await;
    assert!(matches!(watched.next().await, Seen::Changed { revision, .. } if revision == next));
}

pub(crate) async fn a_cancelled_watch_ends(world: &World) {
    let store = world.store().await;
    let cancel = CancellationToken::new();
    let mut stream = store.watch(vec![Scope::All], cancel.clone());
    assert!(matches!(stream.recv().await, Some(Seen::Listed(_))));
    cancel.cancel();
    let end = timeout(LIMIT, async { while stream.recv().await.is_some() {} }).await;
    assert!(end.is_ok(), "it went on");
}

pub(crate) async fn a_slow_reader_loses_nothing(world: &World) {
    let store = world.store().await;
    let mut watched = Watched::begin(&store, vec![Scope::All]);
    watched.until(|seen| matches!(seen, Seen::Listed(_))).await;
    // More than waits between the task and its reader.
    let mut expected = Vec::new();
    for round in 0..1_000 {
        expected.push(put(&store, "a", round).await);
    }
    for revision in expected {
        let seen = watched.next().await;
        assert!(matches!(&seen, Seen::Changed { revision: at, .. } if *at == revision), "{seen:?}");
    }
}

pub(crate) async fn a_line_that_hangs_is_noticed(world: &World) {
    let direct = world.store().await;
    let (store, proxy) = world.over_proxy().await;
    let mut watched = Watched::begin(&store, vec![Scope::All]);
    watched.until(|seen| matches!(seen, Seen::Listed(_))).await;
    proxy.set(Line::DeafToAnswers);
    let made = put(&direct, "a", 1).await;
    watched.until(|seen| matches!(seen, Seen::Lost { .. })).await;
    proxy.set(Line::Open);
    proxy.cut();
    // No event was reported before the break, so nothing shows that the store is the same: it is listed again.
    watched.until(|seen| matches!(seen, Seen::Listed(snapshot) if snapshot.revision >= made)).await;
}

pub(crate) async fn silent_watch_reports_progress_where_that_is_sure(world: &World) {
    let (store, mut raw) = (world.store().await, world.raw().await);
    let mut stream = store.watch(vec![Scope::All], CancellationToken::new());
    assert!(matches!(stream.recv().await, Some(Seen::Listed(_))));
    let elsewhere = raw.put("/elsewhere", "", None).await.unwrap();
    let far = Revision(elsewhere.header().unwrap().revision());
    match timeout(LIMIT, stream.recv()).await.expect("nothing is seen") {
        Some(Seen::Progress { revision }) => assert_eq!(revision, far),
        other => panic!("{other:?}"),
    }
}
