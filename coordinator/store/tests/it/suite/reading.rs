//! One key, many keys, whole scopes.

use crate::world::{World, budget, budget_key, event, event_key};
use std::time::{Duration, Instant};
use tidegate_proto::key::Kind;
use tidegate_proto::record::Malformed;
use tidegate_proto::{Commit, Key, Prefix, Revision, Value};
use tidegate_store::{Scope, Store};

async fn put_budgets(store: &Store, count: u32) -> Revision {
    let mut last = Revision::ABSENT;
    let numbers: Vec<u32> = (0..count).collect();
    for chunk in numbers.chunks(128) {
        let commit = chunk.iter().fold(Commit::new(), |commit, number| {
            commit.put(budget_key(&format!("s{number:05}")), budget(*number))
        });
        last = store.commit(&commit).await.unwrap().revision;
    }
    last
}

pub(crate) async fn a_scope_of_20_000_keys_is_listed_at_one_revision(world: &World) {
    let store = world.store().await;
    let last = put_budgets(&store, 20_000).await;
    let snapshot = store.list(&Scope::Kind(Kind::Budget)).await.unwrap();
    assert_eq!(snapshot.revision, last);
    assert_eq!(snapshot.entries.len(), 20_000);
    let right = snapshot.entries.iter().enumerate().all(|(number, entry)| {
        entry.key == budget_key(&format!("s{number:05}"))
            && matches!(&entry.value, Ok(Value::Budget(record)) if record.body.taken as usize == number)
    });
    assert!(right, "a page is missing, twice, or out of order");
    assert_eq!(store.list(&Scope::Kind(Kind::Window)).await.unwrap().entries, []);
    pages_agree_while_all_moves(world, &store).await;
}

/// One key is moved from the first page to the last and back, and history is cut behind it, while all is listed.
async fn pages_agree_while_all_moves(world: &World, store: &Store) {
    let (writer, mut raw) = (world.store().await, world.raw().await);
    writer.commit(&Commit::new().put(budget_key("first"), budget(0))).await.unwrap();
    let moving = tokio::spawn(async move {
        let mut compacted = Instant::now();
        for round in 0.. {
            let (from, to) = if round % 2 == 0 { ("first", "zlast") } else { ("zlast", "first") };
            let moved = Commit::new().delete(budget_key(from)).put(budget_key(to), budget(round));
            let made = writer.commit(&moved).await.unwrap().revision;
            // A listing of five pages takes a part of a second; some are cut through, not all.
            if compacted.elapsed() > Duration::from_secs(1) {
                raw.compact(made.0, None).await.unwrap();
                compacted = Instant::now();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let mut revisions = std::collections::BTreeSet::new();
    while revisions.len() < 10 {
        let snapshot = store.list(&Scope::Kind(Kind::Budget)).await.unwrap();
        let places = ["first", "zlast"].map(|name| snapshot.get(&budget_key(name)).is_some());
        assert!(places[0] != places[1], "it is in {places:?} of the pages at {}", snapshot.revision);
        assert_eq!(snapshot.entries.len(), 20_001);
        revisions.insert(snapshot.revision);
    }
    assert!(!moving.is_finished(), "nothing moved: {:?}", moving.await);
    moving.abort();
}

pub(crate) async fn records_of_a_megabyte_are_listed_in_smaller_pages(world: &World) {
    let store = world.store().await;
    // 24 MB in one page of 5,000: more than one answer may have.
    for number in 0..24 {
        let commit = Commit::new().put(event_key(number), event("x".repeat(1_000_000)));
        store.commit(&commit).await.unwrap();
    }
    let snapshot = store.list(&Scope::Within(Kind::Event, "fleet".into())).await.unwrap();
    assert_eq!(snapshot.entries.len(), 24);
    let keys: Vec<Key> = (0..24).map(event_key).collect();
    assert_eq!(store.get_many(&keys).await.unwrap().entries.len(), 24);
}

pub(crate) async fn what_is_no_record_hides_nothing_else(world: &World) {
    let (store, mut raw) = (world.store().await, world.raw().await);
    store.commit(&Commit::new().put(budget_key("good"), budget(1))).await.unwrap();
    for (key, value) in [
        ("/tidegate/budget/shape", &b"{\"schema\":1}"[..]),
        ("/tidegate/budget/bytes", b"\xff\xfe"),
        ("/tidegate/budget/a/b/c", b"{}"),
        ("/tidegate/budget/ü", b"{}"),
    ] {
        raw.put(key, value, None).await.unwrap();
    }
    raw.put(b"/tidegate/budget/\xff".to_vec(), "{}", None).await.unwrap();
    raw.put("/tidegate/budget/large", vec![b' '; 1_100_000], None).await.unwrap();
    raw.put("/tidegate-other/budget/good", "{}", None).await.unwrap();

    let snapshot = store.list(&Scope::All).await.unwrap();
    let of = |name: &str| snapshot.get(&budget_key(name)).map(|entry| &entry.value);
    assert!(matches!(of("good"), Some(Ok(Value::Budget(_)))));
    assert!(matches!(of("shape"), Some(Err(Malformed::Shape(_)))), "{:?}", of("shape"));
    assert!(matches!(of("bytes"), Some(Err(Malformed::Encoding))), "{:?}", of("bytes"));
    assert!(
        matches!(of("large"), Some(Err(Malformed::Oversized { bytes: 1_100_000, .. }))),
        "{:?}",
        of("large")
    );
    assert_eq!((snapshot.entries.len(), snapshot.foreign.len()), (4, 3), "{:?}", snapshot.foreign);

    let one = store.get(&budget_key("shape")).await.unwrap().unwrap();
    assert!(one.value.is_err() && one.bytes_len == 12, "{one:?}");
    assert_eq!(store.get(&budget_key("absent")).await.unwrap(), None);
    let elsewhere = Store::over(raw, "/tidegate-other".parse::<Prefix>().unwrap());
    assert_eq!(elsewhere.list(&Scope::All).await.unwrap().entries.len(), 1);
}

pub(crate) async fn many_keys_are_read_at_one_revision(world: &World) {
    let store = world.store().await;
    let last = put_budgets(&store, 300).await;
    let mut keys: Vec<Key> = (0..300).map(|number| budget_key(&format!("s{number:05}"))).collect();
    keys.push(budget_key("absent"));
    let snapshot = store.get_many(&keys).await.unwrap();
    assert_eq!((snapshot.revision, snapshot.entries.len()), (last, 300));
    let none = store.get_many(&[]).await.unwrap();
    assert_eq!((none.revision, none.entries.len()), (last, 0));
}
