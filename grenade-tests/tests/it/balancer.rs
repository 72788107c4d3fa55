//! The built-in balancer with real backends.

use grenade_tests::world::show_stat::command;
use grenade_tests::world::wait::{get, wait_for};
use grenade_tests::world::{balancer, port};

use crate::rig::{LIMIT, Rig, all_up, servers};

/// The README's promise in small: out by the health check, drained, stopped, started, back in; no request failed.
#[tokio::test]
async fn a_drained_restart_of_each_node_fails_no_request() {
    let rig = Rig::new();
    let database = rig.sqlite(200).await;
    let mut nodes = Vec::new();
    for node in ["n1", "n2", "n3"] {
        nodes.push(rig.pantry(1, node, &database).await);
    }
    let all: Vec<_> = nodes.iter().collect();
    let balancer = balancer::start(&rig.world, &servers(&all)).await.unwrap();
    all_up(&balancer, &all).await;
    let load = rig.load(balancer.address, 100, 200).start().unwrap();
    wait_for("300 good answers", LIMIT, || async {
        let progress = load.progress();
        if progress.ok >= 300 { Ok(()) } else { Err(format!("{progress:?}")) }
    })
    .await
    .unwrap();
    let mut restarted = Vec::new();
    for pantry in nodes {
        let plan = pantry.plan.clone();
        std::fs::write(&plan.disable_file, "").unwrap();
        balancer.wait_until_drained(&plan.node, LIMIT).await.unwrap();
        wait_for("nothing in flight", LIMIT, || async {
            let (_, said) = get(plan.address, "/in-flight").await?;
            if said == r#"{"in_flight":0}"# { Ok(()) } else { Err(said) }
        })
        .await
        .unwrap();
        assert!(pantry.stop().await.unwrap().success());
        std::fs::remove_file(&plan.disable_file).unwrap();
        let again = grenade_tests::fixture::pantry::Pantry::start(&rig.world, plan).await.unwrap();
        balancer.wait_for_status(&again.plan.node, "UP", LIMIT).await.unwrap();
        restarted.push(again);
    }
    let report = load.stop().await.unwrap();
    assert_eq!(report.failed, 0, "{report:#?}");
    assert_eq!(report.by_node.len(), 3, "{report:#?}");
}

#[tokio::test]
async fn balancer_answers_itself_only_without_a_server_up() {
    let rig = Rig::new();
    let nowhere = port::free().unwrap();
    let balancer = balancer::start(&rig.world, &[("n1".to_owned(), nowhere)]).await.unwrap();
    assert_eq!(get(balancer.address, "/images").await.unwrap(), (503, "no server is up".to_owned()));
    let stat = balancer.show_stat().await.unwrap();
    assert_eq!(stat.names(), ["FRONTEND", "n1", "BACKEND"]);
    assert_eq!(stat.of("n1", "status"), Some("DOWN"));
}

#[tokio::test]
async fn socket_only_answers_questions() {
    let rig = Rig::new();
    let balancer = balancer::start(&rig.world, &[("n1".to_owned(), port::free().unwrap())]).await.unwrap();
    let said = command(&balancer.stats_socket, "set server pantry/n1 state drain").await.unwrap();
    assert!(said.starts_with("Unknown command"), "{said}");
    let both = command(&balancer.stats_socket, "show info; show stat").await.unwrap();
    assert!(both.contains("Name: tidegate-balancer") && both.contains("# pxname,svname"), "{both}");
    let second = grenade_tests::world::Spawn::new(
        "second",
        &grenade_tests::world::program::own("tidegate-balancer").unwrap(),
    )
    .args(["--listen", "127.0.0.1:0", "--server", "a=127.0.0.1:1", "--stats-socket"])
    .arg(&balancer.stats_socket);
    let mut second = rig.world.spawn(second).unwrap();
    assert!(!second.wait(LIMIT).await.unwrap().success());
    assert!(second.tail().contains("another process answers"), "{}", second.tail());
}
