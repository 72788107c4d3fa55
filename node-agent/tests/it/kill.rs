//! Killed at any instant and started again, the agent neither starts a service twice nor forgets a drain.

use crate::adopt::serving;
use crate::world::store::{directive, release};
use crate::world::wait_for;
use tidegate_proto::record::directive::Disposition;

/// More journal writes than any replacement has.
const MOST_POINTS: u32 = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacement_survives_kill_around_each_journal_write() {
    let (world, agent) = serving().await;
    agent.kill();
    let mut hit = 0;
    let mut version = 1;
    for number in 1..=MOST_POINTS {
        let mut any = false;
        for when in ["before", "after"] {
            let before = world.starts().len();
            let next = 3 - version;
            let (old, new) = (release(&world, version), release(&world, next));
            // The agent is started first, so that the directive finds it at rest: the points are those of an order.
            let mut agent = world.agent_that_crashes(&format!("journal:{number}:{when}"));
            let replace = directive(Disposition::Replace { release: new.clone() }, vec![old, new]);
            let generation = world.store.direct(replace).await;
            let ended = wait_for(
                "the crash, or the end of the replacement",
                &world,
                || {
                    let ended = agent.ended().is_some();
                    let report = world.store.report();
                    async move {
                        let done = report.await.is_some_and(|r| {
                            r.generation == generation && r.step.word() == "serving" && r.version.is_some()
                        });
                        (ended, done)
                    }
                },
                |(ended, done)| *ended || *done,
            )
            .await;
            hit += u32::from(ended.0);
            any |= ended.0;
            drop(agent);
            let again = world.agent();
            world.store.wait_for_serving(&world, next.into(), generation).await;
            let starts = world.starts();
            assert_eq!(starts.len(), before + 1, "point {number} {when}: {starts:?}\n{}", world.log());
            let running: Vec<_> =
                starts.iter().filter(|(_, pid)| crate::world::service::is_running(*pid)).collect();
            assert_eq!(running.len(), 1, "point {number} {when}: {running:?}");
            assert!(!world.disable_file().exists(), "point {number} {when}: left out of rotation");
            again.kill();
            version = next;
        }
        if !any {
            println!("points hit: {hit}");
            assert!(hit >= 12, "only {hit} points were hit: the replacement journals less than it should");
            return;
        }
    }
    panic!("more than {MOST_POINTS} journal writes for one replacement");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_is_not_forgotten() {
    let (world, agent) = serving().await;
    let generation = world.store.direct(directive(Disposition::Drain, vec![])).await;
    world.store.wait_for_report(&world, "drained", |r| r.step.word() == "drained").await;
    agent.kill();
    let before = world.balancer.asked();
    let _again = world.agent();
    wait_for("the agent looks again", &world, || async { world.balancer.asked() }, |n| *n > before).await;
    let report = world.store.report().await.unwrap();
    assert_eq!((report.step.word(), report.generation), ("drained", generation));
    assert!(world.disable_file().exists());
    assert_eq!(world.starts().len(), 1);
}
