//! Two coordinators on a real etcd: the leader is killed in each phase, and the other goes on from there.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::fleet::{Fleet, Ground, LIMIT};
use super::rotation_monitor::RotationMonitor;

const PHASES: [&str; 6] = ["stage", "expand", "migrate", "roll", "remove", "contract"];
/// Each phase begins when the test says so; one instance at a time.
const SPEC: &str =
    "min_in_service: 2\nmax_unavailable: 1\napprovals: [stage, expand, migrate, roll, remove, contract]";
/// Enough rows that a fill takes a while.
const GROUND: Ground = Ground { instances: 3, rows: 20_000, etcd: true, postgres: false };

/// Kills the leader `later` than each phase was seen to begin; the upgrade must end as if nothing had been.
async fn killed_in_each_phase(later: Duration) {
    let mut fleet = Fleet::on(GROUND).await;
    let (load, monitor) = (fleet.load(20), RotationMonitor::before(&fleet));
    fleet.upgrade(SPEC).await;
    for phase in PHASES {
        if phase == "contract" {
            fleet.accept_sessions().await;
        } else {
            fleet.waits_for(&[&format!("phase {phase} requires a manual approval")]).await;
            fleet.approve(phase).await;
        }
        let leader = leader(&fleet).await;
        let seen = begins(&fleet, 1 - leader, phase).await;
        tokio::time::sleep(later).await;
        fleet.coordinators[leader].process.crash().unwrap();
        println!("the leader was killed {later:?} after {seen} was seen");
        takes_over(&fleet, 1 - leader).await;
        fleet.restart_coordinator(leader).await;
    }
    fleet.completed().await;
    fleet.all_serve(2).await;

    let report = load.stop().await.unwrap();
    assert_eq!(report.failed, 0, "{:?}", report.first_failures);
    assert!(report.ok > 200, "{report:?}");
    for (node, times) in monitor.times_out() {
        assert_eq!(times, 1, "{node} went out of rotation {times} times; it is replaced once");
    }
    let history = fleet.history().await;
    for phase in PHASES {
        let times = history.iter().filter(|event| enters(event, phase)).count();
        assert_eq!(times, 1, "{phase} was entered {times} times: {history:#?}");
    }
}

/// Whether an event is the beginning of a phase: `roll, wave 1 of 3` is, `roll approved` is not.
fn enters(event: &Value, phase: &str) -> bool {
    let first = |side: &str| event[side].as_str().unwrap().split([' ', ',']).next().unwrap().to_owned();
    first("to") == phase && first("from") != phase && !event["to"].as_str().unwrap().ends_with("approved")
}

/// Who leads now.
async fn leader(fleet: &Fleet) -> usize {
    let end = Instant::now() + LIMIT;
    while Instant::now() < end {
        for at in 0..2 {
            if fleet.leads(at).await {
                return at;
            }
        }
    }
    panic!("no coordinator leads\n{}", fleet.logs());
}

/// Waits until the follower sees the phase, or one beyond it where it is soon over; answers which.
async fn begins(fleet: &Fleet, follower: usize, phase: &str) -> String {
    let at_least = PHASES.iter().position(|known| *known == phase).unwrap();
    let end = Instant::now() + LIMIT;
    let mut seen = None;
    while Instant::now() < end {
        seen = fleet.phase(follower).await;
        let Some(now) = &seen else { continue };
        if now == "completed" || PHASES.iter().position(|known| known == now).is_some_and(|n| n >= at_least) {
            return now.clone();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{phase} did not begin; last seen: {seen:?}\n{}", fleet.logs());
}

async fn takes_over(fleet: &Fleet, other: usize) {
    let end = Instant::now() + LIMIT;
    while !fleet.leads(other).await {
        assert!(Instant::now() < end, "the other does not lead\n{}", fleet.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_etcd_leader_killed_in_each_phase_and_other_completes() {
    killed_in_each_phase(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_real_etcd_leader_is_killed_amid_each_phase() {
    for later in [30, 150, 700] {
        killed_in_each_phase(Duration::from_millis(later)).await;
    }
}
