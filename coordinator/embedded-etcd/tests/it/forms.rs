//! The facts, held against each form of the embedded store.

use std::time::Duration;

use etcd_client::{Client, DeleteOptions, PutOptions, Txn, TxnOp};
use tidegate_embedded_etcd::{Embedded, OpenError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::facts;

#[tokio::test(start_paused = true)]
async fn in_memory_in_paused_time() {
    let store = Embedded::in_memory();
    facts::hold(&mut store.client().await.unwrap()).await;
}

#[tokio::test]
async fn on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(dir.path(), "a test").await.unwrap();
    facts::hold(&mut store.client().await.unwrap()).await;
    store.close().await;
}

#[tokio::test]
async fn over_tcp() {
    let store = Embedded::in_memory();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let server = tokio::spawn({
        let (store, shutdown) = (store.clone(), shutdown.clone());
        async move { store.serve(listener, shutdown).await }
    });
    let mut client = Client::connect([format!("http://{address}")], None).await.unwrap();
    facts::hold(&mut client).await;

    let member = client.member_list().await.unwrap().members()[0].clone();
    assert_eq!(member.client_urls(), [format!("http://{address}")]);
    let mut watch = client.watch("open", None).await.unwrap();
    assert!(watch.message().await.unwrap().unwrap().created());
    shutdown.cancel();
    assert!(watch.message().await.is_err(), "a stream ends with the server");
    tokio::time::timeout(Duration::from_secs(10), server).await.unwrap().unwrap().unwrap();
    assert!(store.client().await.unwrap().get("x", None).await.is_ok(), "the store itself goes on");
}

#[tokio::test]
async fn second_opener_is_refused_with_the_first_named() {
    let dir = tempfile::tempdir().unwrap();
    let first = Embedded::open(dir.path(), "coordinator at 127.0.0.1:7400").await.unwrap();
    let refused = Embedded::open(dir.path(), "another").await.expect_err("it is open");
    assert!(matches!(refused, OpenError::Lock(_)), "{refused:?}");
    let text = refused.to_string();
    assert!(text.contains("coordinator at 127.0.0.1:7400"), "{text}");
    assert!(text.contains(&std::process::id().to_string()), "{text}");
    first.close().await;
    first.close().await;
    let second = Embedded::open(dir.path(), "another").await.unwrap();
    second.close().await;
}

#[tokio::test]
async fn a_closed_store_refuses_and_ends_its_streams() {
    let store = Embedded::in_memory();
    let mut client = store.client().await.unwrap();
    let mut watch = client.watch("x", None).await.unwrap();
    assert!(watch.message().await.unwrap().unwrap().created());
    store.close().await;
    assert!(watch.message().await.is_err());
    let (code, text) = facts::refusal(client.get("x", None).await);
    assert_eq!((code, text.as_str()), (tonic::Code::Unavailable, "etcdserver: server stopped"));
}

#[tokio::test]
async fn missing_services_are_refused_by_name() {
    let store = Embedded::in_memory();
    let mut client = store.client().await.unwrap();
    let refused = [
        facts::refusal(client.user_list().await),
        facts::refusal(client.lock("x", None).await),
        facts::refusal(client.leader("x").await),
        facts::refusal(client.hash().await),
        facts::refusal(client.snapshot().await),
        facts::refusal(client.move_leader(1).await),
    ];
    for (code, text) in refused {
        assert_eq!(code, tonic::Code::Unimplemented, "{text}");
        assert!(text.contains("is not offered; it needs a real etcd"), "{text}");
    }
    let status = client.status().await.unwrap();
    assert_eq!(status.leader(), status.header().unwrap().member_id());
    assert!(status.version().starts_with("3.5.99-embedded"), "{}", status.version());
    assert!(client.alarm(etcd_client::AlarmAction::Get, etcd_client::AlarmType::None, None).await.is_ok());
    client.defragment().await.unwrap();
}

/// etcd 3.4 itself ends with a panic on this one, so that no comparison can use it.
#[tokio::test]
async fn a_key_deleted_and_kept_in_one_transaction_is_put_empty() {
    let store = Embedded::in_memory();
    let mut client = store.client().await.unwrap();
    client.put("a", "1", None).await.unwrap();
    let txn = Txn::new().and_then([
        TxnOp::delete("a", Some(DeleteOptions::new().with_from_key())),
        TxnOp::put("a", "", Some(PutOptions::new().with_ignore_value())),
    ]);
    client.txn(txn).await.unwrap();
    let kv = client.get("a", None).await.unwrap().take_kvs().remove(0);
    assert_eq!((kv.value(), kv.version(), kv.create_revision()), (b"".as_slice(), 1, 3));
}

/// More streams on one connection than an HTTP/2 server allows by default.
#[tokio::test]
async fn one_connection_carries_a_thousand_watch_streams() {
    let store = Embedded::in_memory();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    let server = tokio::spawn({
        let (store, shutdown) = (store.clone(), shutdown.clone());
        async move { store.serve(listener, shutdown).await }
    });
    let mut client = Client::connect([url], None).await.unwrap();
    let mut streams = Vec::new();
    for _ in 0..1000 {
        let mut stream = client.watch("key", None).await.unwrap();
        assert!(facts::next(&mut stream).await.created());
        streams.push(stream);
    }
    client.put("key", "1", None).await.unwrap();
    for stream in &mut streams {
        assert_eq!(facts::events(stream, 1).await.0, ["+key=1"]);
    }
    drop((streams, client));
    shutdown.cancel();
    server.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn request_beyond_the_given_limit_is_refused() {
    const LIMIT: usize = 1_000;
    let store = Embedded::in_memory().with_max_request(LIMIT);
    for store in [store.clone(), store.restored_in_memory()] {
        let mut client = store.client().await.unwrap();
        client.put("x", vec![b'x'; LIMIT / 2], None).await.unwrap();
        let large = client.put("x", vec![b'x'; LIMIT], None).await.unwrap_err();
        assert!(large.to_string().contains("etcdserver: request is too large"), "{large}");
        let put = |key: &str| TxnOp::put(key, vec![b'x'; LIMIT / 2], None);
        assert!(client.txn(Txn::new().and_then([put("x"), put("y")])).await.is_err(), "in all");
        assert_eq!(client.get("y", None).await.unwrap().count(), 0);
    }
}
