//! A watch of the leader that hangs while its writes still reach the store, as where the line to one member of etcd is cut, and
//! orders that reach the store late: nothing is taken out by what was seen before.

use crate::herd::{Herd, node, service};
use crate::world::{Coordinator, LIMIT, spec, store};
use etcd_client::{Channel, Client};
use http_body_util::{BodyExt, Full, StreamBody};
use std::sync::Arc;
use std::time::Duration;
use tidegate_coordinator::operation;
use tidegate_embedded_etcd::Embedded;
use tidegate_planner::gate::store::stale::OLDEST_VIEW_MS;
use tidegate_proto::key::Kind;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Health, Report};
use tidegate_proto::wire::v1::RetryInstanceRequest;
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

type Request = axum::http::Request<Body>;
type Inner = BoxCloneSyncService<Request, axum::http::Response<Body>, BoxError>;

fn inner(embedded: &Embedded) -> Inner {
    match embedded.channel() {
        Channel::Custom(inner) => inner,
        _ => panic!("it is reached in process"),
    }
}

async fn over(line: Inner) -> Store {
    let client = Client::from_channel(Channel::Custom(line), None).await;
    Store::over(client.unwrap(), Prefix::default())
}

/// A store at the end of a line on which what watches are sent is held back while it hangs. All else passes.
async fn over_a_line(embedded: &Embedded, hangs: watch::Receiver<bool>) -> Store {
    let inner = inner(embedded);
    let line = tower::service_fn(move |request: Request| {
        let (inner, hangs) = (inner.clone(), hangs.clone());
        async move {
            let watches = request.uri().path().ends_with("/Watch");
            let answer = inner.oneshot(request).await?;
            Ok::<_, BoxError>(if watches { answer.map(|body| held_back(body, hangs)) } else { answer })
        }
    });
    over(BoxCloneSyncService::new(line)).await
}

/// A store at the end of a line that delivers the first order to drain late, and brings no answer. All else passes.
async fn late_order(
    embedded: &Embedded,
    delay: Duration,
    sent: watch::Sender<Option<usize>>,
    arrived: watch::Sender<bool>,
) -> Store {
    let (inner, sent, arrived) = (inner(embedded), Arc::new(sent), Arc::new(arrived));
    let line = tower::service_fn(move |request: Request| {
        let (inner, sent, arrived) = (inner.clone(), Arc::clone(&sent), Arc::clone(&arrived));
        async move {
            if !request.uri().path().ends_with("/Txn") {
                return inner.oneshot(request).await;
            }
            let (head, body) = request.into_parts();
            let bytes = body.collect().await?.to_bytes();
            let text = String::from_utf8_lossy(&bytes);
            let drains = text.contains(r#""name":"drain""#) && sent.borrow().is_none();
            let of = |n: &usize| text.contains(&Key::Directive(service(), node(*n)).to_string());
            let drained = (0..3).find(of).filter(|_| drains);
            drop(text);
            let request = Request::from_parts(head, Body::new(Full::new(bytes)));
            if drained.is_none() {
                return inner.oneshot(request).await;
            }
            sent.send_replace(drained);
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                inner.oneshot(request).await.expect("it is carried out, or not");
                arrived.send_replace(true);
            });
            std::future::pending().await
        }
    });
    over(BoxCloneSyncService::new(line)).await
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

/// A coordinator that leads over this line and upgrades this herd with `stay` as its `min_in_service`, and the token that ends
/// the herd.
async fn upgrading(line: Store, herd: Herd, stay: usize) -> (Coordinator, CancellationToken) {
    let coordinator = Coordinator::over(line, "one");
    coordinator.leads().await;
    let end = CancellationToken::new();
    tokio::spawn(herd.run(end.clone()));
    let limits = format!("strategy: immediate\nmin_in_service: {stay}\nmax_unavailable: 1");
    coordinator.start_upgrade(&spec(&limits), "u1").await.unwrap();
    (coordinator, end)
}

/// Waits until the leader sees what it wrote last, and that is older than a view may be.
async fn rests(coordinator: &Coordinator) {
    let leadership = coordinator.context.led_here().expect("it leads");
    let rests = async {
        loop {
            let last = leadership.committed();
            tokio::time::sleep(Duration::from_millis(OLDEST_VIEW_MS + 200)).await;
            let sees = coordinator.context.mirror.reaches_within(last, LIMIT).await;
            if sees && leadership.committed() == last {
                return;
            }
        }
    };
    timeout(LIMIT, rests).await.expect("a paused upgrade has nothing written for long");
}

/// What an instance reports.
async fn report(direct: &Store, n: usize) -> Report {
    let listed = direct.list(&Scope::Key(Key::Report(service(), node(n)))).await.unwrap();
    match listed.entries.into_iter().next().unwrap().value {
        Ok(Value::Report(report)) => report.body,
        other => panic!("{other:?}"),
    }
}

