//! What is refused, and how that is said.

use crate::adopt::serving;
use crate::world::agent::PROGRAM;
use crate::world::store::{directive, release, report_key, service};
use crate::world::{LONG, World, wait_for};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tidegate_proto::record::Record;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Identity, Report, Rotation, Step};
use tidegate_proto::{Key, Revision};

/// Runs the program to its end, which has to come by itself.
pub(crate) fn run(arguments: &[&str], config: &Path) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).arg("--config").arg(config);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let end = Instant::now() + LONG;
    while child.try_wait().unwrap().is_none() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    let late = child.try_wait().unwrap().is_none();
    // Ended already, unless it is late.
    let _ = child.kill();
    let output = child.wait_with_output().unwrap();
    assert!(!late, "{arguments:?} did not end within {LONG:?}: {}", words(&output));
    output
}

pub(crate) fn words(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn refused(report: &Report) -> bool {
    matches!(report.step, Step::Refused { .. })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_old_node_is_not_started() {
    let mut world = World::new().await;
    world.more = "initial_release = \"pantry-1\"".to_owned();
    world.store.set_window(2, 2).await;
    let _agent = world.agent();
    let report = world.store.wait_for_report(&world, "refused", refused).await;
    let Step::Refused { reason } = &report.step else { unreachable!() };
    assert!(reason.contains("below the floor 2"), "{reason}");
    assert!(world.starts().is_empty());
    assert!(world.disable_file().exists());
    assert!(world.store.inventory().await.is_none());
    // The window moves: it may.
    world.store.set_window(1, 2).await;
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_old_node_is_kept_out_of_rotation() {
    let (world, agent) = serving().await;
    agent.kill();
    let before = world.store.inventory().await.unwrap().0;
    world.store.set_window(2, 2).await;
    let _again = world.agent();
    let report = world
        .store
        .wait_for_report(&world, "refused and out", |r| refused(r) && r.rotation == Rotation::Out)
        .await;
    assert_eq!(report.version.map(|v| v.get()), Some(1));
    assert_eq!(world.store.inventory().await.unwrap().0, before);
    wait_for("DOWN", &world, || async { world.balancer.status() }, |s| s == "DOWN").await;
    // It can only go forward.
    let wanted = release(&world, 2);
    let replace = directive(Disposition::Replace { release: wanted.clone() }, vec![wanted]);
    let generation = world.store.direct(replace).await;
    world.store.wait_for_serving(&world, 2, generation).await;
}

/// The floor of storage that another tool upgrades rises to what compute releases need, whatever runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_restart_below_a_watched_floor_leaves_it_serving() {
    let (world, agent) = serving().await;
    let risen = world.store.set_followed_floor(2).await;
    world.store.wait_for_report(&world, "the window acknowledged", |r| r.window == risen).await;
    agent.kill();
    let _again = world.agent();
    let inside = |r: &Report| refused(r) && r.rotation == Rotation::In;
    let report = world.store.wait_for_report(&world, "refused and in rotation", inside).await;
    assert_eq!(report.version.map(|v| v.get()), Some(1));
    let asked = world.balancer.asked();
    wait_for("more looks", &world, || async { world.balancer.asked() }, |n| *n > asked).await;
    assert!(!world.disable_file().exists());
    // The floor falls again.
    world.store.set_followed_floor(1).await;
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_outside_window_is_not_started_rollback_works() {
    let (world, _agent) = serving().await;
    world.store.set_window(1, 1).await;
    let (old, new) = (release(&world, 1), release(&world, 2));
    let replace = directive(Disposition::Replace { release: new.clone() }, vec![old.clone(), new]);
    world.store.direct(replace).await;
    let report = world.store.wait_for_report(&world, "refused", refused).await;
    assert!(
        matches!(&report.step, Step::Refused { reason } if reason.contains("above the ceiling 1")),
        "{report:?}"
    );
    assert_eq!(report.version, None);
    assert_eq!(world.starts().len(), 1);
    let back = directive(Disposition::Replace { release: old.clone() }, vec![old]);
    let generation = world.store.direct(back).await;
    world.store.wait_for_serving(&world, 1, generation).await;
}

/// The history of the report, oldest first, with its revisions.
async fn reports(world: &World, since: Revision) -> Vec<(Revision, Report)> {
    let end = world.store.revision().await;
    let mut seen: Vec<(Revision, Report)> = Vec::new();
    let mut client = world.store.embedded.client().await.unwrap().kv_client();
    for at in since.0..=end.0 {
        let options = etcd_client::GetOptions::new().with_revision(at);
        let found = client.get("/tidegate/reports/pantry/n1", Some(options)).await.unwrap();
        for kv in found.kvs() {
            let record: Record<Report> = Record::decode(kv.value()).unwrap();
            if seen.last().is_none_or(|(last, _)| last.0 != kv.mod_revision()) {
                seen.push((Revision(kv.mod_revision()), record.body));
            }
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_changed_by_hand_is_admitted_before_report() {
    let (world, _agent) = serving().await;
    let good = world.store.set_window(1, 3).await;
    world.store.wait_for_report(&world, "the window acknowledged", |r| r.window == good).await;
    let before = world.store.inventory().await.unwrap().0;
    // The store does not answer: what authorises an admission cannot be read.
    let mut client = world.store.embedded.client().await.unwrap().kv_client();
    client.put("/tidegate/windows/pantry", "no window", None).await.unwrap();
    std::fs::write(world.path().join("changed-to"), "3").unwrap();
    let report = world.store.wait_for_report(&world, "the old version unsaid", |r| r.version.is_none()).await;
    assert_eq!(report.release, None, "{report:?}");
    assert_eq!(world.store.inventory().await.unwrap().0, before);
    let since = world.store.set_window(1, 3).await;
    let report =
        world.store.wait_for_report(&world, "version 3", |r| r.version.map(|v| v.get()) == Some(3)).await;
    let (admission, inventory) = world.store.inventory().await.unwrap();
    assert_eq!((report.admission, inventory.version.get()), (admission, 3));
    for (revision, report) in reports(&world, since).await {
        let said = report.version.map(|v| v.get());
        assert!(said.is_none() || said == Some(3) && revision > admission, "at {revision}: {report:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_instance_is_enabled_only_after_admission() {
    let (world, _agent) = serving().await;
    let before = world.store.inventory().await.unwrap().0;
    let window = world.store.set_window(2, 2).await;
    world.store.wait_for_report(&world, "the window acknowledged", |r| r.window == window).await;
    // Its code is changed behind the agent's back, and changed back: what was admitted before the floor rose is asked
    // for again, and refused.
    let out = |r: &Report, version| {
        refused(r) && r.rotation == Rotation::Out && r.version.map(|v| v.get()) == Some(version)
    };
    std::fs::write(world.path().join("changed-to"), "3").unwrap();
    world.store.wait_for_report(&world, "3 refused and out", |r| out(r, 3)).await;
    std::fs::remove_file(world.path().join("changed-to")).unwrap();
    world.store.wait_for_report(&world, "1 refused and out", |r| out(r, 1)).await;
    // A directive that wants it to serve says nothing about whether it may.
    let serve = directive(Disposition::Serve { returning: true }, vec![]);
    let generation = world.store.direct(serve).await;
    let since = world.store.wait_for_report(&world, "accepted", |r| r.generation == generation).await;
    assert!(since.step != Step::Serving, "{since:?}");
    let asked = world.balancer.asked();
    world.store.wait_for_report(&world, "refused and out again", |r| out(r, 1)).await;
    wait_for("more looks", &world, || async { world.balancer.asked() }, |n| *n > asked).await;
    assert!(world.disable_file().exists());
    assert_eq!(world.balancer.status(), "DOWN");
    assert!(reports(&world, generation).await.iter().all(|(_, r)| r.rotation == Rotation::Out));
    // The window moves: admitted first, then shown.
    let moved = world.store.set_window(1, 2).await;
    world.store.wait_for_serving(&world, 1, generation).await;
    for (revision, report) in reports(&world, generation).await {
        assert!(report.rotation != Rotation::In || report.window == moved, "at {revision}: {report:?}");
    }
    let admission = world.store.report().await.unwrap().admission;
    assert_eq!(admission, world.store.inventory().await.unwrap().0);
    assert!(
        admission > before,
        "what was refused is admitted again, at the version of the former admission too"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_version_serves_until_drained_or_contracted() {
    let (world, _agent) = serving().await;
    let window = world.store.set_window_after_contract(1, 1).await;
    world.store.wait_for_report(&world, "the window acknowledged", |r| r.window == window).await;
    std::fs::write(world.path().join("changed-to"), "3").unwrap();
    let inside = |r: &Report| refused(r) && r.rotation == Rotation::In;
    let report = world.store.wait_for_report(&world, "3 refused and in rotation", inside).await;
    assert_eq!(report.version.map(|v| v.get()), Some(3), "{report:?}");
    let asked = world.balancer.asked();
    wait_for("more looks", &world, || async { world.balancer.asked() }, |n| *n > asked + 3).await;
    assert!(!world.disable_file().exists());
    assert_eq!(world.balancer.status(), "UP");
    // The coordinator drains it, and nothing else brings it back.
    let generation = world.store.direct(directive(Disposition::Drain, vec![])).await;
    let drained = |r: &Report| r.generation == generation && matches!(r.step, Step::Drained { .. });
    world.store.wait_for_report(&world, "drained", drained).await;
    let back = directive(Disposition::Serve { returning: true }, vec![]);
    let generation = world.store.direct(back).await;
    let out = |r: &Report| refused(r) && r.rotation == Rotation::Out && r.generation == generation;
    world.store.wait_for_report(&world, "refused and out", out).await;
    std::fs::remove_file(world.path().join("changed-to")).unwrap();
    world.store.wait_for_serving(&world, 1, generation).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_version_below_the_contracted_one_is_disabled_at_once() {
    let (world, _agent) = serving().await;
    std::fs::write(world.path().join("changed-to"), "3").unwrap();
    world.store.wait_for_serving(&world, 3, Revision::ABSENT).await;
    let window = world.store.set_window_after_contract(3, 2).await;
    world.store.wait_for_report(&world, "the window acknowledged", |r| r.window == window).await;
    std::fs::write(world.path().join("changed-to"), "1").unwrap();
    let out = |r: &Report| refused(r) && r.rotation == Rotation::Out;
    world.store.wait_for_report(&world, "1 refused and out", out).await;
    // One that the contract bears stays, and is disabled when another contract raises that.
    std::fs::write(world.path().join("changed-to"), "3").unwrap();
    world.store.wait_for_serving(&world, 3, Revision::ABSENT).await;
    std::fs::write(world.path().join("changed-to"), "2").unwrap();
    let inside = |r: &Report| refused(r) && r.rotation == Rotation::In;
    world.store.wait_for_report(&world, "2 refused and in rotation", inside).await;
    world.store.set_window_after_contract(3, 3).await;
    world.store.wait_for_report(&world, "2 refused and out", out).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_agent_of_node_is_refused_naming_holder() {
    let (world, first) = serving().await;
    // The same state directory.
    let output = run(&["run"], &world.config());
    assert_eq!(output.status.code(), Some(4), "{}", words(&output));
    assert!(words(&output).contains(&format!("pid {}", first.pid())), "{}", words(&output));
    // Another one.
    let text = std::fs::read_to_string(world.config()).unwrap();
    let other = world.path().join("other.toml");
    let state = format!("{}/state", world.path().display());
    std::fs::write(&other, text.replace(&state, &format!("{state}-2"))).unwrap();
    let nonce = world.store.report().await.unwrap().identity.nonce;
    let output = run(&["run"], &other);
    assert_eq!(output.status.code(), Some(4), "{}", words(&output));
    assert!(words(&output).contains(&nonce), "{}", words(&output));
    assert_eq!(world.starts().len(), 1);
    assert!(!world.disable_file().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_reboot_the_old_lease_is_waited_for() {
    let (world, agent) = serving().await;
    agent.kill();
    let mut report = world.store.report().await.unwrap();
    report.identity = Identity { boot: "an earlier boot".to_owned(), ..report.identity };
    world.store.put(report_key(), report).await;
    let before = world.store.inventory().await.unwrap().0;
    let _again = world.agent();
    let asked = world.balancer.asked();
    wait_for("the agent looks", &world, || async { world.balancer.asked() }, |n| *n > asked + 2).await;
    assert_eq!(world.store.report().await.unwrap().identity.boot, "an earlier boot");
    assert_eq!(world.store.inventory().await.unwrap().0, before);
    world.store.delete(report_key()).await;
    let report = world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    assert!(report.admission > before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admit_answers_by_its_exit_code() {
    let world = World::new().await;
    world.store.set_window(2, 2).await;
    let config = world.config();
    let arguments = |version| ["admit", "--service", "pantry", "--version", version];
    let output = run(&arguments("1"), &config);
    assert_eq!(output.status.code(), Some(3), "{}", words(&output));
    assert!(words(&output).contains("below the floor 2"), "{}", words(&output));
    assert!(world.store.inventory().await.is_none());
    let output = run(&arguments("2"), &config);
    assert!(output.status.success(), "{}", words(&output));
    assert_eq!(world.store.inventory().await.unwrap().1.version.get(), 2);
    assert_eq!(run(&arguments("0"), &config).status.code(), Some(2));
    let output = run(&["admit", "--service", "larder", "--version", "2"], &config);
    assert_eq!(output.status.code(), Some(2), "{}", words(&output));
    assert!(words(&output).contains("names no service larder; it names pantry"), "{}", words(&output));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_lists_every_finding() {
    let world = World::new().await;
    let good = run(&["check"], &world.config());
    assert!(good.status.success(), "{}", words(&good));
    std::fs::remove_file(world.artifact(2)).unwrap();
    let bad = world.path().join("bad.toml");
    let text = std::fs::read_to_string(world.config()).unwrap();
    let disable = format!("{}/disable", world.path().display());
    let text = text
        .replace(&format!("disable_file = \"{disable}\""), "disable_file = \"/proc/nowhere/disable\"")
        .replace("stats.sock", "no.sock");
    std::fs::write(&bad, text).unwrap();
    let output = run(&["check"], &bad);
    let said = words(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for finding in ["/proc/nowhere/disable", "no.sock", "pantry-2"] {
        assert!(said.contains(finding), "{finding} is not in {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn config_without_disable_file_or_hook_is_refused_unchanged() {
    let mut world = World::new().await;
    world.more = "initial_release = \"pantry-1\"".to_owned();
    let before = world.store.revision().await;
    let good = std::fs::read_to_string(world.config()).unwrap();
    let bad = world.path().join("bad.toml");
    let disable = format!("disable_file = \"{}\"", world.disable_file().display());
    std::fs::write(&bad, good.replace(&disable, "disable_file = \"/proc/nowhere/disable\"")).unwrap();
    for verb in ["check", "run"] {
        let output = run(&[verb], &bad);
        let said = words(&output);
        assert_eq!(output.status.code(), Some(2), "{verb}: {said}");
        for word in ["service pantry", "disable_file /proc/nowhere/disable", "cannot be written", "make it"] {
            assert!(said.contains(word), "{verb}: {word} is not in {said}");
        }
    }
    // One that the agent itself makes need not be there yet.
    let own = format!("disable_file = \"{}/state/pantry/disable\"", world.path().display());
    std::fs::write(&bad, good.replace(&disable, &own)).unwrap();
    assert!(run(&["check"], &bad).status.success());
    for (stop, start, lacks) in [("", "\"true\"", "stop"), ("\"true\"", "", "start")] {
        world.driver = Some(format!("[service.pantry.driver.command]\nstop = [{stop}]\nstart = [{start}]"));
        let output = run(&["run"], &world.config());
        let said = words(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("driver.command has no {lacks} hook: name a program")), "{said}");
    }
    world.driver =
        Some("[service.pantry.driver.command]\nstop = [\"/nowhere/stop\"]\nstart = [\"true\"]".to_owned());
    let output = run(&["check"], &world.config());
    assert_eq!(output.status.code(), Some(2));
    assert!(words(&output).contains("the stop hook is not there: /nowhere/stop"), "{}", words(&output));
    assert_eq!(world.store.revision().await, before, "something was written");
    assert!(!world.path().join("state").exists() && world.starts().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_that_cannot_be_read_change_nothing() {
    let (world, _agent) = serving().await;
    let mut client = world.store.embedded.client().await.unwrap().kv_client();
    let directive = format!("/tidegate/directives/{}/n1", service());
    for bytes in [b"{".to_vec(), vec![0xff, 0xfe], vec![b'x'; 1 << 20]] {
        client.put(directive.clone(), bytes, None).await.unwrap();
    }
    client.put("/tidegate/windows/pantry", "{\"schema\":1,\"floor\":0}", None).await.unwrap();
    wait_for(
        "the finding in the log",
        &world,
        || async { world.log() },
        |log| log.contains("cannot be read"),
    )
    .await;
    let report = world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    assert_eq!((report.generation, report.window), (Revision::ABSENT, Revision::ABSENT));
    // A good one after them is obeyed.
    world.store.delete(Key::Window(service())).await;
    let good = world.store.set_window(1, 1).await;
    world.store.wait_for_report(&world, "the window acknowledged", |r| r.window == good).await;
}
