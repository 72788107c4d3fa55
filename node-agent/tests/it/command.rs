//! The `command` driver: hooks do it, and what answers tells whether they did.

use crate::world::store::{directive, release};
use crate::world::{CALLED, World, service, wait_for};
use std::process::{Command, Stdio};
use tidegate_proto::Revision;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::Step;

/// Starts the service as a person, or an init system, would have.
async fn started_by_hand(world: &World, version: u32) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([CALLED, "--exact", "--nocapture"])
        .env(service::CONFIG, world.artifact(version))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::spawn(move || child.wait());
    wait_for("UP", world, || async { world.balancer.status() }, |status| status == "UP").await;
}

fn hooks(world: &World, stop: &str) -> String {
    let (room, program) = (world.path().display(), std::env::current_exe().unwrap());
    let start = format!(
        "{}={{release_dir}}/service.json {} {CALLED} --exact --nocapture >/dev/null 2>&1 &",
        service::CONFIG,
        program.display()
    );
    let stop = stop.replace("@ROOM@", &room.to_string());
    format!(
        "[service.pantry.driver.command]\nstop = [\"sh\", \"-c\", {stop:?}]\nstart = [\"sh\", \"-c\", {start:?}]\n\
         timeout = \"2s\""
    )
}

const KILL: &str = "kill $(tail -n 1 @ROOM@/starts | cut -d' ' -f2)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_of_another_supervisor_is_adopted_and_replaced_by_hooks() {
    let mut world = World::new().await;
    world.driver = Some(hooks(&world, KILL));
    started_by_hand(&world, 1).await;
    let _agent = world.agent();
    let report = world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    assert!(!world.disable_file().exists());
    assert_eq!(report.release, Some(release(&world, 1).tag), "the configuration says what carries version 1");
    let wanted = release(&world, 2);
    let replace = Disposition::Replace { release: wanted.clone() };
    let generation = world.store.direct(directive(replace, vec![wanted])).await;
    world.store.wait_for_serving(&world, 2, generation).await;
    assert_eq!(world.starts().iter().map(|(v, _)| *v).collect::<Vec<_>>(), [1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_hook_that_says_yes_and_does_nothing_is_not_believed() {
    let mut world = World::new().await;
    world.driver = Some(hooks(&world, "true"));
    started_by_hand(&world, 1).await;
    let _agent = world.agent();
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    let (old, new) = (release(&world, 1), release(&world, 2));
    let replace = Disposition::Replace { release: new.clone() };
    world.store.direct(directive(replace, vec![old, new])).await;
    let failed = |step: &Step| matches!(step, Step::Failed { at, .. } if at == "stopping");
    let report = world.store.wait_for_report(&world, "failed", |r| failed(&r.step)).await;
    assert!(
        matches!(&report.step, Step::Failed { reason, .. } if reason.contains("still answers")),
        "{report:?}"
    );
    assert_eq!(world.starts().len(), 1, "a second version was started beside the first");
    let serve = directive(Disposition::Serve { returning: true }, vec![]);
    let generation = world.store.direct(serve).await;
    world.store.wait_for_serving(&world, 1, generation).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_the_agent_did_not_start_is_adopted_and_not_stopped_by_guess() {
    let world = World::new().await;
    started_by_hand(&world, 1).await;
    let _agent = world.agent();
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    assert!(!world.disable_file().exists());
    let (old, new) = (release(&world, 1), release(&world, 2));
    let replace = Disposition::Replace { release: new.clone() };
    world.store.direct(directive(replace, vec![old, new])).await;
    let failed = |step: &Step| matches!(step, Step::Failed { at, .. } if at == "stopping");
    world.store.wait_for_report(&world, "failed", |r| failed(&r.step)).await;
    assert_eq!(world.starts().len(), 1);
    assert!(service::is_running(world.starts()[0].1));
}
