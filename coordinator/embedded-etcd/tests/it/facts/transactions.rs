//! Transactions: what compares mean over ranges and over nothing, and what one revision holds.

use etcd_client::{
    Client, Compare, CompareOp, DeleteOptions, GetOptions, PutOptions, Txn, TxnOp, TxnOpResponse,
};
use tonic::Code;

use super::refusal;

async fn holds(client: &mut Client, compare: Compare) -> bool {
    client.txn(Txn::new().when([compare])).await.unwrap().succeeded()
}

async fn put(client: &mut Client, key: &str, value: &str) -> i64 {
    client.put(key, value, None).await.unwrap().header().unwrap().revision()
}

pub(super) async fn compares_over_ranges(client: &mut Client) {
    put(client, "n/a", "2").await;
    let seen = put(client, "n/b", "3").await;
    let unchanged = || Compare::mod_revision("n/", CompareOp::Less, seen + 1).with_prefix();
    assert!(holds(client, unchanged()).await);
    assert!(holds(client, Compare::value("n/", CompareOp::Greater, "1").with_prefix()).await);
    assert!(!holds(client, Compare::value("n/", CompareOp::Less, "3").with_prefix()).await);
    assert!(holds(client, Compare::value("n/", CompareOp::NotEqual, "4").with_prefix()).await);
    assert!(!holds(client, Compare::value("n/", CompareOp::NotEqual, "3").with_prefix()).await);
    assert!(holds(client, Compare::value("n/a", CompareOp::Equal, "2").with_range("n/b")).await);
    assert!(holds(client, Compare::version("n/", CompareOp::Equal, 1).with_prefix()).await);
    assert!(holds(client, Compare::lease("n/", CompareOp::Equal, 0).with_prefix()).await);
    assert!(holds(client, Compare::create_revision("n/", CompareOp::Greater, 0).with_prefix()).await);

    client.delete("n/a", None).await.unwrap();
    assert!(holds(client, unchanged()).await, "a delete is not noticed");
    put(client, "n/c", "3").await;
    assert!(!holds(client, unchanged()).await, "a new key is");
}

pub(super) async fn compares_over_nothing(client: &mut Client) {
    let none = |compare: Compare| compare.with_prefix();
    assert!(holds(client, none(Compare::mod_revision("none/", CompareOp::Less, 5))).await);
    assert!(holds(client, none(Compare::mod_revision("none/", CompareOp::Equal, 0))).await);
    assert!(!holds(client, none(Compare::mod_revision("none/", CompareOp::Greater, 0))).await);
    assert!(holds(client, none(Compare::create_revision("none/", CompareOp::Equal, 0))).await);
    assert!(holds(client, none(Compare::version("none/", CompareOp::Equal, 0))).await);
    assert!(holds(client, none(Compare::lease("none/", CompareOp::Equal, 0))).await);
    assert!(!holds(client, none(Compare::value("none/", CompareOp::NotEqual, "x"))).await);
    assert!(!holds(client, none(Compare::value("none/", CompareOp::Equal, ""))).await);
    assert!(!holds(client, Compare::value("none", CompareOp::Equal, "")).await);
}

pub(super) async fn writes_are_seen_within(client: &mut Client) {
    let before = put(client, "w/old", "1").await;
    let txn = Txn::new().and_then([
        TxnOp::put("w/new", "2", None),
        TxnOp::get("w/", Some(GetOptions::new().with_prefix())),
        TxnOp::get("w/", Some(GetOptions::new().with_prefix().with_revision(before))),
        TxnOp::put("w/other", "3", None),
        TxnOp::delete("w/old", Some(DeleteOptions::new().with_prev_key())),
    ]);
    let answer = client.txn(txn).await.unwrap();
    assert_eq!(answer.header().unwrap().revision(), before + 1);
    let counts: Vec<i64> = answer
        .op_responses()
        .iter()
        .map(|response| match response {
            TxnOpResponse::Get(get) => get.count(),
            TxnOpResponse::Delete(delete) => delete.prev_kvs()[0].mod_revision(),
            TxnOpResponse::Put(put) => put.header().unwrap().revision(),
            TxnOpResponse::Txn(_) => unreachable!("no transaction was nested"),
        })
        .collect();
    assert_eq!(counts, [before + 1, 2, 1, before + 1, before]);
    let get = client.get("w/", Some(GetOptions::new().with_prefix())).await.unwrap();
    assert!(get.kvs().iter().all(|kv| kv.mod_revision() == before + 1), "one revision for all");

    let read = Txn::new().and_then([TxnOp::get("w/new", None), TxnOp::delete("w/nothing", None)]);
    let answer = client.txn(read).await.unwrap();
    assert_eq!(answer.header().unwrap().revision(), before + 1, "no change, no revision");
}

