//! At rest nothing is written; what hangs falls silent.

use crate::adopt::serving;
use crate::world::wait_for;
use std::time::Duration;
use tidegate_proto::record::report::{Health, Step};
use tidegate_proto::{Revision, ServiceVersion};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_steady_agent_writes_no_key() {
    let (world, _agent) = serving().await;
    // One bad answer is no change.
    let before = world.store.revision().await;
    let start = std::time::Instant::now();
    let asked = world.balancer.asked();
    // Longer than its lease lives, so that keep-alives are among what happens.
    wait_for("three seconds", &world, || async { start.elapsed() }, |t| *t > Duration::from_secs(6)).await;
    assert!(world.balancer.asked() > asked, "the agent did not look at all");
    assert_eq!(world.store.revision().await, before, "{}", world.log());
    assert!(world.store.report().await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_is_acknowledged_after_it_is_journalled() {
    let (world, _agent) = serving().await;
    let window = world.store.set_window(1, 2).await;
    world.store.wait_for_report(&world, "the acknowledgement", |r| r.window == window).await;
    let journal: serde_json::Value = serde_json::from_str(&world.journal()).unwrap();
    assert_eq!(journal["window"]["revision"], window.0);
    assert_eq!(journal["witness"]["floor"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_that_hangs_silences_the_agent_and_the_service_stays() {
    let (world, _agent) = serving().await;
    let first = world.store.report().await.unwrap();
    std::fs::write(world.path().join("hang"), "").unwrap();
    wait_for("silence", &world, || world.store.report(), Option::is_none).await;
    assert!(!world.disable_file().exists());
    std::fs::remove_file(world.path().join("hang")).unwrap();
    let report = world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    assert!(report.admission > first.admission, "after a lost lease it is admitted again");
    assert_eq!(world.starts().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_is_not_ready_is_unhealthy_and_stays() {
    let (world, _agent) = serving().await;
    std::fs::write(world.path().join("unready-1"), "").unwrap();
    let report = world.store.wait_for_report(&world, "unhealthy", |r| r.health == Health::Unhealthy).await;
    assert_eq!((report.version, report.step), (ServiceVersion::new(1).ok(), Step::Serving));
    std::fs::remove_file(world.path().join("unready-1")).unwrap();
    world.store.wait_for_report(&world, "healthy", |r| r.health == Health::Healthy).await;
    assert_eq!(world.starts().len(), 1);
}
