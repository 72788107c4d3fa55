//! Keys: revisions, versions, ranges, the past.

use etcd_client::{Client, DeleteOptions, GetOptions, PutOptions, SortOrder, SortTarget};
use tonic::Code;

use super::refusal;

fn keys(response: &etcd_client::GetResponse) -> Vec<String> {
    response.kvs().iter().map(|kv| String::from_utf8_lossy(kv.key()).into_owned()).collect()
}

async fn revision(client: &mut Client) -> i64 {
    client.get("no such key", None).await.unwrap().header().unwrap().revision()
}

pub(super) async fn of_a_fresh_store(client: &mut Client) {
    assert_eq!(revision(client).await, 1);
    assert_eq!(client.delete("nothing", None).await.unwrap().header().unwrap().revision(), 1);
    let put = client.put("fresh", "1", None).await.unwrap();
    assert_eq!(put.header().unwrap().revision(), 2);
}

pub(super) async fn versions_and_revisions(client: &mut Client) {
    let first = client.put("v/a", "1", None).await.unwrap().header().unwrap().revision();
    client.put("v/a", "2", None).await.unwrap();
    let kv = client.get("v/a", None).await.unwrap().take_kvs().remove(0);
    assert_eq!((kv.create_revision(), kv.mod_revision(), kv.version()), (first, first + 1, 2));

    let deleted = client.delete("v/a", Some(DeleteOptions::new().with_prev_key())).await.unwrap();
    assert_eq!((deleted.deleted(), deleted.prev_kvs()[0].value()), (1, b"2".as_slice()));
    assert_eq!(deleted.header().unwrap().revision(), first + 2);
    client.put("v/a", "3", None).await.unwrap();
    let kv = client.get("v/a", None).await.unwrap().take_kvs().remove(0);
    assert_eq!((kv.create_revision(), kv.mod_revision(), kv.version()), (first + 3, first + 3, 1));
}

pub(super) async fn ranges(client: &mut Client) {
    for key in ["r/a", "r/b", "r/c", "r0"] {
        client.put(key, key, None).await.unwrap();
    }
    let get = client.get("r/", Some(GetOptions::new().with_prefix())).await.unwrap();
    assert_eq!(keys(&get), ["r/a", "r/b", "r/c"]);
    let get = client.get("r/a", Some(GetOptions::new().with_range("r/c"))).await.unwrap();
    assert_eq!(keys(&get), ["r/a", "r/b"]);
    let get = client.get("r/c", Some(GetOptions::new().with_range("r/a"))).await.unwrap();
    assert_eq!((get.count(), get.kvs().len()), (0, 0));
    let get = client.get("r/c", Some(GetOptions::new().with_from_key().with_limit(2))).await.unwrap();
    assert_eq!(keys(&get), ["r/c", "r0"]);
    let get = client
        .get("r/", Some(GetOptions::new().with_prefix().with_serializable().with_keys_only()))
        .await
        .unwrap();
    assert!(get.kvs().iter().all(|kv| kv.value().is_empty() && kv.mod_revision() > 0));
}

pub(super) async fn orders_and_limits(client: &mut Client) {
    for (key, value) in [("o/a", "3"), ("o/b", "1"), ("o/c", "2"), ("o/b", "1")] {
        client.put(key, value, None).await.unwrap();
    }
    let prefix = || GetOptions::new().with_prefix();
    let ordered = [
        (SortTarget::Key, SortOrder::Descend, ["o/c", "o/b", "o/a"]),
        (SortTarget::Value, SortOrder::Ascend, ["o/b", "o/c", "o/a"]),
        (SortTarget::Mod, SortOrder::Descend, ["o/b", "o/c", "o/a"]),
        (SortTarget::Create, SortOrder::Descend, ["o/c", "o/b", "o/a"]),
        (SortTarget::Version, SortOrder::Descend, ["o/b", "o/a", "o/c"]),
    ];
    for (target, order, expected) in ordered {
        let get = client.get("o/", Some(prefix().with_sort(target, order))).await.unwrap();
        assert_eq!(keys(&get), expected, "{target:?} {order:?}");
    }
    let get = client.get("o/", Some(prefix().with_limit(2))).await.unwrap();
    assert_eq!((keys(&get).len(), get.more(), get.count()), (2, true, 3));
    let get = client.get("o/", Some(prefix().with_limit(3))).await.unwrap();
    assert_eq!((keys(&get).len(), get.more(), get.count()), (3, false, 3));
    let get = client.get("o/", Some(prefix().with_count_only())).await.unwrap();
    assert_eq!((keys(&get).len(), get.more(), get.count()), (0, false, 3));
}

pub(super) async fn filters(client: &mut Client) {
    let first = client.put("f/a", "", None).await.unwrap().header().unwrap().revision();
    client.put("f/b", "", None).await.unwrap();
    client.put("f/a", "", None).await.unwrap();
    let prefix = || GetOptions::new().with_prefix();
    let get = client.get("f/", Some(prefix().with_min_mod_revision(first + 2))).await.unwrap();
    assert_eq!((keys(&get), get.count()), (vec!["f/a".to_owned()], 2), "the count ignores filters");
    let get = client.get("f/", Some(prefix().with_max_mod_revision(first + 1))).await.unwrap();
    assert_eq!(keys(&get), ["f/b"]);
    let get = client.get("f/", Some(prefix().with_max_create_revision(first))).await.unwrap();
    assert_eq!(keys(&get), ["f/a"]);
    let get = client.get("f/", Some(prefix().with_min_create_revision(first + 1))).await.unwrap();
    assert_eq!(keys(&get), ["f/b"]);
}

