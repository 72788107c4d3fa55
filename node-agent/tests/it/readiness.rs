//! A service whose readiness URL is its health URL, and one that ends at once.

use crate::command::{KILL, hooks, started_by_hand};
use crate::world::World;
use crate::world::agent::Agent;
use crate::world::store::{directive, release};
use tidegate_proto::record::directive::{Directive, Disposition};
use tidegate_proto::record::report::{Health, Report, Step};
use tidegate_proto::{Revision, Span};

/// Version 1 serves; readiness is asked at the health URL.
async fn serving() -> (World, Agent) {
    let mut world = World::new().await;
    world.more = "initial_release = \"pantry-1\"".to_owned();
    world.ready = "healthcheck";
    let agent = world.agent();
    let report = world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    assert!(report.abilities.ready_by_health);
    (world, agent)
}

fn replaced_by(world: &World, version: u32) -> Directive {
    let wanted = release(world, version);
    directive(Disposition::Replace { release: wanted.clone() }, vec![release(world, 1), wanted])
}

/// The text of its failure to be verified.
async fn failed_in_verifying(world: &World, generation: Revision) -> String {
    let failed = |r: &Report| {
        r.generation == generation && matches!(&r.step, Step::Failed { at, .. } if at == "verifying")
    };
    match world.store.wait_for_report(world, "failed", failed).await.step {
        Step::Failed { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ready_url_equal_to_health_url_blocks_no_instance() {
    let (world, _agent) = serving().await;
    for version in [2, 1] {
        let generation = world.store.direct(replaced_by(&world, version)).await;
        world.store.wait_for_serving(&world, version.into(), generation).await;
    }
    // Drained, it is as healthy as before, and comes back.
    let generation = world.store.direct(directive(Disposition::Drain, vec![])).await;
    let drained = |r: &Report| r.generation == generation && matches!(r.step, Step::Drained { .. });
    let report = world.store.wait_for_report(&world, "drained", drained).await;
    assert_eq!(report.health, Health::Healthy);
    let serve = directive(Disposition::Serve { returning: true }, vec![]);
    let generation = world.store.direct(serve).await;
    world.store.wait_for_serving(&world, 1, generation).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instance_not_ready_when_shown_is_hidden_and_rolls_back() {
    let (world, _agent) = serving().await;
    std::fs::write(world.path().join("sick-2"), "").unwrap();
    let mut directive = replaced_by(&world, 2);
    directive.health.healthy_deadline = Span::from_secs(4);
    let generation = world.store.direct(directive).await;
    let reason = failed_in_verifying(&world, generation).await;
    assert!(reason.contains("not ready when it was shown"), "{reason}");
    assert!(reason.contains("ready_url: 503"), "{reason}");
    crate::world::wait_for("the file", &world, || async { world.disable_file().exists() }, |there| *there)
        .await;
    assert!(world.log().contains("DATABASE DOWN"), "the answer is in the log");
    let generation = world.store.direct(replaced_by(&world, 1)).await;
    world.store.wait_for_serving(&world, 1, generation).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_that_exits_at_once_fails_with_the_last_answers() {
    let (mut world, agent) = serving().await;
    drop(agent);
    let text = std::fs::read_to_string(world.config()).unwrap();
    let process = text.split_once("[service.pantry.driver.process]").unwrap().1;
    let process = process.split_once("[[service").unwrap().0;
    // Only version 2 ends.
    let ends = process.replacen(
        "argv = [",
        "argv = [\"sh\", \"-c\", \"case {tag} in pantry-2) exit 1;; esac; exec \\\"$@\\\"\", \"sh\", ",
        1,
    );
    world.driver = Some(format!("[service.pantry.driver.process]{ends}"));
    let _agent = world.agent();
    let mut directive = replaced_by(&world, 2);
    directive.health.healthy_deadline = Span::from_secs(3600);
    let generation = world.store.direct(directive).await;
    let reason = failed_in_verifying(&world, generation).await;
    assert!(reason.contains("ended by itself") && reason.contains("nothing listens"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hook_service_that_exits_at_once_fails_by_its_status_hook() {
    let mut world = World::new().await;
    let start = hooks(&world, KILL)
        .replace("start = [\"sh\", \"-c\", \"", "start = [\"sh\", \"-c\", \"[ {tag} = pantry-2 ] && exit 0;");
    world.driver = Some(format!("{start}\nstatus = [\"sh\", \"-c\", \"exit 3\"]"));
    started_by_hand(&world, 1).await;
    let _agent = world.agent();
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    let mut directive = replaced_by(&world, 2);
    directive.health.healthy_deadline = Span::from_secs(3600);
    let generation = world.store.direct(directive).await;
    let reason = failed_in_verifying(&world, generation).await;
    assert!(reason.contains("status hook") && reason.contains("nothing listens at http://"), "{reason}");
    let generation = world.store.direct(replaced_by(&world, 1)).await;
    world.store.wait_for_serving(&world, 1, generation).await;
}
