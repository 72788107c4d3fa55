//! The built-in balancer and a real HAProxy before the same backends: the same columns, the same words, the same moves.

use std::time::Duration;

use grenade_tests::balancer::stat::COLUMNS;
use grenade_tests::world::balancer::RunningBalancer;
use grenade_tests::world::show_stat::ShowStat;
use grenade_tests::world::wait::wait_for;
use grenade_tests::world::{balancer, haproxy};

use crate::rig::{LIMIT, Rig, all_up, servers};

#[tokio::test]
async fn both_report_the_same_of_the_same_backends() {
    let rig = Rig::new();
    let database = rig.sqlite(100).await;
    let (one, other) = (rig.pantry(1, "n1", &database).await, rig.pantry(1, "n2", &database).await);
    let servers = servers(&[&one, &other]);
    let ours = balancer::start(&rig.world, &servers).await.unwrap();
    let real = haproxy::start(&rig.world, &servers).await.unwrap();
    for balancer in [&ours, &real] {
        all_up(balancer, &[&one, &other]).await;
        let load = rig.load(balancer.address, 50, 100).start().unwrap();
        wait_for("100 good answers", LIMIT, || async {
            let progress = load.progress();
            if progress.ok >= 100 { Ok(()) } else { Err(format!("{progress:?}")) }
        })
        .await
        .unwrap();
        std::fs::write(&one.plan.disable_file, "").unwrap();
        balancer.wait_for_status("n1", "DOWN", LIMIT).await.unwrap();
        balancer.wait_until_drained("n1", LIMIT).await.unwrap();
        std::fs::remove_file(&one.plan.disable_file).unwrap();
        balancer.wait_for_status("n1", "UP", LIMIT).await.unwrap();
        let report = load.stop().await.unwrap();
        assert_eq!(report.failed, 0, "{report:#?}");
    }
    let (ours, real) = (ours.show_stat().await.unwrap(), between_checks(&real).await);
    assert_eq!(ours.columns, COLUMNS);
    assert_eq!(real.columns[..COLUMNS.len()], ours.columns[..], "HAProxy's columns in HAProxy's order");
    assert_eq!(ours.names(), real.names());
    for name in ["FRONTEND", "n1", "n2", "BACKEND"] {
        for column in
            ["pxname", "svname", "type", "status", "mode", "check_status", "check_rise", "check_fall"]
        {
            assert_eq!(ours.of(name, column), real.of(name, column), "{name} {column}");
        }
    }
    for column in ["addr", "check_code", "check_health", "weight", "act", "bck", "sid"] {
        assert_eq!(ours.of("n1", column), real.of("n1", column), "{column}");
    }
}

/// What HAProxy says while it checks no server: within a check (`* ` before `check_status`) the code is 0.
async fn between_checks(haproxy: &RunningBalancer) -> ShowStat {
    wait_for("HAProxy between two checks", LIMIT, || async {
        let shown = haproxy.show_stat().await?;
        match ["n1", "n2"]
            .iter()
            .find_map(|name| shown.of(name, "check_status").filter(|said| said.starts_with("* ")))
        {
            Some(checking) => Err(checking.to_owned()),
            None => Ok(shown),
        }
    })
    .await
    .unwrap()
}

/// The words between up and down, as HAProxy itself says them.
#[tokio::test]
async fn the_words_on_the_way_are_haproxys() {
    let rig = Rig::new();
    let database = rig.sqlite(10).await;
    let one = rig.pantry(1, "n1", &database).await;
    let real = haproxy::start(&rig.world, &servers(&[&one])).await.unwrap();
    all_up(&real, &[&one]).await;
    let mut seen = Vec::new();
    for present in [true, false] {
        match present {
            true => std::fs::write(&one.plan.disable_file, "").unwrap(),
            false => std::fs::remove_file(&one.plan.disable_file).unwrap(),
        }
        let end = if present { "DOWN" } else { "UP" };
        let until = tokio::time::Instant::now() + LIMIT;
        loop {
            let status = real.show_stat().await.unwrap().of("n1", "status").unwrap().to_owned();
            if seen.last() != Some(&status) {
                seen.push(status.clone());
            }
            if status == end {
                break;
            }
            assert!(tokio::time::Instant::now() < until, "{seen:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    // The balancer's own tests hold `Health` to these five words.
    assert_eq!(seen, ["UP", "UP 1/2", "DOWN", "DOWN 1/2", "UP"]);
}