/// The health of an instance in rotation changes, by its report.
async fn set_health(direct: &Store, lease: &Lease, n: usize, health: Health) {
    let changed = Report { health, ..report(direct, n).await };
    let changed = Commit::new().put(Key::Report(service(), node(n)), changed);
    direct.commit_leased(&changed, lease).await.unwrap();
}

/// Waits until an instance reports the window of the roll.
async fn acknowledged(direct: &Store, n: usize) {
    loop {
        let window = direct.list(&Scope::Key(Key::Window(service()))).await.unwrap().entries;
        if report(direct, n).await.window == window[0].mod_revision {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
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
    let (coordinator, end) = upgrading(over_a_line(&embedded, line).await, herd, 3).await;
    let lease = direct.lease(Duration::from_secs(60)).await.unwrap();

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

/// A drain that fails leaves its instance in rotation, under its order. A person has it drained again, while the watch does not
/// show that another one has failed.
#[tokio::test(flavor = "multi_thread")]
async fn retry_by_an_old_view_takes_nothing_out() {
    let embedded = Embedded::in_memory();
    let direct = store(&embedded).await;
    let herd = Herd::at_version_1(store(&embedded).await, 3).await.undrained();
    let (hangs, line) = watch::channel(false);
    let (coordinator, end) = upgrading(over_a_line(&embedded, line).await, herd, 2).await;
    let lease = direct.lease(Duration::from_secs(60)).await.unwrap();
    let paused = async {
        while coordinator.status("u1").await.because.is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT, paused).await.expect("the failed drain pauses it");
    let drained = orders(&direct).await.into_iter().find(|(_, order)| order.takes_out()).unwrap().0;
    let failed = (0..3).find(|n| Key::Directive(service(), node(*n)) == drained).unwrap();
    let order = async || {
        let listed = direct.list(&Scope::Key(Key::Directive(service(), node(failed)))).await.unwrap();
        let entry = listed.entries.into_iter().next().unwrap();
        let Ok(Value::Directive(order)) = entry.value else { panic!("an order") };
        (entry.mod_revision, order.body)
    };
    let before = order().await;
    let retry = async || {
        let asked = RetryInstanceRequest {
            id: "u1".to_owned(),
            node: node(failed).to_string(),
            who: "op".to_owned(),
            why: "it is mended".to_owned(),
            declare_stopped: false,
        };
        let leadership = coordinator.context.led_here().expect("it leads");
        operation::retry_instance(&coordinator.context, &leadership, asked).await
    };

    rests(&coordinator).await;
    hangs.send_replace(true);
    set_health(&direct, &lease, (failed + 1) % 3, Health::Unhealthy).await;
    let refused = retry().await.unwrap_err();
    assert!(refused.to_string().contains("not yet seen its own last write"), "{refused}");
    assert_eq!(order().await, before);
    hangs.send_replace(false);
    let retried = async { while retry().await.is_err() {} };
    timeout(LIMIT, retried).await.expect("it is retried by what is seen now");
    let now = order().await;
    assert!(now.0 > before.0 && now.1.presumes_out, "its agent declines it in rotation: {now:?}");
    end.cancel();
    coordinator.stop().await;
}

/// The first order does not arrive before the leader has given it up, and another instance falls silent meanwhile: the leader
/// orders nothing more.
#[tokio::test(flavor = "multi_thread")]
async fn order_that_arrives_late_takes_nothing_out() {
    let embedded = Embedded::in_memory();
    let direct = store(&embedded).await;
    let herd = Herd::at_version_1(store(&embedded).await, 3).await.slow(Duration::from_secs(2));
    let (sent, mut is_sent) = watch::channel(None);
    let (arrived, mut has_arrived) = watch::channel(false);
    let line = late_order(&embedded, Duration::from_secs(4), sent, arrived).await;
    let (coordinator, end) = upgrading(line, herd, 2).await;
    let lease = direct.lease(Duration::from_secs(60)).await.unwrap();
    let drained =
        timeout(LIMIT, is_sent.wait_for(Option::is_some)).await.expect("it orders one out").unwrap().unwrap();
    let other = (drained + 1) % 3;
    timeout(LIMIT, acknowledged(&direct, other))
        .await
        .expect("its agent reports the window, and then no more");
    set_health(&direct, &lease, other, Health::Healthy).await;
    lease.revoke().await.unwrap();
    timeout(LIMIT, has_arrived.wait_for(|arrived| *arrived)).await.expect("it arrives").unwrap();
    let orders = orders(&direct).await;
    assert!(!drains(&orders), "two must stay, and two are left: {orders:?}");
    end.cancel();
    coordinator.stop().await;
}
