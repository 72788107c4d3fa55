//! The store is away for longer than any lease: services go on, nothing is taken out of rotation for that, and what was
//! under way goes on when it is back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::fleet::{Fleet, Ground, LEASE};
use super::rotation_monitor::RotationMonitor;

const SPEC: &str = "min_in_service: 2\nmax_unavailable: 1\napprovals: [roll]";

/// How often each of three nodes went out, when each did so equally often.
fn each(times: usize) -> BTreeMap<String, usize> {
    (1..=3).map(|n| (format!("node-{n}"), times)).collect()
}

async fn before_the_roll(fleet: &Fleet) {
    fleet.upgrade(SPEC).await;
    fleet.waits_for(&["phase roll requires a manual approval"]).await;
}

async fn rolls_to_its_end(fleet: &Fleet, monitor: &RotationMonitor, load: grenade_tests::load::LoadHandle) {
    fleet.accept_sessions().await;
    fleet.completed().await;
    fleet.all_serve(2).await;
    assert_eq!(monitor.times_out(), each(1), "each is taken out once, to be replaced");
    let report = load.stop().await.unwrap();
    assert_eq!(report.failed, 0, "{:?}", report.first_failures);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn coordinator_with_embedded_store_is_killed_for_three_leases() {
    let mut fleet = Fleet::on(Ground::SMALL).await;
    let (load, monitor) = (fleet.load(20), RotationMonitor::before(&fleet));
    before_the_roll(&fleet).await;
    fleet.coordinators[0].process.crash().unwrap();
    tokio::time::sleep(LEASE * 3).await;
    fleet.restart_coordinator(0).await;
    // From its first answer on, and for longer than the lease that each agent had.
    let end = Instant::now() + LEASE * 2;
    let mut looked = 0;
    while Instant::now() < end {
        let said = fleet.ask(&["--json", "fleet", "list"]).await;
        if said.code != Some(0) {
            // It has not read its store yet; that is no answer.
            assert!(looked == 0, "it answered before: {said:#?}");
            continue;
        }
        let seen: Vec<serde_json::Value> =
            said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(seen.len(), 3, "{said:#?}");
        assert!(seen.iter().all(|i| i["silent"] == false && i["step"] == "serving"), "{seen:#?}");
        looked += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(looked > 10, "it answered only {looked} times");
    assert_eq!(monitor.times_out(), each(0));
    fleet.approve("roll").await;
    rolls_to_its_end(&fleet, &monitor, load).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_etcd_stands_still_and_later_is_killed_in_the_roll() {
    let mut fleet = Fleet::on(Ground { etcd: true, ..Ground::SMALL }).await;
    let (load, monitor) = (fleet.load(20), RotationMonitor::before(&fleet));
    before_the_roll(&fleet).await;
    let etcd = &fleet.etcd.as_ref().unwrap().members[0].0;
    etcd.freeze().unwrap();
    tokio::time::sleep(LEASE * 3).await;
    assert_eq!(monitor.times_out(), each(0), "while etcd stood still");
    etcd.thaw().unwrap();
    fleet.all_serve(1).await;
    assert_eq!(monitor.times_out(), each(0), "after etcd went on");

    fleet.waits_for(&["phase roll requires a manual approval"]).await;
    fleet.approve("roll").await;
    let end = Instant::now() + super::fleet::LIMIT;
    while monitor.times_out().values().sum::<usize>() == 0 {
        assert!(Instant::now() < end, "no instance is drained\n{}", fleet.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    fleet.etcd.as_mut().unwrap().members[0].0.crash().unwrap();
    tokio::time::sleep(LEASE * 2).await;
    let out = monitor.times_out().values().sum::<usize>();
    assert_eq!(out, 1, "no other instance is taken out while etcd is away");
    fleet.etcd.as_mut().unwrap().restart(&fleet.rig.world, 0).await.unwrap();
    rolls_to_its_end(&fleet, &monitor, load).await;
}
