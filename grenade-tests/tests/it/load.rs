//! The load must see what goes wrong: a load that finds nothing proves nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::response::{IntoResponse, Json};
use grenade_tests::load::LoadHandle;
use grenade_tests::load::findings::Findings;
use grenade_tests::load::object::Object;
use grenade_tests::load::outcome::{Failure, Outcome};
use grenade_tests::load::plan::Due;
use grenade_tests::load::requests::{Requests, Target, Versions};
use grenade_tests::load::script::{Script, steps_of};
use grenade_tests::world::wait::wait_for;
use grenade_tests::world::{balancer, port};
use rand::SeedableRng;

use crate::rig::{LIMIT, Rig, all_up, servers};

async fn until(load: &LoadHandle, ok: u64) {
    wait_for("good answers", LIMIT, || async {
        let progress = load.progress();
        if progress.ok >= ok { Ok(()) } else { Err(format!("{progress:?}")) }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_killed_backend_is_counted_and_the_ledger_agrees() {
    let rig = Rig::new();
    let database = rig.sqlite(100).await;
    let (mut one, other) = (rig.pantry(1, "n1", &database).await, rig.pantry(1, "n2", &database).await);
    let balancer = balancer::start(&rig.world, &servers(&[&one, &other])).await.unwrap();
    all_up(&balancer, &[&one, &other]).await;
    let load = rig.load(balancer.address, 100, 100).start().unwrap();
    until(&load, 150).await;
    one.process.crash().unwrap();
    let before = load.progress().ok;
    until(&load, before + 100).await;
    let report = load.stop().await.unwrap();
    assert!(report.failed > 0, "a backend was killed under load and nothing failed: {report:#?}");
    assert_eq!(report.sent, report.ok + report.failed + report.not_sent);
    assert_eq!(report.failures.values().sum::<u64>(), report.failed);
    let ledger = std::fs::read_to_string(rig.world.path("requests.csv")).unwrap();
    let count =
        |outcome: &str| ledger.lines().filter(|line| line.split(',').nth(8) == Some(outcome)).count() as u64;
    assert_eq!((count("ok"), count("failed")), (report.ok, report.failed));
}

#[tokio::test]
async fn load_is_an_open_loop_of_every_kind_at_its_rate() {
    let rig = Rig::new();
    let database = rig.sqlite(100).await;
    let pantry = rig.pantry(1, "n1", &database).await;
    let load = rig.load(pantry.plan.address, 150, 100).start().unwrap();
    until(&load, 450).await;
    let report = load.stop().await.unwrap();
    assert_eq!(report.failed, 0, "{report:#?}");
    assert!(report.latency_ms.p50 > 0.0 && report.latency_ms.p50 <= report.latency_ms.p999, "{report:#?}");
    let entries = grenade_tests::load::entry::read(&rig.world.path("requests.csv")).unwrap();
    let longest = entries.iter().map(|entry| entry.done_ms - entry.sent_ms).fold(0.0, f64::max);
    assert!(longest > 1_900.0, "an upload takes 3 s, and the longest request took {longest} ms");
    let ledger = std::fs::read_to_string(rig.world.path("requests.csv")).unwrap();
    for kind in ["create", "read", "read-seeded", "list", "update", "share", "upload"] {
        assert!(ledger.lines().any(|line| line.split(',').nth(6) == Some(kind)), "no {kind} in the ledger");
    }
    let mut due: Vec<(u64, f64)> = ledger
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect::<Vec<_>>())
        .map(|fields| (fields[0].parse().unwrap(), fields[1].parse().unwrap()))
        .collect();
    due.sort_by_key(|(seq, _)| *seq);
    for (seq, at) in due {
        let right = seq as f64 * 1000.0 / 150.0;
        assert!((at - right).abs() < 1.0, "request {seq} was due at {at} ms, not {right} ms");
    }
}

/// A service that answers well-formed lies: only the content shows it.
#[tokio::test]
async fn wrong_content_is_a_failure() {
    let rig = Rig::new();
    let lie = || async {
        let image = serde_json::json!({"id": "seed-00000000", "name": "image 0", "public": true, "shared": false,
            "size": 1, "checksum": "", "written_by": 1, "is_public": true, "images": []});
        ([("x-pantry-version", "1"), ("x-pantry-node", "liar")], Json(image)).into_response()
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let server = tokio::spawn(async move { axum::serve(listener, Router::new().fallback(lie)).await });
    let load = rig.load(at, 100, 100).start().unwrap();
    wait_for("20 outcomes", LIMIT, || async {
        let progress = load.progress();
        if progress.failed >= 20 { Ok(()) } else { Err(format!("{progress:?}")) }
    })
    .await
    .unwrap();
    let report = load.stop().await.unwrap();
    server.abort();
    assert_eq!(report.ok, 0, "{report:#?}");
    assert!(report.failures.contains_key("wrong content"), "{report:#?}");
    assert!(report.failures.contains_key("status 200"), "a create must answer 201: {report:#?}");
}

/// A connection that is accepted and closed is a reset, and is not tried again.
#[tokio::test]
async fn a_reset_is_a_failure_and_nothing_is_retried() {
    let rig = Rig::new();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (at, open) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(true)));
    let going = Arc::clone(&open);
    let server = tokio::spawn(async move {
        let mut accepted = 0_u64;
        while going.load(Ordering::SeqCst) {
            if let Ok(Ok(_)) =
                tokio::time::timeout(std::time::Duration::from_millis(200), listener.accept()).await
            {
                accepted += 1;
            }
        }
        accepted
    });
    let load = rig.load(at, 50, 100).start().unwrap();
    wait_for("20 outcomes", LIMIT, || async {
        let progress = load.progress();
        if progress.failed >= 20 { Ok(()) } else { Err(format!("{progress:?}")) }
    })
    .await
    .unwrap();
    let report = load.stop().await.unwrap();
    open.store(false, Ordering::SeqCst);
    assert_eq!(report.failures.get("reset"), Some(&report.sent), "{report:#?}");
    assert_eq!(server.await.unwrap(), report.sent, "one connection for each request");
}

/// More objects of one kind than are read again are no reason to leave those of another kind unread.
#[tokio::test]
async fn each_kind_of_object_is_read_again() {
    let steps = "- {name: many, uses: a, request: {path: '/a/{id}'}}\n- {name: few, uses: b, request: {path: '/b/{id}'}}\n";
    let object = |kind: &str, id: u32| {
        let variables = serde_json::Map::from_iter([("id".to_owned(), id.into())]);
        (kind.to_owned(), Object { variables, written_by: Some(1) })
    };
    let existing = (0..5).map(|id| object("a", id)).chain((0..2).map(|id| object("b", id))).collect();
    let mut findings = Findings::default();
    let script = Script::settled(steps_of(steps).unwrap(), existing, 0.0, None, &mut findings);
    assert!(findings.all().is_empty(), "{:?}", findings.all());
    // Nothing listens there, so each object that is to be read is named.
    let nowhere = Target::Balancer(port::free().unwrap(), Versions::default());
    let sweep = Requests::new(Arc::new(script.unwrap()), nowhere).sweep(3).await;
    let of = |kind: &str| sweep.unread.iter().filter(|said| said.starts_with(&format!("a {kind} "))).count();
    assert_eq!((sweep.read, of("a"), of("b")), (5, 3, 2), "{sweep:?}");
}

/// One read of a seeded image, due at an instant.
async fn one_request(to: std::net::SocketAddr, due: tokio::time::Instant) -> Outcome {
    let requests = Rig::new().load(to, 1, 100).requests();
    let mut dice = rand::rngs::StdRng::seed_from_u64(1);
    let read =
        std::iter::repeat_with(|| requests.draw(&mut dice)).find(|drawn| drawn.name(&requests) == "list");
    requests.attempt(Due { seq: 7, at: due }, read.unwrap()).await
}

/// A request that could not be sent in its second is failed, and is not sent late either.
#[tokio::test]
async fn a_late_request_is_a_failure_of_its_own() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let due = tokio::time::Instant::now() - std::time::Duration::from_millis(1100);
    let outcome = one_request(at, due).await;
    assert!(matches!(outcome.failure, Some(Failure::NotSent)), "{outcome:?}");
    let connection = tokio::time::timeout(std::time::Duration::from_millis(50), listener.accept()).await;
    assert!(connection.is_err(), "it was sent all the same");
}

/// Takes the ten seconds that it is about.
#[tokio::test]
async fn a_service_that_never_answers_is_a_failure_after_ten_seconds() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let outcome = one_request(at, tokio::time::Instant::now()).await;
    assert!(matches!(outcome.failure, Some(Failure::Silence)), "{outcome:?}");
    let took = (outcome.done - outcome.sent).as_secs_f64();
    assert!((10.0..12.0).contains(&took), "{took} s");
    drop(listener);
}
