//! Watches: replay, live events, filters, progress, compaction.

use etcd_client::{Client, DeleteOptions, Txn, TxnOp, WatchFilterType, WatchOptions};

use super::{events, next};

async fn put(client: &mut Client, key: &str, value: &str) -> i64 {
    client.put(key, value, None).await.unwrap().header().unwrap().revision()
}

fn prefix() -> WatchOptions {
    WatchOptions::new().with_prefix()
}

pub(super) async fn replay(client: &mut Client) {
    let first = put(client, "y/a", "1").await;
    let txn = Txn::new().and_then([
        TxnOp::put("y/b", "2", None),
        TxnOp::put("elsewhere", "", None),
        TxnOp::delete("y/a", None),
    ]);
    client.txn(txn).await.unwrap();
    let mut stream = client.watch("y/", Some(prefix().with_start_revision(first))).await.unwrap();
    assert!(next(&mut stream).await.created());
    let (reported, _) = events(&mut stream, 3).await;
    assert_eq!(reported, ["+y/a=1", "+y/b=2", "-y/a"]);
    let third = put(client, "y/c", "3").await;
    let message = next(&mut stream).await;
    assert_eq!(message.header().unwrap().revision(), third);
    assert_eq!(message.events()[0].kv().unwrap().mod_revision(), third);

    let mut ahead = client.watch("y/", Some(prefix().with_start_revision(third + 2))).await.unwrap();
    assert!(next(&mut ahead).await.created());
    put(client, "y/d", "4").await;
    put(client, "y/e", "5").await;
    assert_eq!(events(&mut ahead, 1).await.0, ["+y/e=5"], "from a future revision on");
}

pub(super) async fn live(client: &mut Client) {
    put(client, "z/a", "0").await;
    let mut stream = client.watch("z/", Some(prefix())).await.unwrap();
    let created = next(&mut stream).await;
    assert!(created.created() && created.events().is_empty());
    let txn = Txn::new().and_then([
        TxnOp::put("z/b", "1", None),
        TxnOp::delete("z/a", None),
        TxnOp::put("z/c", "1", None),
    ]);
    let revision = client.txn(txn).await.unwrap().header().unwrap().revision();
    let message = next(&mut stream).await;
    assert_eq!(message.events().len(), 3, "one revision, one message");
    assert!(message.events().iter().all(|event| event.kv().unwrap().mod_revision() == revision));
    assert_eq!(message.header().unwrap().revision(), revision);
}

pub(super) async fn filters_and_previous(client: &mut Client) {
    let first = put(client, "x/a", "1").await;
    put(client, "x/a", "2").await;
    client.delete("x/a", None).await.unwrap();
    put(client, "x/a", "3").await;
    let from = || prefix().with_start_revision(first).with_prev_key();
    let mut all = client.watch("x/", Some(from())).await.unwrap();
    next(&mut all).await;
    assert_eq!(events(&mut all, 4).await.0, ["+x/a=1", "+x/a=2 [1]", "-x/a [2]", "+x/a=3"]);
    let no_put = from().with_filters([WatchFilterType::NoPut]);
    let mut deletes = client.watch("x/", Some(no_put)).await.unwrap();
    next(&mut deletes).await;
    assert_eq!(events(&mut deletes, 1).await.0, ["-x/a [2]"]);
    let no_delete = from().with_filters([WatchFilterType::NoDelete]);
    let mut puts = client.watch("x/", Some(no_delete)).await.unwrap();
    next(&mut puts).await;
    assert_eq!(events(&mut puts, 3).await.0, ["+x/a=1", "+x/a=2 [1]", "+x/a=3"]);
}

pub(super) async fn many_on_one_stream(client: &mut Client) {
    let mut stream = client.watch("m/a", None).await.unwrap();
    assert_eq!(next(&mut stream).await.watch_id(), 0);
    stream.watch("m/", Some(prefix().with_watch_id(7))).await.unwrap();
    assert_eq!(next(&mut stream).await.watch_id(), 7);
    stream.watch("m/c", Some(WatchOptions::new().with_watch_id(7))).await.unwrap();
    let refused = next(&mut stream).await;
    assert!(refused.created() && refused.canceled());
    assert_eq!(refused.cancel_reason(), "mvcc: duplicate watch ID provided on the WatchStream");
    assert_eq!(refused.watch_id(), -1);
    stream.watch("m/b", None).await.unwrap();
    assert_eq!(next(&mut stream).await.watch_id(), 1);

    put(client, "m/a", "1").await;
    let mut reported = [next(&mut stream).await.watch_id(), next(&mut stream).await.watch_id()];
    reported.sort_unstable();
    assert_eq!(reported, [0, 7]);
    stream.cancel(7).await.unwrap();
    let canceled = next(&mut stream).await;
    assert!(canceled.canceled() && canceled.watch_id() == 7 && canceled.compact_revision() == 0);
    put(client, "m/a", "2").await;
    put(client, "m/b", "3").await;
    assert_eq!(events(&mut stream, 2).await.0, ["+m/a=2", "+m/b=3"]);
}

pub(super) async fn progress(client: &mut Client) {
    let mut stream = client.watch("q/", Some(prefix())).await.unwrap();
    next(&mut stream).await;
    let revision = put(client, "aside", "1").await;
    stream.request_progress().await.unwrap();
    let message = next(&mut stream).await;
    assert_eq!((message.watch_id(), message.events().len()), (-1, 0));
    assert_eq!(message.header().unwrap().revision(), revision);
}

pub(super) async fn compacted(client: &mut Client) {
    let first = put(client, "d/a", "1").await;
    let second = put(client, "d/a", "2").await;
    client.compact(second, None).await.unwrap();
    let mut stream = client.watch("d/", Some(prefix().with_start_revision(first))).await.unwrap();
    let created = next(&mut stream).await;
    assert!(created.created() && !created.canceled());
    let ended = next(&mut stream).await;
    assert!(ended.canceled() && ended.events().is_empty());
    assert_eq!((ended.compact_revision(), ended.cancel_reason()), (second, ""));

    let mut stream = client.watch("d/", Some(prefix().with_start_revision(second))).await.unwrap();
    next(&mut stream).await;
    assert_eq!(events(&mut stream, 1).await.0, ["+d/a=2"], "the compacted revision itself is still sent");
}

pub(super) async fn fragments(client: &mut Client) {
    let large = "x".repeat(700 << 10);
    let both =
        || Txn::new().and_then([TxnOp::put("big/a", &*large, None), TxnOp::put("big/b", &*large, None)]);
    client.txn(both()).await.unwrap();
    let revision = client.txn(both()).await.unwrap().header().unwrap().revision();
    let from = || prefix().with_start_revision(revision).with_prev_key();
    let mut cut = client.watch("big/", Some(from().with_fragment())).await.unwrap();
    next(&mut cut).await;
    assert_eq!(events(&mut cut, 2).await.1, [1, 1], "2.8 MiB in two messages");
    let mut whole = client.watch("big/", Some(from())).await.unwrap();
    next(&mut whole).await;
    assert_eq!(events(&mut whole, 2).await.1, [2]);
    client.delete("big/", Some(DeleteOptions::new().with_prefix())).await.unwrap();
}
