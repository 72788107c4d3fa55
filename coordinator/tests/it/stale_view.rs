//! A watch of the leader that hangs while its writes still reach the store, as where the line to one member of etcd is cut:
//! nothing is taken out by what was seen before.

use crate::herd::{Herd, node, service};
use crate::world::{Coordinator, LIMIT, spec, store};
use etcd_client::{Channel, Client};
use http_body_util::{BodyExt, StreamBody};
use std::time::Duration;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::key::Kind;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Health, Report};
use tidegate_proto::{Commit, Key, Prefix, Revision, Value};
use tidegate_store::{Lease, Scope, Store};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt};

/// What a watch is sent, each message only while the line does not hang.
fn held_back(body: Body, hangs: watch::Receiver<bool>) -> Body {
    let flow = futures::stream::unfold((body, hangs), |(mut body, mut hangs)| async move {
        let frame = body.frame().await?;
        hangs.wait_for(|hangs| !hangs).await.expect("the test holds the other end");
        Some((frame, (body, hangs)))
    });
    Body::new(StreamBody::new(flow))
}

/// A store at the end of a line on which what watches are sent is held back while it hangs. All else passes.
async fn over_a_line(embedded: &Embedded, hangs: watch::Receiver<bool>) -> Store {
    let Channel::Custom(inner) = embedded.channel() else { panic!("it is reached in process") };
    let line = tower::service_fn(move |request: axum::http::Request<Body>| {
        let (inner, hangs) = (inner.clone(), hangs.clone());
        async move {
            let watches = request.uri().path().ends_with("/Watch");
            let answer = inner.oneshot(request).await?;
            Ok::<_, BoxError>(if watches { answer.map(|body| held_back(body, hangs)) } else { answer })
        }
    });
    let channel = Channel::Custom(BoxCloneSyncService::new(line));
    Store::over(Client::from_channel(channel, None).await.unwrap(), Prefix::default())
}

/// What the store holds of the orders for instances.
async fn orders(direct: &Store) -> Vec<(Key, Disposition)> {
    let listed = direct.list(&Scope::Kind(Kind::Directive)).await.unwrap();
    let order = |value| match value {
        Ok(Value::Directive(order)) => order.body.disposition,
        other => panic!("{other:?}"),
    };
    listed.entries.into_iter().map(|entry| (entry.key, order(entry.value))).collect()
}

/// Waits until the orders in the store are such.
async fn until(direct: &Store, what: &str, is_so: impl Fn(&[(Key, Disposition)]) -> bool) {
    let so = async {
        while !is_so(&orders(direct).await) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    if timeout(LIMIT, so).await.is_err() {
        panic!("it is not so in time that {what}: {:?}", orders(direct).await);
    }
}

fn drains(orders: &[(Key, Disposition)]) -> bool {
    orders.iter().any(|(_, order)| order.takes_out())
}

/// The health of an instance in rotation changes, by its report.
async fn set_health(direct: &Store, lease: &Lease, n: usize, health: Health) {
    let key = Key::Report(service(), node(n));
    let listed = direct.list(&Scope::Key(key.clone())).await.unwrap();
    let Ok(Value::Report(report)) = listed.entries.into_iter().next().unwrap().value else {
        panic!("it reports")
    };
    let changed = Commit::new().put(key, Report { health, ..report.body });
    direct.commit_leased(&changed, lease).await.unwrap();
}

/// When the upgrade's record was written last.
async fn stored_at(direct: &Store) -> Revision {
    let listed = direct.list(&Scope::Kind(Kind::Upgrade)).await.unwrap();
    listed.entries.iter().map(|entry| entry.mod_revision).max().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_taken_out_while_the_watch_hangs() {
    let embedded = Embedded::in_memory();
    let direct = store(&embedded).await;
    let herd = Herd::at_version_1(store(&embedded).await, 4).await.slow(Duration::from_millis(600));
    let (hangs, line) = watch::channel(false);
    let coordinator = Coordinator::over(over_a_line(&embedded, line).await, "one");
    coordinator.leads().await;
    let end = CancellationToken::new();
    tokio::spawn(herd.run(end.clone()));
    let lease = direct.lease(Duration::from_secs(60)).await.unwrap();
    let all_but_one = "strategy: immediate\nmin_in_service: 3\nmax_unavailable: 1";
    coordinator.start_upgrade(&spec(all_but_one), "u1").await.unwrap();

    // The first that is taken out is let back, because another one fails: then none is taken out for 5 s.
    until(&direct, "one is taken out", drains).await;
    let first = orders(&direct).await.into_iter().find(|(_, order)| order.takes_out()).unwrap().0;
    let other = (0..4).rev().find(|n| Key::Directive(service(), node(*n)) != first).unwrap();
    // Later than the roll began, so that the 5 s without a drain end later than the roll's first 5 s.
    tokio::time::sleep(Duration::from_millis(400)).await;
    set_health(&direct, &lease, other, Health::Unhealthy).await;
    until(&direct, "it is let back", |orders| !drains(orders)).await;
    set_health(&direct, &lease, other, Health::Healthy).await;

    // Once the roll is 5 s old, the leader stores how long that is. It would wait to see that before it goes on, so only then
    // the watch hangs, before the 5 s without a drain are over. The other one fails again: three are left, and three must stay.
    let began = stored_at(&direct).await;
    let stored = async {
        while stored_at(&direct).await == began {
            set_health(&direct, &lease, other, Health::Healthy).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(LIMIT, stored).await.expect("it stores how long the roll lasts");
    let sees = coordinator.context.mirror.reaches_within(stored_at(&direct).await, LIMIT);
    assert!(sees.await, "the leader sees what it stored");
    hangs.send_replace(true);
    set_health(&direct, &lease, other, Health::Unhealthy).await;
    let hung = tokio::time::Instant::now();
    while hung.elapsed() < Duration::from_secs(6) {
        let orders = orders(&direct).await;
        assert!(!drains(&orders), "after {:?}: {orders:?}", hung.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    hangs.send_replace(false);
    until(&direct, "one is taken out", drains).await;
    let out = orders(&direct).await.into_iter().filter(|(_, order)| order.takes_out()).map(|(key, _)| key);
    assert_eq!(out.collect::<Vec<_>>(), [Key::Directive(service(), node(other))], "the one that had failed");
    assert_eq!(coordinator.is_over_within("u1", LIMIT).await, "Completed");
    end.cancel();
    coordinator.stop().await;
}
