//! The `command` driver: hooks start and stop the service, and the probe verifies it.

use crate::world::store::{directive, release};
use crate::world::{CALLED, World, service, wait_for};
use std::process::{Command, Stdio};
use tidegate_proto::Revision;
use tidegate_proto::record::directive::{Disposition, OnDeadline};
use tidegate_proto::record::report::{Report, Step};

/// Starts the service as a person, or an init system, would have.
pub(crate) async fn started_by_hand(world: &World, version: u32) {
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

pub(crate) fn hooks(world: &World, stop: &str) -> String {
    hooks_that(world, stop, "", 2)
}

/// Hooks whose start hook does something `before`; each may take `seconds`.
pub(crate) fn hooks_that(world: &World, stop: &str, before: &str, seconds: u32) -> String {
    let (room, program) = (world.path().display().to_string(), std::env::current_exe().unwrap());
    let start = format!(
        "{before} {}={{release_dir}}/service.json {} {CALLED} --exact --nocapture >/dev/null 2>&1 &",
        service::CONFIG,
        program.display()
    );
    let (stop, start) = (stop.replace("@ROOM@", &room), start.replace("@ROOM@", &room));
    format!(
        "[service.pantry.driver.command]\nstop = [\"sh\", \"-c\", {stop:?}]\nstart = [\"sh\", \"-c\", {start:?}]\n\
         timeout = \"{seconds}s\""
    )
}

/// Says that the hook was begun, and waits until the test lets it go on.
const HELD: &str = "echo begun >> @ROOM@/hooks; while [ ! -e @ROOM@/go ]; do sleep 0.02; done;";

fn hook_log(world: &World) -> Vec<String> {
    let text = std::fs::read_to_string(world.path().join("hooks")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

async fn wait_for_hook_log(world: &World, words: &[&str]) {
    wait_for("what the hooks wrote", world, || async { hook_log(world) }, |reported| reported == words).await;
}

/// The agent is killed and another one started, which has looked at least once.
async fn restarted(world: &World, agent: crate::world::agent::Agent) -> crate::world::agent::Agent {
    agent.kill();
    let before = world.store.revision().await;
    let again = world.agent();
    wait_for("a report of the new agent", world, || world.store.revision(), |at| *at > before).await;
    again
}

pub(crate) const KILL: &str = "kill $(tail -n 1 @ROOM@/starts | cut -d' ' -f2) || true";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_of_other_supervisor_is_replaced_by_hooks() {
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

/// Nothing answers, and no order starts it: its stop hook has to end well first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_stop_without_an_order_is_tried_again() {
    let mut world = World::new().await;
    world.more = "initial_release = \"pantry-1\"".to_owned();
    world.driver = Some(hooks(&world, "[ -e @ROOM@/mended ]"));
    let _agent = world.agent();
    let failed = |journal: &String| journal.contains("\"at\": \"stopping\"");
    wait_for("the failed stop", &world, || async { world.journal() }, failed).await;
    std::fs::write(world.path().join("mended"), "").unwrap();
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    assert_eq!(world.starts().len(), 1);
}

/// The agent ends before it has tried that again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_stop_is_tried_again_by_a_restarted_agent() {
    let mut world = World::new().await;
    world.more = "initial_release = \"pantry-1\"".to_owned();
    world.driver = Some(hooks(&world, "[ -e @ROOM@/mended ]"));
    let agent = world.agent();
    let failed = |journal: &String| journal.contains("\"at\": \"stopping\"");
    wait_for("the failed stop", &world, || async { world.journal() }, failed).await;
    let _again = restarted(&world, agent).await;
    std::fs::write(world.path().join("mended"), "").unwrap();
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    assert_eq!(world.starts().len(), 1);
}

/// What does not answer may be on its way down, or up: nothing is started beside it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_is_unconfirmed_while_status_hook_reports_running() {
    let mut world = World::new().await;
    let runs = world.path().join("runs");
    std::fs::write(&runs, "").unwrap();
    let status = format!("status = [\"test\", \"-e\", {runs:?}]");
    world.driver = Some(format!("{}\n{status}", hooks(&world, KILL)));
    started_by_hand(&world, 1).await;
    let _agent = world.agent();
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    let (old, new) = (release(&world, 1), release(&world, 2));
    let replace = directive(Disposition::Replace { release: new.clone() }, vec![old, new]);
    world.store.direct(replace.clone()).await;
    let failed = |step: &Step| matches!(step, Step::Failed { at, .. } if at == "stopping");
    let report = world.store.wait_for_report(&world, "failed", |r| failed(&r.step)).await;
    assert!(
        matches!(&report.step, Step::Failed { reason, .. } if reason.contains("the status hook still says")),
        "{report:?}"
    );
    assert_eq!(world.starts().len(), 1, "a second version was started beside the first");
    std::fs::remove_file(&runs).unwrap();
    let generation = world.store.direct(replace).await;
    world.store.wait_for_serving(&world, 2, generation).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_hook_outliving_agent_is_awaited_not_repeated() {
    let mut world = World::new().await;
    world.driver = Some(hooks_that(&world, KILL, HELD, 60));
    started_by_hand(&world, 1).await;
    let agent = world.agent();
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    let wanted = release(&world, 2);
    let replace = Disposition::Replace { release: wanted.clone() };
    let generation = world.store.direct(directive(replace, vec![wanted])).await;
    wait_for_hook_log(&world, &["begun"]).await;
    let _again = restarted(&world, agent).await;
    std::fs::write(world.path().join("go"), "").unwrap();
    world.store.wait_for_serving(&world, 2, generation).await;
    assert_eq!(hook_log(&world), ["begun"]);
    assert_eq!(world.starts().iter().map(|(v, _)| *v).collect::<Vec<_>>(), [1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_hook_that_ended_unseen_is_judged_by_what_answers() {
    let mut world = World::new().await;
    let sign = HELD.replace("echo begun", "echo $$ > @ROOM@/hook; echo begun");
    world.driver = Some(hooks_that(&world, KILL, &sign, 2));
    started_by_hand(&world, 1).await;
    let agent = world.agent();
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    let (old, new) = (release(&world, 1), release(&world, 2));
    let replace = Disposition::Replace { release: new.clone() };
    world.store.direct(directive(replace.clone(), vec![old.clone(), new.clone()])).await;
    wait_for_hook_log(&world, &["begun"]).await;
    agent.kill();
    // The hook ends as well, and nothing of what it was to do was done.
    let hook = std::fs::read_to_string(world.path().join("hook")).unwrap().trim().parse().unwrap();
    let hook = rustix::process::Pid::from_raw(hook).unwrap();
    rustix::process::kill_process_group(hook, rustix::process::Signal::KILL).unwrap();
    let _again = world.agent();
    let failed = |step: &Step| matches!(step, Step::Failed { at, .. } if at == "starting");
    let report = world.store.wait_for_report(&world, "failed", |r| failed(&r.step)).await;
    assert!(
        matches!(&report.step, Step::Failed { reason, .. } if reason.contains("not known how that ended")),
        "{report:?}"
    );
    assert_eq!(hook_log(&world), ["begun"]);
    // Asked again, it is stopped and started.
    std::fs::write(world.path().join("go"), "").unwrap();
    let generation = world.store.direct(directive(replace, vec![old, new])).await;
    world.store.wait_for_serving(&world, 2, generation).await;
    assert_eq!(world.starts().iter().map(|(v, _)| *v).collect::<Vec<_>>(), [1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_of_the_stop_hook_confirms_the_stop_for_a_restarted_agent() {
    let mut world = World::new().await;
    let stop = format!("{KILL}; {HELD} echo ended >> @ROOM@/hooks");
    world.driver = Some(hooks_that(&world, &stop, "echo started >> @ROOM@/hooks;", 60));
    started_by_hand(&world, 1).await;
    let agent = world.agent();
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    let wanted = release(&world, 2);
    let replace = Disposition::Replace { release: wanted.clone() };
    let generation = world.store.direct(directive(replace, vec![wanted])).await;
    wait_for_hook_log(&world, &["begun"]).await;
    // Nothing runs any more, and the hook is not through.
    let (_, pid) = world.starts()[0];
    wait_for("the service's end", &world, || async { service::is_running(pid) }, |runs| !runs).await;
    let _again = restarted(&world, agent).await;
    assert_eq!(hook_log(&world), ["begun"], "a second hook was begun beside the first");
    std::fs::write(world.path().join("go"), "").unwrap();
    world.store.wait_for_serving(&world, 2, generation).await;
    // How the first ended is not known, so it is run once more, to an end that is seen.
    assert_eq!(hook_log(&world), ["begun", "ended", "begun", "ended", "started"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_stop_hook_is_found_without_the_journal() {
    let mut world = World::new().await;
    let stop = format!("{HELD} {KILL}");
    world.driver = Some(hooks_that(&world, &stop, "", 60));
    started_by_hand(&world, 1).await;
    let agent = world.agent();
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    let (old, new) = (release(&world, 1), release(&world, 2));
    let replace = Disposition::Replace { release: new.clone() };
    world.store.direct(directive(replace, vec![old.clone(), new.clone()])).await;
    wait_for_hook_log(&world, &["begun"]).await;
    agent.kill();
    for file in world.journal_files() {
        std::fs::remove_file(file).unwrap();
    }
    // The rollback finds the former release still running.
    let back = Disposition::Replace { release: old.clone() };
    let generation = world.store.direct(directive(back, vec![old, new])).await;
    let _again = world.agent();
    let stops = |report: &Report| report.step == Step::Replacing && report.generation == generation;
    world.store.wait_for_report(&world, "stopping", stops).await;
    assert!(world.disable_file().exists(), "it was shown while its stop hook ran");
    std::fs::write(world.path().join("go"), "").unwrap();
    world.store.wait_for_serving(&world, 1, generation).await;
    assert_eq!(world.starts().iter().map(|(v, _)| *v).collect::<Vec<_>>(), [1, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_process_is_adopted_and_not_stopped_by_guess() {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crashed_service_with_http_counter_is_replaced() {
    let mut world = World::new().await;
    world.driver = Some(hooks(&world, KILL));
    started_by_hand(&world, 2).await;
    let _agent = world.agent();
    world.store.wait_for_serving(&world, 2, Revision::ABSENT).await;
    // It was exposed, and crashes: nothing listens any more, and the balancer has a session for a while.
    service::end(world.starts()[0].1, world.path());
    world.balancer.say("DOWN", 1);
    let wanted = release(&world, 1);
    let mut back = directive(Disposition::Replace { release: wanted.clone() }, vec![wanted]);
    back.drain.on_deadline = OnDeadline::Fail;
    let generation = world.store.direct(back).await;
    let draining = |r: &Report| r.generation == generation && r.step == Step::Draining;
    world.store.wait_for_report(&world, "draining", draining).await;
    let asked = world.balancer.asked();
    wait_for("more questions", &world, || async { world.balancer.asked() }, |n| *n >= asked + 4).await;
    assert_eq!(world.store.report().await.unwrap().step, Step::Draining, "a session is open");
    world.balancer.follow();
    world.store.wait_for_serving(&world, 1, generation).await;
    assert_eq!(world.starts().iter().map(|(v, _)| *v).collect::<Vec<_>>(), [2, 1]);
}
