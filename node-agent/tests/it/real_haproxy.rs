//! A drain's evidence, by the word of a real HAProxy.

use crate::world::haproxy::Haproxy;
use crate::world::store::directive;
use crate::world::{World, service, wait_for};
use tidegate_proto::Revision;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{NOT_LEFT, Rotation, Step};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drained_is_down_without_sessions_and_back_is_up() {
    let mut world = World::new().await;
    let haproxy = Haproxy::start(&mut world).await;
    world.more = "initial_release = \"pantry-1\"".to_owned();
    let _agent = world.agent();
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    assert!(haproxy.word().await.unwrap().is_up(), "it serves before the balancer says so");

    // A request is under way through the balancer when the drain begins.
    let slow = tokio::spawn(get(haproxy.port, "/slow"));
    wait_for("a session", &world, || haproxy.word(), |word| word.as_ref().is_ok_and(|w| w.sessions == 1))
        .await
        .unwrap();
    let generation = world.store.direct(directive(Disposition::Drain, vec![])).await;
    haproxy.wait_for_status(&world, "DOWN").await;
    let report = world.store.wait_for_report(&world, "out", |r| r.rotation == Rotation::Out).await;
    assert_eq!((report.step, report.generation), (Step::Draining, generation), "a session is open");
    assert_eq!(haproxy.word().await.unwrap().sessions, 1);
    assert!(get(haproxy.port, "/version").await.contains("503"), "a new request got in");
    // It has looked often enough to have concluded what it would conclude.
    let before = service::counted(world.path());
    wait_for("more looks", &world, || async { service::counted(world.path()) }, |n| *n >= before + 5).await;
    assert_eq!(world.store.report().await.unwrap().step, Step::Draining);
    std::fs::write(world.path().join("go"), "").unwrap();
    assert!(slow.await.unwrap().contains("200"), "the drain cost a request");
    world.store.wait_for_report(&world, "drained", |r| r.step == Step::Drained { forced: false }).await;
    let word = haproxy.word().await.unwrap();
    assert_eq!((word.status.as_str(), word.sessions), ("DOWN", 0));

    // Back into rotation: not before HAProxy itself says UP.
    let generation = world.store.direct(directive(Disposition::Serve { returning: true }, vec![])).await;
    world.store.wait_for_serving(&world, 1, generation).await;
    assert_eq!(haproxy.word().await.unwrap().status, "UP");
    assert!(get(haproxy.port, "/version").await.contains("200"));

    // What HAProxy does not see to be refused is not drained, whatever the file says.
    std::fs::write(world.path().join("stubborn"), "").unwrap();
    let mut drain = directive(Disposition::Drain, vec![]);
    drain.drain.deadline = tidegate_proto::Span::from_millis(700);
    let generation = world.store.direct(drain).await;
    let failed = |step: &Step| matches!(step, Step::Failed { at, .. } if at == NOT_LEFT);
    let report = world
        .store
        .wait_for_report(&world, "failed", |r| r.generation == generation && failed(&r.step))
        .await;
    assert!(format!("{:?}", report.step).contains("503"), "{report:?}");
    assert!(haproxy.word().await.unwrap().is_up());
}
