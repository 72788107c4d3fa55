//! What counts as healthy without a break, and what is reported of a service that fails after that.

use crate::adopt::serving;
use crate::world::service;
use crate::world::store::{directive, release};
use std::time::Duration;
use tidegate_proto::record::directive::{Directive, Disposition};
use tidegate_proto::record::report::{Fault, Step};
use tidegate_proto::{Release, Span};

/// Bad for longer than a dip, good for less than the healthy time.
const FLAP: Duration = Duration::from_millis(800);

fn replaced_by(wanted: &Release, min_healthy_time: u64) -> Directive {
    let replace = Disposition::Replace { release: wanted.clone() };
    let mut directive = directive(replace, vec![wanted.clone()]);
    directive.health.min_healthy_time = Span::from_millis(min_healthy_time);
    directive
}

fn is_lasting(fault: &Option<Box<Fault>>) -> bool {
    fault.as_ref().is_some_and(|fault| fault.lasting)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flapping_health_url_is_verified_only_when_it_stops() {
    let (world, _agent) = serving().await;
    // The balancer is too slow to notice.
    world.balancer.say("DOWN", 0);
    let generation = world.store.direct(replaced_by(&release(&world, 2), 1500)).await;
    world
        .store
        .wait_for_report(&world, "verifying 2", |r| {
            r.step == Step::Verifying && r.version.map(|v| v.get()) == Some(2)
        })
        .await;
    world.balancer.say("UP", 0);
    for _ in 0..4 {
        std::fs::write(world.path().join("sick-2"), "").unwrap();
        tokio::time::sleep(FLAP).await;
        std::fs::remove_file(world.path().join("sick-2")).unwrap();
        tokio::time::sleep(FLAP).await;
        let step = world.store.report().await.unwrap().step;
        assert_eq!(step, Step::Verifying, "it flaps");
    }
    world.store.wait_for_serving(&world, 2, generation).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_that_dies_after_verification_reports_a_fault() {
    let (world, _agent) = serving().await;
    let generation = world.store.direct(replaced_by(&release(&world, 2), 100)).await;
    world.store.wait_for_serving(&world, 2, generation).await;
    let (_, pid) = world.starts()[1];
    service::end(pid, world.path());
    // It is started again, and that does not undo it.
    let report = world.store.wait_for_report(&world, "a lasting fault", |r| is_lasting(&r.fault)).await;
    assert!(report.fault.is_some_and(|fault| fault.recent && fault.reason.contains("process ended")));
    world.store.wait_for_serving(&world, 2, generation).await;
    // Another attempt begins without it.
    world.store.direct(replaced_by(&release(&world, 1), 100)).await;
    world.store.wait_for_report(&world, "no fault", |r| r.fault.is_none()).await;
}
