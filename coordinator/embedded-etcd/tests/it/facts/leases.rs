//! Leases: ids, TTLs, the keys that go with them, and what expiry looks like to others.

use std::time::Duration;

use etcd_client::{Client, GetOptions, LeaseGrantOptions, LeaseTimeToLiveOptions, PutOptions, WatchOptions};
use tonic::Code;

use super::{next, refusal, text};

async fn put(client: &mut Client, key: &str, lease: i64) -> i64 {
    let options = PutOptions::new().with_lease(lease);
    client.put(key, "v", Some(options)).await.unwrap().header().unwrap().revision()
}

async fn lives(client: &mut Client, key: &str) -> bool {
    client.get(key, Some(GetOptions::new().with_count_only())).await.unwrap().count() == 1
}

pub(super) async fn grant_and_list(client: &mut Client) {
    let before = client.get("x", None).await.unwrap().header().unwrap().revision();
    let granted = client.lease_grant(60, Some(LeaseGrantOptions::new().with_id(77))).await.unwrap();
    assert_eq!((granted.id(), granted.ttl()), (77, 60));
    assert_eq!(granted.header().unwrap().revision(), before, "a grant is no revision");
    let again = client.lease_grant(60, Some(LeaseGrantOptions::new().with_id(77))).await;
    assert_eq!(refusal(again), (Code::FailedPrecondition, "etcdserver: lease already exists".to_owned()));
    let endless = client.lease_grant(9_000_000_001, None).await;
    assert_eq!(refusal(endless), (Code::OutOfRange, "etcdserver: too large lease TTL".to_owned()));
    let random = client.lease_grant(1, None).await.unwrap();
    assert!(random.id() > 0);
    assert_eq!(random.ttl(), 2, "the floor");
    let listed: Vec<i64> =
        client.leases().await.unwrap().leases().iter().map(etcd_client::LeaseStatus::id).collect();
    assert!(listed.contains(&77) && listed.contains(&random.id()), "{listed:?}");

    put(client, "g/a", 77).await;
    let asked = Some(LeaseTimeToLiveOptions::new().with_keys());
    let left = client.lease_time_to_live(77, asked).await.unwrap();
    assert_eq!((left.granted_ttl(), left.keys()), (60, [b"g/a".to_vec()].as_slice()));
    assert!((50..=60).contains(&left.ttl()), "{}", left.ttl());
    let unknown = client.lease_time_to_live(404, None).await.unwrap();
    assert_eq!((unknown.id(), unknown.ttl(), unknown.granted_ttl()), (404, -1, 0));
    let text = "etcdserver: requested lease not found";
    assert_eq!(refusal(client.lease_revoke(404).await), (Code::NotFound, text.to_owned()));
    client.lease_revoke(77).await.unwrap();
    client.lease_revoke(random.id()).await.unwrap();
}

pub(super) async fn keys_go_with_their_lease(client: &mut Client) {
    let first = client.lease_grant(60, None).await.unwrap().id();
    let second = client.lease_grant(60, None).await.unwrap().id();
    for key in ["h/a", "h/b", "h/c", "h/d"] {
        put(client, key, first).await;
    }
    put(client, "h/b", second).await;
    let last = client.put("h/c", "no lease", None).await.unwrap().header().unwrap().revision();
    let revoked = client.lease_revoke(first).await.unwrap();
    assert_eq!(revoked.header().unwrap().revision(), last + 1, "all keys in one revision");
    assert!(!lives(client, "h/a").await && !lives(client, "h/d").await);
    assert!(lives(client, "h/b").await && lives(client, "h/c").await, "they hang on it no more");
    client.lease_revoke(second).await.unwrap();
    assert!(!lives(client, "h/b").await);
}

pub(super) async fn keep_alive_is_silent(client: &mut Client) {
    let lease = client.lease_grant(60, None).await.unwrap().id();
    let before = put(client, "s/a", lease).await;
    let (mut keeper, mut answers) = client.lease_keep_alive(lease).await.unwrap();
    keeper.keep_alive().await.unwrap();
    let answer = answers.message().await.unwrap().expect("an answer");
    assert_eq!((answer.id(), answer.ttl()), (lease, 60));
    let get = client.get("s/a", None).await.unwrap();
    assert_eq!(get.header().unwrap().revision(), before);
    assert_eq!((get.kvs()[0].mod_revision(), get.kvs()[0].version()), (before, 1));
    client.lease_revoke(lease).await.unwrap();
    keeper.keep_alive().await.unwrap();
    assert_eq!(answers.message().await.unwrap().expect("an answer").ttl(), 0, "gone, and the stream goes on");
    assert!(client.lease_keep_alive(lease).await.is_err());
}

pub(super) async fn expiry(client: &mut Client) {
    let lease = client.lease_grant(2, None).await.unwrap().id();
    let kept = client.lease_grant(2, None).await.unwrap().id();
    put(client, "e/kept", kept).await;
    put(client, "e/b", lease).await;
    let last = put(client, "e/a", lease).await;
    let options = WatchOptions::new().with_prefix().with_prev_key();
    let mut stream = client.watch("e/", Some(options)).await.unwrap();
    next(&mut stream).await;
    let (mut keeper, mut answers) = client.lease_keep_alive(kept).await.unwrap();
    let keep = async {
        loop {
            tokio::time::sleep(Duration::from_millis(500)).await;
            keeper.keep_alive().await.unwrap();
            assert_eq!(answers.message().await.unwrap().expect("an answer").ttl(), 2);
        }
    };
    let message = tokio::select! {
        message = next(&mut stream) => message,
        () = keep => unreachable!("it never ends"),
    };
    let reported: Vec<String> = message.events().iter().map(text).collect();
    assert_eq!(reported, ["-e/a [v]", "-e/b [v]"]);
    assert_eq!(message.events()[0].prev_kv().unwrap().lease(), lease);
    assert_eq!(message.header().unwrap().revision(), last + 1, "one revision, and none for keep-alives");
    assert!(lives(client, "e/kept").await);
    let late = client.put("e/late", "v", Some(PutOptions::new().with_lease(lease))).await;
    assert_eq!(refusal(late).0, Code::NotFound);
}
