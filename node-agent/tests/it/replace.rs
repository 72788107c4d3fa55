//! Replacing a release, with and without a drain before it.

use crate::adopt::serving;
use crate::world::store::{directive, release};
use crate::world::{CALLED, World, service, wait_for};
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::{Rotation, Step};
use tidegate_proto::{Digest, Release, Revision, Span};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn staged_drained_replaced_and_the_old_code_removed() {
    let (world, _agent) = serving().await;
    let (old, new) = (release(&world, 1), release(&world, 2));
    let stage = directive(Disposition::Serve { returning: false }, vec![old.clone(), new.clone()]);
    let generation = world.store.direct(stage).await;
    let report = world
        .store
        .wait_for_report(&world, "both staged", |r| r.generation == generation && r.staged.len() == 2)
        .await;
    assert_eq!(report.step, Step::Serving, "staging is no reason to leave rotation");

    let drain = directive(Disposition::Drain, vec![old.clone(), new.clone()]);
    let generation = world.store.direct(drain).await;
    let report =
        world.store.wait_for_report(&world, "drained", |r| r.step == Step::Drained { forced: false }).await;
    assert_eq!((report.generation, report.rotation), (generation, Rotation::Out));
    assert_eq!(world.balancer.status(), "DOWN");
    assert_eq!(world.starts().len(), 1);

    let replace = directive(Disposition::Replace { release: new.clone() }, vec![old, new.clone()]);
    let generation = world.store.direct(replace).await;
    let report = world.store.wait_for_serving(&world, 2, generation).await;
    assert_eq!(report.admission, world.store.inventory().await.unwrap().0);
    assert_eq!(report.release, Some(new.tag.clone()));
    assert!(!world.disable_file().exists());
    let starts = world.starts();
    assert_eq!(starts.iter().map(|(v, _)| *v).collect::<Vec<_>>(), [1, 2]);
    assert!(!crate::world::service::is_running(starts[0].1));

    let remove = directive(Disposition::Serve { returning: false }, vec![new.clone()]);
    world.store.direct(remove).await;
    world.store.wait_for_report(&world, "the old one removed", |r| r.staged == [new.tag.clone()]).await;
    assert!(!world.path().join("state/pantry/releases/pantry-1").exists());
    assert!(world.path().join("state/pantry/releases/pantry-2/service.json").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_that_is_terminated_does_not_wait_for_a_copy() {
    let (world, mut agent) = serving().await;
    // 3 GiB without a block on the disk: hashing it takes far longer than the agent may take to end.
    let source = std::fs::File::create(world.artifact(2)).unwrap();
    source.set_len(3 << 30).unwrap();
    let new = Release { sha256: Digest::of(b"never compared"), ..release(&world, 1) };
    let new = Release { tag: "pantry-2".parse().unwrap(), ..new };
    world
        .store
        .direct(directive(Disposition::Serve { returning: false }, vec![release(&world, 1), new]))
        .await;
    let directory = world.path().join("state/pantry/releases/pantry-2");
    let names = || {
        let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    wait_for("the copy is under way", &world, || async { names() }, |names| !names.is_empty()).await;
    agent.terminate();
    assert!(agent.wait().await.success());
    let [left] = &names()[..] else { panic!("{:?}", names()) };
    assert!(left.ends_with(".tidegate-new"), "the copy was waited for: {left}");
    assert!(directory.join(left).metadata().unwrap().len() < 3 << 30);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_closing_inherited_fds_is_not_started_twice() {
    let mut world = World::new().await;
    world.more = "initial_release = \"pantry-1\"".to_owned();
    let closes = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; exec \"$0\" \"$@\"";
    world.driver = Some(format!(
        "[service.pantry.driver.process]\nargv = [\"sh\", \"-c\", {closes:?}, {:?}, {CALLED:?}, \"--exact\", \
         \"--nocapture\"]\nenv = {{ {} = \"{{release_dir}}/service.json\" }}\nstop_timeout = \"1s\"",
        std::env::current_exe().unwrap(),
        service::CONFIG,
    ));
    let _agent = world.agent();
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    let (_, pid) = world.starts()[0];
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let locked =
        open.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|path| path.ends_with("running.lock"));
    assert!(!locked, "it still has the lock, so that this shows nothing");
    // It answers nothing for a while, and lives.
    let process = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::STOP).unwrap();
    wait_for("silence", &world, || world.store.report(), Option::is_none).await;
    rustix::process::kill_process(process, rustix::process::Signal::CONT).unwrap();
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    assert_eq!(world.starts().len(), 1);
    let wanted = release(&world, 2);
    let replace = Disposition::Replace { release: wanted.clone() };
    let generation = world.store.direct(directive(replace, vec![wanted])).await;
    world.store.wait_for_serving(&world, 2, generation).await;
    assert!(!service::is_running(pid));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serving_release_is_not_drained_for_itself() {
    let (world, _agent) = serving().await;
    let same = release(&world, 1);
    let replace = directive(Disposition::Replace { release: same.clone() }, vec![same]);
    let generation = world.store.direct(replace).await;
    world.store.wait_for_serving(&world, 1, generation).await;
    assert_eq!(world.starts().len(), 1);
    assert_eq!(world.balancer.status(), "UP");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_digest_takes_nothing_out() {
    let (world, _agent) = serving().await;
    let mut wrong = release(&world, 2);
    wrong.sha256 = Digest::of(b"something else");
    let replace = directive(Disposition::Replace { release: wrong.clone() }, vec![wrong.clone()]);
    let generation = world.store.direct(replace).await;
    let failed = |step: &Step| matches!(step, Step::Failed { at, .. } if at == "staging");
    let report = world
        .store
        .wait_for_report(&world, "failed", |r| r.generation == generation && failed(&r.step))
        .await;
    let Step::Failed { reason, .. } = &report.step else { unreachable!() };
    assert!(reason.contains("sha256") && reason.contains(&wrong.sha256.to_string()), "{reason}");
    assert!(report.stage_failures.contains_key(&wrong.tag), "{report:?}");
    assert_eq!(report.rotation, Rotation::In);
    assert!(!world.path().join("state/pantry/releases/pantry-2/service.json").exists());
    assert_eq!(world.starts().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_without_an_artifact_is_said_to_be_unknown() {
    let (world, _agent) = serving().await;
    let mut unknown = release(&world, 2);
    unknown.tag = "pantry-9".parse().unwrap();
    world.store.direct(directive(Disposition::Serve { returning: false }, vec![unknown.clone()])).await;
    let report = world
        .store
        .wait_for_report(&world, "a failure", |r| r.stage_failures.contains_key(&unknown.tag))
        .await;
    assert!(report.stage_failures[&unknown.tag].contains("no artifact"), "{report:?}");
    assert_eq!(report.step, Step::Serving);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_does_not_become_healthy_is_kept_out() {
    let (world, _agent) = serving().await;
    std::fs::write(world.path().join("unready-2"), "").unwrap();
    let (old, new) = (release(&world, 1), release(&world, 2));
    let mut replace = directive(Disposition::Replace { release: new.clone() }, vec![old.clone(), new]);
    replace.health.healthy_deadline = Span::from_millis(500);
    world.store.direct(replace).await;
    let failed = |step: &Step| matches!(step, Step::Failed { at, .. } if at == "verifying");
    world.store.wait_for_report(&world, "failed", |r| failed(&r.step) && r.rotation == Rotation::Out).await;
    assert!(world.disable_file().exists());
    // A rollback needs no healthy instance.
    let back = directive(Disposition::Replace { release: old.clone() }, vec![old]);
    let generation = world.store.direct(back).await;
    world.store.wait_for_serving(&world, 1, generation).await;
    wait_for("UP again", &world, || async { world.balancer.status() }, |status| status == "UP").await;
}
