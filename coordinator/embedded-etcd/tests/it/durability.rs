//! What a store on disk still knows after it was closed, or killed in the middle of its writes.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use etcd_client::{Client, GetOptions, LeaseTimeToLiveOptions, PutOptions, Txn, TxnOp, WatchOptions};
use tidegate_embedded_etcd::Embedded;

use crate::facts;

async fn put(client: &mut Client, key: &str, value: &str, lease: i64) -> i64 {
    let options = PutOptions::new().with_lease(lease);
    client.put(key, value, Some(options)).await.unwrap().header().unwrap().revision()
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path(), "first").await.unwrap();
    let mut client = store.client().await.unwrap();
    let lease = client.lease_grant(30, None).await.unwrap().id();
    let revoked = client.lease_grant(30, None).await.unwrap().id();
    put(&mut client, "gone", "1", revoked).await;
    put(&mut client, "a", "1", 0).await;
    let compacted = put(&mut client, "a", "2", 0).await;
    put(&mut client, "leased", "1", lease).await;
    let txn = Txn::new().and_then([TxnOp::put("b", "1", None), TxnOp::delete("a", None)]);
    client.txn(txn).await.unwrap();
    client.lease_revoke(revoked).await.unwrap();
    client.compact(compacted, None).await.unwrap();
    let last = put(&mut client, "a", "3", 0).await;
    let before = client.status().await.unwrap();
    store.close().await;

    let store = Embedded::open(dir.path(), "second").await.unwrap();
    let mut client = store.client().await.unwrap();
    let now = client.get("", Some(GetOptions::new().with_all_keys())).await.unwrap();
    assert_eq!(now.header().unwrap().revision(), last);
    let keys: Vec<_> = now.kvs().iter().map(|kv| (kv.key(), kv.value(), kv.version(), kv.lease())).collect();
    let expected: [(&[u8], &[u8], i64, i64); 3] =
        [(b"a", b"3", 1, 0), (b"b", b"1", 1, 0), (b"leased", b"1", 1, lease)];
    assert_eq!(keys, expected);
    let past = client.get("a", Some(GetOptions::new().with_revision(compacted))).await.unwrap();
    assert_eq!((past.kvs()[0].value(), past.kvs()[0].version()), (b"2".as_slice(), 2));
    let gone = client.get("gone", Some(GetOptions::new().with_revision(compacted))).await.unwrap();
    assert_eq!(gone.count(), 1, "it was deleted only later");
    let lost = client.get("a", Some(GetOptions::new().with_revision(compacted - 1))).await;
    assert_eq!(facts::refusal(lost).0, tonic::Code::OutOfRange);

    let options = WatchOptions::new().with_all_keys().with_start_revision(compacted).with_prev_key();
    let mut stream = client.watch("", Some(options)).await.unwrap();
    assert!(facts::next(&mut stream).await.created());
    let (reported, _) = facts::events(&mut stream, 6).await;
    assert_eq!(reported, ["+a=2", "+leased=1", "+b=1", "-a [2]", "-gone [1]", "+a=3"]);

    let asked = Some(LeaseTimeToLiveOptions::new().with_keys());
    let left = client.lease_time_to_live(lease, asked).await.unwrap();
    assert_eq!((left.granted_ttl(), left.keys()), (30, [b"leased".to_vec()].as_slice()));
    assert!(left.ttl() >= 28, "a whole TTL again, not {}", left.ttl());
    let status = client.status().await.unwrap();
    assert_eq!(status.header().unwrap().cluster_id(), before.header().unwrap().cluster_id());
    assert_eq!(status.raft_term(), before.raft_term() + 1);
    assert!(status.raft_index() > before.raft_index());
    client.lease_revoke(lease).await.unwrap();
    assert_eq!(client.get("leased", None).await.unwrap().count(), 0);
    store.close().await;
}

#[tokio::test]
async fn writers_that_wait_together_keep_a_revision_each() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path(), "a test").await.unwrap();
    let client = store.client().await.unwrap();
    let writers = (0..64).map(|writer| {
        let mut client = client.clone();
        tokio::spawn(async move { put(&mut client, &format!("w/{writer}"), "", 0).await })
    });
    let mut revisions = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        revisions.push(writer.await.unwrap());
    }
    revisions.sort_unstable();
    assert_eq!(revisions, (2..66).collect::<Vec<_>>());
    store.close().await;
}

#[tokio::test]
async fn compaction_gives_the_space_of_history_back() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("store.redb");
    let store = Embedded::open(dir.path(), "a test").await.unwrap();
    let mut client = store.client().await.unwrap();
    let value = vec![b'x'; 64 << 10];
    let mut last = 0;
    for _ in 0..100 {
        let put = client.put("big", value.clone(), None).await.unwrap();
        last = put.header().unwrap().revision();
    }
    let full = std::fs::metadata(&file).unwrap().len();
    client.compact(last, None).await.unwrap();
    client.defragment().await.unwrap();
    let left = std::fs::metadata(&file).unwrap().len();
    assert!(left < full / 4, "{full} bytes before, {left} after");
    assert_eq!(client.get("big", None).await.unwrap().kvs()[0].version(), 100);
    store.close().await;
}

#[tokio::test]
async fn acknowledged_writes_survive_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = BTreeMap::new();
    for round in 0..4 {
        let reported = tokio::task::spawn_blocking({
            let dir = dir.path().to_path_buf();
            // A different moment each time.
            move || write_and_kill(&dir, round, 150 + 70 * round)
        });
        for (key, revision) in reported.await.unwrap() {
            acknowledged.insert(key, revision);
        }
        let store = Embedded::open(dir.path(), "the check").await.unwrap();
        let mut client = store.client().await.unwrap();
        let found = client.get("", Some(GetOptions::new().with_all_keys())).await.unwrap();
        let by_key: BTreeMap<_, _> = found
            .kvs()
            .iter()
            .map(|kv| (String::from_utf8(kv.key().to_vec()).unwrap(), kv.mod_revision()))
            .collect();
        for (key, revision) in &acknowledged {
            assert_eq!(by_key.get(key), Some(revision), "{key} was acknowledged in round {round}");
            let pair = key.replace("first", "second");
            assert_eq!(by_key.get(&pair), Some(revision), "{pair} was put by the same transaction");
        }
        let last = acknowledged.values().max().copied().unwrap_or(0);
        assert!(found.header().unwrap().revision() >= last);
        store.close().await;
    }
    assert!(acknowledged.len() > 600, "{} writes", acknowledged.len());
}

/// The example of that name, which is built with the tests.
fn writers() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let target = tests.parent().and_then(Path::parent).unwrap();
    target.join("examples/writers")
}

/// Starts a process that writes until it is killed, after so many acknowledged writes; answers all of these.
fn write_and_kill(dir: &Path, round: usize, enough: usize) -> Vec<(String, i64)> {
    let mut child =
        Command::new(writers()).arg(dir).arg(round.to_string()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut reported = Vec::new();
    let mut killed = false;
    for line in &mut lines {
        let line = line.unwrap();
        let Some(("ack", rest)) = line.split_once(' ') else { continue };
        let (key, revision) = rest.split_once(' ').unwrap();
        reported.push((key.to_owned(), revision.parse().unwrap()));
        if reported.len() >= enough && !killed {
            child.kill().unwrap();
            killed = true;
        }
    }
    let ended = child.wait().unwrap();
    assert!(killed, "the process ended by itself after {} writes: {ended}", reported.len());
    reported
}
