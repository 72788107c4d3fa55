//! Watchers that are slow, far behind, or many.

use etcd_client::{Client, WatchOptions};
use tidegate_embedded_etcd::Embedded;

use crate::facts;

async fn put(client: &mut Client, value: Vec<u8>) -> i64 {
    client.put("key", value, None).await.unwrap().header().unwrap().revision()
}

#[tokio::test]
async fn slow_reader_delays_no_other_and_misses_nothing() {
    let store = Embedded::in_memory();
    let mut client = store.client().await.unwrap();
    let mut stream = client.watch("key", None).await.unwrap();
    assert!(facts::next(&mut stream).await.created());
    // Far more than streams and channels hold.
    let count = 20_000;
    for number in 0..count {
        put(&mut client, format!("{number:0>512}").into_bytes()).await;
    }
    let mut reported = 0;
    while reported < count {
        let message = facts::next(&mut stream).await;
        for event in message.events() {
            assert_eq!(event.kv().unwrap().value(), format!("{reported:0>512}").as_bytes());
            reported += 1;
        }
    }
}

#[tokio::test]
async fn watcher_a_little_behind_a_compaction_is_not_ended() {
    let store = Embedded::in_memory();
    let mut client = store.client().await.unwrap();
    let mut stream = client.watch("key", None).await.unwrap();
    assert!(facts::next(&mut stream).await.created());
    let mut last = 0;
    for _ in 0..500 {
        last = put(&mut client, b"x".to_vec()).await;
    }
    client.compact(last, None).await.unwrap();
    assert_eq!(facts::events(&mut stream, 500).await.0.len(), 500);
}

#[tokio::test]
async fn watch_far_behind_a_compaction_is_cancelled_with_it() {
    let store = Embedded::in_memory();
    let mut client = store.client().await.unwrap();
    let mut stream = client.watch("key", None).await.unwrap();
    assert!(facts::next(&mut stream).await.created());
    let mut last = 0;
    for _ in 0..300 {
        last = put(&mut client, vec![b'x'; 256 << 10]).await;
    }
    client.compact(last, None).await.unwrap();
    let ended = loop {
        let message = facts::next(&mut stream).await;
        if message.canceled() {
            break message;
        }
    };
    assert_eq!((ended.compact_revision(), ended.cancel_reason()), (last, ""));
}

#[tokio::test(start_paused = true)]
async fn progress_is_notified_when_nothing_happens() {
    let store = Embedded::in_memory();
    let mut client = store.client().await.unwrap();
    let options = WatchOptions::new().with_progress_notify();
    let mut stream = client.watch("quiet", Some(options)).await.unwrap();
    assert!(facts::next(&mut stream).await.created());
    let revision = put(&mut client, b"x".to_vec()).await;
    // Etcd's interval is ten minutes; time is paused.
    let message = stream.message().await.unwrap().unwrap();
    assert_eq!((message.watch_id(), message.events().len()), (0, 0));
    assert_eq!(message.header().unwrap().revision(), revision);
}

#[tokio::test]
async fn thousands_of_watchers_each_see_their_own_key() {
    let store = Embedded::in_memory();
    let mut client = store.client().await.unwrap();
    let mut stream = client.watch("k/0", None).await.unwrap();
    assert!(facts::next(&mut stream).await.created());
    for number in 1..2000 {
        stream.watch(format!("k/{number}"), None).await.unwrap();
        assert_eq!(facts::next(&mut stream).await.watch_id(), number);
    }
    for number in [1999, 0, 1000] {
        client.put(format!("k/{number}"), "", None).await.unwrap();
        assert_eq!(facts::next(&mut stream).await.watch_id(), number);
    }
}