pub(super) async fn nested(client: &mut Client) {
    put(client, "t/a", "1").await;
    let is = |value: &str| Compare::value("t/a", CompareOp::Equal, value);
    // The inner compare looks at the state before the transaction, not at the put beside it.
    let inner = Txn::new()
        .when([is("1")])
        .and_then([TxnOp::put("t/then", "", None)])
        .or_else([TxnOp::put("t/else", "", None)]);
    let outer = Txn::new().when([is("1")]).and_then([TxnOp::put("t/a", "2", None), TxnOp::txn(inner)]);
    assert!(client.txn(outer).await.unwrap().succeeded());
    assert_eq!(client.get("t/then", None).await.unwrap().count(), 1);
    assert_eq!(client.get("t/else", None).await.unwrap().count(), 0);
}

pub(super) async fn limits(client: &mut Client) {
    let puts = |from: usize, count: usize| -> Vec<TxnOp> {
        (from..from + count).map(|i| TxnOp::put(format!("l/{i}"), "", None)).collect()
    };
    let compares = |count| vec![Compare::version("l/none", CompareOp::Equal, 0); count];
    let full = Txn::new().when(compares(128)).and_then(puts(0, 128)).or_else(puts(0, 128));
    client.txn(full).await.unwrap();
    let many = (Code::InvalidArgument, "etcdserver: too many operations in txn request".to_owned());
    assert_eq!(refusal(client.txn(Txn::new().and_then(puts(0, 129))).await), many);
    assert_eq!(refusal(client.txn(Txn::new().when(compares(129))).await), many);
    let two = |count| {
        let nested = |from| TxnOp::txn(Txn::new().and_then(puts(from, count)));
        Txn::new().and_then([nested(0), nested(count)])
    };
    client.txn(two(126)).await.unwrap();
    assert_eq!(refusal(client.txn(two(127)).await), many, "a nested one has what its parent left");

    let twice = (Code::InvalidArgument, "etcdserver: duplicate key given in txn request".to_owned());
    let same = [TxnOp::put("l/x", "1", None), TxnOp::put("l/x", "2", None)];
    assert_eq!(refusal(client.txn(Txn::new().and_then(same)).await), twice);
    let both = [TxnOp::put("l/x", "1", None), TxnOp::delete("l/", Some(DeleteOptions::new().with_prefix()))];
    assert_eq!(refusal(client.txn(Txn::new().or_else(both)).await), twice);
}

pub(super) async fn all_or_nothing(client: &mut Client) {
    let before = put(client, "a/a", "1").await;
    let with_lease = Some(PutOptions::new().with_lease(404));
    let txn = Txn::new().and_then([TxnOp::put("a/a", "2", None), TxnOp::put("a/b", "2", with_lease)]);
    let text = "etcdserver: requested lease not found";
    assert_eq!(refusal(client.txn(txn).await), (Code::NotFound, text.to_owned()));
    let future = Some(GetOptions::new().with_revision(before + 100));
    let txn = Txn::new().and_then([TxnOp::put("a/a", "2", None), TxnOp::get("a/a", future)]);
    assert_eq!(refusal(client.txn(txn).await).0, Code::OutOfRange);
    let get = client.get("a/a", None).await.unwrap();
    assert_eq!((get.header().unwrap().revision(), get.kvs()[0].value()), (before, b"1".as_slice()));
}
