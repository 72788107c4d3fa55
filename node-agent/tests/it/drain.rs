//! A drain's evidence comes in its order, and each part is waited for.

use crate::adopt::serving;
use crate::world::store::{directive, release};
use crate::world::{World, wait_for};
use tidegate_proto::Span;
use tidegate_proto::record::directive::{Directive, Disposition, OnDeadline};
use tidegate_proto::record::report::{NOT_LEFT, Report, Rotation, Step};

/// The agent has looked often enough since: what it would conclude, it has concluded.
async fn asked_again(world: &World) {
    let before = world.balancer.asked();
    wait_for(
        "more questions to the balancer",
        world,
        || async { world.balancer.asked() },
        |n| *n >= before + 4,
    )
    .await;
}

async fn still(world: &World, step: Step) -> Report {
    asked_again(world).await;
    let report = world.store.report().await.unwrap();
    assert_eq!(report.step, step, "{report:?}");
    report
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_then_deregistered_then_idle() {
    let (world, _agent) = serving().await;
    world.balancer.say("UP", 3);
    std::fs::write(world.path().join("in-flight"), "2").unwrap();
    let generation = world.store.direct(directive(Disposition::Drain, vec![])).await;
    world
        .store
        .wait_for_report(&world, "draining", |r| r.generation == generation && r.step == Step::Draining)
        .await;
    // The file is there and the URL refuses, but the balancer has not seen it.
    let report = still(&world, Step::Draining).await;
    assert_eq!(report.rotation, Rotation::Leaving);
    assert!(world.disable_file().exists());
    // It has, and a session is open.
    world.balancer.say("DOWN", 1);
    still(&world, Step::Draining).await;
    let one_session = |r: &Report| {
        r.balancers.iter().any(|balancer| balancer.status == "DOWN" && balancer.sessions == Some(1))
    };
    world.store.wait_for_report(&world, "its session", one_session).await;
    // None is, but the service itself still works on something.
    world.balancer.say("DOWN", 0);
    let report = still(&world, Step::Draining).await;
    assert_eq!(report.rotation, Rotation::Out);
    world.store.wait_for_report(&world, "the count", |r| r.in_flight == Some(2)).await;
    std::fs::write(world.path().join("in-flight"), "0").unwrap();
    let report =
        world.store.wait_for_report(&world, "drained", |r| r.step == Step::Drained { forced: false }).await;
    assert_eq!(report.in_flight, None);
    // And back, on the balancer's word.
    let generation = world.store.direct(directive(Disposition::Serve { returning: true }, vec![])).await;
    let report = world
        .store
        .wait_for_report(&world, "returning", |r| {
            r.generation == generation && r.rotation == Rotation::Returning
        })
        .await;
    assert_eq!(report.step, Step::Verifying);
    still(&world, Step::Verifying).await;
    world.balancer.say("UP", 0);
    world.store.wait_for_serving(&world, 1, generation).await;
    assert_eq!(world.starts().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn serving_instance_declines_a_replacement_without_budget() {
    let (world, _agent) = serving().await;
    let wanted = release(&world, 2);
    let replaced = directive(Disposition::Replace { release: wanted.clone() }, vec![wanted.clone()]);
    let generation = world.store.direct(Directive { presumes_out: true, ..replaced }).await;
    let staged = |r: &Report| r.generation == generation && r.staged.contains(&wanted.tag);
    let report = world.store.wait_for_report(&world, "the release staged", staged).await;
    assert_eq!((report.declined, report.step, report.rotation), (true, Step::Serving, Rotation::In));
    assert!(!world.disable_file().exists());
    let generation = world.store.direct(directive(Disposition::Drain, vec![])).await;
    let drains = |r: &Report| r.generation == generation && r.step == Step::Draining;
    let report = world.store.wait_for_report(&world, "draining", drains).await;
    assert!(!report.declined && world.starts().len() == 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deadline_excuses_what_is_in_flight_and_nothing_else() {
    let (world, _agent) = serving().await;
    std::fs::write(world.path().join("in-flight"), "1").unwrap();
    let mut drain = directive(Disposition::Drain, vec![]);
    drain.drain.deadline = Span::from_millis(600);
    world.store.direct(drain.clone()).await;
    world.store.wait_for_report(&world, "forced", |r| r.step == Step::Drained { forced: true }).await;

    let generation = world.store.direct(directive(Disposition::Serve { returning: true }, vec![])).await;
    world.store.wait_for_serving(&world, 1, generation).await;
    drain.drain.on_deadline = OnDeadline::Fail;
    world.store.direct(drain.clone()).await;
    let failed = |step: &Step| matches!(step, Step::Failed { at, .. } if at == "draining");
    world
        .store
        .wait_for_report(&world, "failed and back", |r| failed(&r.step) && r.rotation == Rotation::In)
        .await;

    let generation = world.store.direct(directive(Disposition::Serve { returning: true }, vec![])).await;
    world.store.wait_for_serving(&world, 1, generation).await;
    // The balancer still sends requests: no deadline makes that a drained instance.
    world.balancer.say("UP", 0);
    drain.drain.on_deadline = OnDeadline::Proceed;
    world.store.direct(drain).await;
    let stays = |step: &Step| matches!(step, Step::Failed { at, .. } if at == NOT_LEFT);
    let report = world.store.wait_for_report(&world, "failed", |r| stays(&r.step)).await;
    let Step::Failed { reason, .. } = report.step else { unreachable!() };
    assert!(reason.contains("still sends requests"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_serve_reverses_a_drain() {
    let (world, _agent) = serving().await;
    world.balancer.say("UP", 1);
    world.store.direct(directive(Disposition::Drain, vec![])).await;
    world.store.wait_for_report(&world, "draining", |r| r.step == Step::Draining).await;
    let generation = world.store.direct(directive(Disposition::Serve { returning: true }, vec![])).await;
    world.store.wait_for_serving(&world, 1, generation).await;
    assert!(!world.disable_file().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_persons_disable_file_stays_and_shows_as_maintenance() {
    let (world, _agent) = serving().await;
    std::fs::write(world.disable_file(), "disk test, back at six\n").unwrap();
    world.store.wait_for_report(&world, "maintenance", |r| r.rotation == Rotation::Maintenance).await;
    let wanted = release(&world, 2);
    let replace = directive(Disposition::Replace { release: wanted.clone() }, vec![wanted]);
    world.store.direct(replace).await;
    world
        .store
        .wait_for_report(&world, "replaced, still kept out", |r| {
            r.version.map(|v| v.get()) == Some(2)
                && r.step == Step::Verifying
                && r.rotation == Rotation::Maintenance
        })
        .await;
    assert_eq!(std::fs::read_to_string(world.disable_file()).unwrap(), "disk test, back at six\n");
    std::fs::remove_file(world.disable_file()).unwrap();
    world.store.wait_for_report(&world, "serving", |r| r.step == Step::Serving).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_in_maintenance_is_reported_as_such_and_without_counts() {
    let (world, _agent) = serving().await;
    assert_eq!(world.store.report().await.unwrap().balancers, [], "a balancer that says UP is not reported");
    world.balancer.say("MAINT", 4);
    let by_hand = |r: &Report| {
        r.balancers.iter().any(|balancer| balancer.status == "MAINT" && balancer.sessions.is_none())
    };
    world.store.wait_for_report(&world, "the word", by_hand).await;
    world.balancer.follow();
    world.store.wait_for_report(&world, "no word", |r| r.balancers.is_empty()).await;
}