pub(super) async fn puts_that_keep(client: &mut Client) {
    client.put("k/a", "1", None).await.unwrap();
    let put = client.put("k/a", "2", Some(PutOptions::new().with_prev_key())).await.unwrap();
    assert_eq!(put.prev_key().unwrap().value(), b"1");
    let lease = client.lease_grant(60, None).await.unwrap().id();
    let keep = PutOptions::new().with_ignore_value().with_lease(lease);
    client.put("k/a", "", Some(keep)).await.unwrap();
    client.put("k/a", "3", Some(PutOptions::new().with_ignore_lease())).await.unwrap();
    let kv = client.get("k/a", None).await.unwrap().take_kvs().remove(0);
    assert_eq!((kv.value(), kv.lease(), kv.version()), (b"3".as_slice(), lease, 4));
    client.lease_revoke(lease).await.unwrap();

    let absent = client.put("k/absent", "", Some(PutOptions::new().with_ignore_value())).await;
    assert_eq!(refusal(absent), (Code::InvalidArgument, "etcdserver: key not found".to_owned()));
    let given = client.put("k/a", "x", Some(PutOptions::new().with_ignore_value())).await;
    assert_eq!(refusal(given), (Code::InvalidArgument, "etcdserver: value is provided".to_owned()));
    let given = client.put("k/a", "x", Some(PutOptions::new().with_ignore_lease().with_lease(1))).await;
    assert_eq!(refusal(given), (Code::InvalidArgument, "etcdserver: lease is provided".to_owned()));
}

pub(super) async fn past_and_future(client: &mut Client) {
    let first = client.put("p/a", "1", None).await.unwrap().header().unwrap().revision();
    client.put("p/b", "1", None).await.unwrap();
    client.delete("p/a", None).await.unwrap();
    let at = |revision| GetOptions::new().with_prefix().with_revision(revision);
    assert_eq!(keys(&client.get("p/", Some(at(first - 1))).await.unwrap()).len(), 0);
    assert_eq!(keys(&client.get("p/", Some(at(first))).await.unwrap()), ["p/a"]);
    assert_eq!(keys(&client.get("p/", Some(at(first + 1))).await.unwrap()), ["p/a", "p/b"]);
    let now = client.get("p/", Some(at(first + 2))).await.unwrap();
    assert_eq!(keys(&now), ["p/b"]);
    let past = client.get("p/", Some(at(first))).await.unwrap();
    assert_eq!(past.header().unwrap().revision(), first + 2, "the header names the present");
    let future = refusal(client.get("p/", Some(at(first + 3))).await);
    let text = "etcdserver: mvcc: required revision is a future revision";
    assert_eq!(future, (Code::OutOfRange, text.to_owned()));
}

pub(super) async fn bad_requests(client: &mut Client) {
    let before = revision(client).await;
    let empty = (Code::InvalidArgument, "etcdserver: key is not provided".to_owned());
    assert_eq!(refusal(client.put("", "x", None).await), empty);
    assert_eq!(refusal(client.get("", None).await), empty);
    assert_eq!(refusal(client.delete("", None).await), empty);
    let large = refusal(client.put("large", vec![0; (3 << 19) + 1], None).await);
    assert_eq!(large, (Code::InvalidArgument, "etcdserver: request is too large".to_owned()));
    let unknown = client.put("x", "x", Some(PutOptions::new().with_lease(404))).await;
    assert_eq!(refusal(unknown), (Code::NotFound, "etcdserver: requested lease not found".to_owned()));
    assert_eq!(revision(client).await, before);
    client.put("large", vec![b'x'; 1 << 20], None).await.unwrap();
    client.delete("large", None).await.unwrap();
}

pub(super) async fn compacted(client: &mut Client) {
    let first = client.put("c/a", "1", None).await.unwrap().header().unwrap().revision();
    client.put("c/a", "2", None).await.unwrap();
    let compaction = client.compact(first + 1, None).await.unwrap();
    assert_eq!(compaction.header().unwrap().revision(), first + 1);
    let at = |revision| GetOptions::new().with_revision(revision);
    let text = "etcdserver: mvcc: required revision has been compacted";
    let gone = (Code::OutOfRange, text.to_owned());
    assert_eq!(refusal(client.get("c/a", Some(at(first))).await), gone);
    assert_eq!(client.get("c/a", Some(at(first + 1))).await.unwrap().kvs()[0].value(), b"2");
    assert_eq!(refusal(client.compact(first + 1, None).await), gone);
    let text = "etcdserver: mvcc: required revision is a future revision";
    assert_eq!(refusal(client.compact(first + 2, None).await), (Code::OutOfRange, text.to_owned()));
}
