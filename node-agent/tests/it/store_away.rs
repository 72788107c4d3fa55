//! The store goes away, and comes back.

use crate::adopt::serving;
use crate::world::store::{directive, release, report_key};
use crate::world::wait_for;
use tidegate_proto::Revision;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Rotation, Step};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_go_on_and_the_report_comes_back() {
    let (world, _agent) = serving().await;
    world.store.leave();
    wait_for("the agent notices", &world, || async { world.log() }, |log| log.contains("the store is away"))
        .await;
    // The lease lapses meanwhile.
    wait_for("the report lapses", &world, || world.store.report(), Option::is_none).await;
    assert!(!world.disable_file().exists());
    assert_eq!(world.balancer.status(), "UP");
    world.store.come_back().await;
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    assert_eq!(world.starts().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_report_returns_under_another_admission() {
    let (world, _agent) = serving().await;
    let before = world.store.report().await.unwrap().admission;
    world.store.delete(report_key()).await;
    let report = world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    assert!(report.admission > before, "{report:?}");
    assert_eq!(report.admission, world.store.inventory().await.unwrap().0);
    assert_eq!(world.balancer.status(), "UP");
    assert_eq!(world.starts().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_starts_while_the_store_is_unreachable() {
    let (world, _agent) = serving().await;
    world.store.leave();
    wait_for("the agent notices", &world, || async { world.log() }, |log| log.contains("the store is away"))
        .await;
    crate::world::service::end(world.starts()[0].1, world.path());
    wait_for(
        "it waits, hidden",
        &world,
        || async { world.journal() },
        |j| j.contains("\"name\": \"stopped\""),
    )
    .await;
    wait_for("hidden", &world, || async { world.disable_file().exists() }, |there| *there).await;
    assert_eq!(world.starts().len(), 1);
    let reported = |log: &String| log.contains("nothing is started while the store is away");
    wait_for("why it waits", &world, || async { world.log() }, reported).await;
    world.store.come_back().await;
    wait_for("a second start", &world, || async { world.starts().len() }, |n| *n == 2).await;
    wait_for("UP", &world, || async { world.balancer.status() }, |status| status == "UP").await;
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    assert_eq!(world.starts().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn last_admitted_version_starts_where_allowed() {
    let (mut world, agent) = serving().await;
    agent.kill();
    world.more += "\nstart_without_store = true";
    let _agent = world.agent();
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    world.store.leave();
    wait_for("the agent notices", &world, || async { world.log() }, |log| log.contains("the store is away"))
        .await;
    crate::world::service::end(world.starts()[0].1, world.path());
    wait_for("a second start", &world, || async { world.starts().len() }, |n| *n == 2).await;
    wait_for("UP", &world, || async { world.balancer.status() }, |status| status == "UP").await;
    world.store.come_back().await;
    let report = world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    assert_eq!(report.step, Step::Serving);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_that_has_ended_does_not_become_a_stop() {
    let (world, _agent) = serving().await;
    world.balancer.say("UP", 0);
    let wanted = release(&world, 2);
    let replace = directive(Disposition::Replace { release: wanted.clone() }, vec![wanted]);
    let generation = world.store.direct(replace).await;
    world.store.wait_for_report(&world, "draining", |r| r.rotation == Rotation::Leaving).await;
    world.store.leave();
    let away = |log: &String| log.matches("the store is away").count() > 0;
    wait_for("the agent notices", &world, || async { world.log() }, away).await;
    world.balancer.follow();
    wait_for("drained", &world, || async { world.journal() }, |j| j.contains("\"name\": \"drained\"")).await;
    assert!(
        crate::world::service::is_running(world.starts()[0].1),
        "it was stopped while the store was away"
    );
    world.store.come_back().await;
    world.store.wait_for_serving(&world, 2, generation).await;
}
