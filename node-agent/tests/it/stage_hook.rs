//! A service that ran before Tidegate came, with a stage hook: which digest its release has, whether it can be staged again,
//! and what happens meanwhile.

use crate::command::{KILL, hooks, hooks_that, started_by_hand};
use crate::world::agent::Agent;
use crate::world::store::{directive, release};
use crate::world::{CALLED, World, service};
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::report::Step;
use tidegate_proto::{Digest, Release, Revision};

/// A stage hook that copies a release and then does `more`.
fn staged_by_hook(world: &World, more: &str) -> String {
    let script =
        format!("cp {}/artifacts/v{{version}}/service.json {{release_dir}}/{more}", world.path().display());
    format!("{}\nstage = [\"sh\", \"-c\", {script:?}]", hooks(world, KILL))
}

/// Adopts version 1, whose digest the agent reports as `known`, goes to version 2, and back.
async fn forward_and_back(world: &World, known: Digest) {
    started_by_hand(world, 1).await;
    let _agent = world.agent();
    let adopted = |r: &tidegate_proto::record::report::Report| r.release_digest.is_some();
    let report = world.store.wait_for_report(world, "a digest", adopted).await;
    assert_eq!((report.release.clone(), report.release_digest), (Some(release(world, 1).tag), Some(known)));
    assert!(world.starts().len() == 1 && !world.disable_file().exists(), "adopted without a drain");
    let (old, new) = (Release { sha256: known, ..release(world, 1) }, release(world, 2));
    for (target, version) in [(new.clone(), 2), (old.clone(), 1)] {
        let replace = Disposition::Replace { release: target };
        let generation = world.store.direct(directive(replace, vec![old.clone(), new.clone()])).await;
        world.store.wait_for_serving(world, version, generation).await;
    }
    assert_eq!(world.starts().iter().map(|(v, _)| *v).collect::<Vec<_>>(), [1, 2, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adopted_release_has_the_digest_that_the_stage_hook_prints() {
    let mut world = World::new().await;
    world.driver = Some(staged_by_hook(&world, " && sha256sum {release_dir}/service.json"));
    forward_and_back(&world, release(&world, 1).sha256).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adopted_release_has_the_digest_that_the_config_pins() {
    let mut world = World::new().await;
    world.driver = Some(staged_by_hook(&world, ""));
    world.sha256 = Some(release(&world, 1).sha256.to_string());
    forward_and_back(&world, release(&world, 1).sha256).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adopted_release_declared_without_digest_is_rolled_back_to() {
    let mut world = World::new().await;
    world.driver = Some(staged_by_hook(&world, ""));
    world.sha256 = Some("absent".to_owned());
    forward_and_back(&world, Digest::ABSENT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adopted_release_without_digest_names_the_setting() {
    let mut world = World::new().await;
    world.driver = Some(staged_by_hook(&world, ""));
    started_by_hand(&world, 1).await;
    let _agent = world.agent();
    let tag = release(&world, 1).tag;
    let failed =
        world.store.wait_for_report(&world, "a failure", |r| r.stage_failures.contains_key(&tag)).await;
    let why = &failed.stage_failures[&tag];
    assert!(why.contains("[service.pantry.artifact.\"pantry-1\"]") && why.contains("sha256"), "{why}");
    assert_eq!(failed.release_digest, None);
    // A directive that declares it absent does not make this node believe it.
    let unpinned = Release { sha256: Digest::ABSENT, ..release(&world, 1) };
    let serve = directive(Disposition::Serve { returning: false }, vec![unpinned]);
    let generation = world.store.direct(serve).await;
    let refused = |r: &tidegate_proto::record::report::Report| {
        r.generation == generation && r.stage_failures.get(&tag).is_some_and(|why| why.contains("declares"))
    };
    world.store.wait_for_report(&world, "a refusal", refused).await;
    assert_eq!(world.store.wait_for_serving(&world, 1, Revision::ABSENT).await.release_digest, None);
}

/// Hooks that lose the code of version 2 with each stop, or with none where `kept` succeeds, so that it is staged again before
/// its start hook. Meanwhile the service's own supervisor starts version 1 again.
fn restarted_while_staging(world: &World, kept: &str) -> String {
    let (room, program) = (world.path().display(), std::env::current_exe().unwrap());
    let code = format!("{room}/state/pantry/releases/pantry-2/service.json");
    let stop = format!("{KILL}; {kept} || {{ touch {room}/lost {room}/restart; rm {code}; }}");
    let start = format!(
        "{}={room}/artifacts/v1/service.json {} {CALLED} --exact --nocapture </dev/null >/dev/null 2>&1 &",
        service::CONFIG,
        program.display()
    );
    let listens = format!("grep -q ':{:04X} 00000000:0000 0A' /proc/net/tcp", world.port);
    let restart = format!("rm {room}/restart; {start} until {listens}; do sleep 0.02; done");
    let copy = format!("cp {room}/artifacts/v{{version}}/service.json {{release_dir}}/");
    let stage = format!("{copy}; if [ -e {room}/restart ]; then {restart}; fi");
    let moving = hooks_that(world, &stop, "", 60);
    format!("{moving}\nstage = [\"sh\", \"-c\", {stage:?}]")
}

/// Version 1 serves, started by hand, and is to be replaced by version 2: the agent, and the generation of that directive.
async fn ordered_forward(world: &mut World) -> (Agent, Revision) {
    world.sha256 = Some(release(world, 1).sha256.to_string());
    started_by_hand(world, 1).await;
    let agent = world.agent();
    world.store.wait_for_serving(world, 1, Revision::ABSENT).await;
    let (old, new) = (release(world, 1), release(world, 2));
    let replace = Disposition::Replace { release: new.clone() };
    let generation = world.store.direct(directive(replace, vec![old, new])).await;
    (agent, generation)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_while_its_code_is_staged_is_stopped_again() {
    let mut world = World::new().await;
    world.driver = Some(restarted_while_staging(&world, "[ -e @ROOM@/lost ]"));
    let (_agent, generation) = ordered_forward(&mut world).await;
    world.store.wait_for_serving(&world, 2, generation).await;
    assert_eq!(world.starts().iter().map(|(v, _)| *v).collect::<Vec<_>>(), [1, 1, 2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_after_each_stop_fails_with_a_reason() {
    let mut world = World::new().await;
    world.driver = Some(restarted_while_staging(&world, "false"));
    let (_agent, generation) = ordered_forward(&mut world).await;
    let failed = |step: &Step| matches!(step, Step::Failed { at, .. } if at == "stopping");
    let report = world.store.wait_for_report(&world, "a failure", |report| failed(&report.step)).await;
    let Step::Failed { reason, .. } = &report.step else { unreachable!() };
    assert!(reason.contains("after each of 3 stops"), "{reason}");
    assert_eq!(report.generation, generation);
    assert_eq!(world.starts().iter().map(|(v, _)| *v).collect::<Vec<_>>(), [1, 1, 1, 1]);
}
