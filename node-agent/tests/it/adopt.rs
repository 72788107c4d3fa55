//! A service that runs already, or is to be started for the first time.

use crate::world::store::{directive, release, version};
use crate::world::{World, wait_for};
use tidegate_proto::Revision;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Health, Rotation, Step};

/// A world whose first release is started by the agent, and stands.
pub(crate) async fn serving() -> (World, crate::world::agent::Agent) {
    let mut world = World::new().await;
    world.more = "initial_release = \"pantry-1\"".to_owned();
    let agent = world.agent();
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    (world, agent)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_initial_release_is_admitted_started_and_reported() {
    let (world, _agent) = serving().await;
    let report = world.store.report().await.unwrap();
    assert_eq!((report.health, report.rotation), (Health::Healthy, Rotation::In));
    let (admission, inventory) = world.store.inventory().await.unwrap();
    assert_eq!(report.admission, admission);
    assert_eq!(inventory.version, version(1));
    assert_eq!(inventory.labels["zone"], "a");
    assert_eq!(report.release.as_ref(), Some(&release(&world, 1).tag));
    assert_eq!(report.release_digest, Some(release(&world, 1).sha256));
    assert_eq!(world.starts().len(), 1);
    assert!(!world.disable_file().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_service_is_adopted_without_a_drain() {
    let (world, agent) = serving().await;
    let before = world.store.inventory().await.unwrap().0;
    agent.kill();
    // Nothing is left of the agent but the service: another state directory, as on a node that had none before.
    world.journal_files().iter().for_each(|file| std::fs::remove_file(file).unwrap());
    let watched = world.disable_file();
    let asked = world.balancer.asked();
    let _again = world.agent();
    wait_for(
        "the agent asks the balancer again",
        &world,
        || async { world.balancer.asked() },
        |n| *n > asked + 1,
    )
    .await;
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    assert!(!watched.exists(), "it was taken out of rotation");
    assert_eq!(world.starts().len(), 1, "it was started a second time");
    assert_eq!(world.balancer.status(), "UP");
    // What the lock knows is enough to go on from: the release is replaced like any other. An order that is older than the
    // admission would be declined.
    let admission = || async { world.store.inventory().await.unwrap().0 };
    wait_for("the new agent is admitted", &world, admission, |admitted| *admitted > before).await;
    let wanted = release(&world, 2);
    let replace = Disposition::Replace { release: wanted.clone() };
    let generation = world.store.direct(directive(replace, vec![wanted])).await;
    world.store.wait_for_serving(&world, 2, generation).await;
    assert_eq!(world.starts().iter().map(|(v, _)| *v).collect::<Vec<_>>(), [1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_ends_by_itself_is_admitted_and_started_again() {
    let (world, _agent) = serving().await;
    let (_, pid) = world.starts()[0];
    crate::world::service::end(pid, world.path());
    wait_for("a second start", &world, || async { world.starts().len() }, |n| *n == 2).await;
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    let report = world.store.report().await.unwrap();
    assert_eq!(report.admission, world.store.inventory().await.unwrap().0);
    assert_eq!(report.step, Step::Serving);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_agent_ends_on_a_signal_and_the_service_goes_on() {
    let (world, mut agent) = serving().await;
    agent.terminate();
    assert!(agent.wait().await.success());
    let (_, pid) = world.starts()[0];
    assert!(crate::world::service::is_running(pid));
    let before = world.store.inventory().await.unwrap().0;
    let _again = world.agent();
    let asked = world.balancer.asked();
    wait_for("the agent looks again", &world, || async { world.balancer.asked() }, |n| *n > asked).await;
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    assert_eq!(world.starts().len(), 1);
    assert_eq!(
        world.store.inventory().await.unwrap().0,
        before,
        "it was admitted again though nothing had changed"
    );
}
