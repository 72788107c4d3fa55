//! Services that ran before Tidegate came: adopted with nothing but a configuration, right or wrong.

use grenade_tests::fixture::node::PROGRAM;
use grenade_tests::world::wait::get;

use super::fleet::{Fleet, Ground, ID};
use super::hooks::by_hooks;
use super::least::Least;

/// Restarts each agent with its configuration changed, and where `without_state` without anything that it knew.
async fn with_config(fleet: &mut Fleet, without_state: bool, change: impl Fn(&str) -> String) {
    for n in 0..fleet.agents.len() {
        fleet.agents[n].process.crash().unwrap();
        let config = fleet.agents[n].config.clone();
        let text = std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, change(&text)).unwrap();
        if without_state {
            // Who comes with a new identity is refused while the lease of the former one lasts.
            let node = fleet.nodes[n].0.clone();
            fleet.silent(&node).await;
            let state = fleet.home(&fleet.nodes[n].0).join("state");
            std::fs::remove_dir_all(&state).unwrap();
            std::fs::create_dir(&state).unwrap();
        }
        fleet.agents[n].restart(&fleet.rig.world).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adopted_service_with_stage_hook_knows_its_rollback() {
    let mut fleet = Fleet::on(Ground::SMALL).await;
    by_hooks(&mut fleet, "").await;
    let artifacts = fleet.rig.world.path("artifacts");
    let stage = format!(
        "cp {}/{{tag}}/{PROGRAM} {{release_dir}}/ && sha256sum {{release_dir}}/{PROGRAM}",
        artifacts.display()
    );
    with_config(&mut fleet, true, |text| {
        let lines = text.lines().filter(|line| !line.starts_with("initial_release"));
        let lines = lines.map(|line| match line {
            _ if line.starts_with("start = ") => format!("stage = [\"sh\", \"-c\", {stage:?}]\n{line}"),
            // Nothing reads it where a hook brings the code.
            _ if line.starts_with("source = ") => "source = \"/nowhere\"".to_owned(),
            _ => line.to_owned(),
        });
        lines.collect::<Vec<_>>().join("\n")
    })
    .await;
    fleet.all_serve(1).await;
    let least = Least::of(&fleet);
    // Until each node has staged what runs, which a rollback needs, it is refused with what is missing.
    let path = fleet.spec_file(&fleet.spec("min_in_service: 2\nmax_unavailable: 1"));
    let start = ["upgrade", "start", &path, "--id", ID];
    fleet.until("the upgrade is accepted", &start, |said| said.code == Some(0)).await;
    fleet.accept_sessions().await;
    fleet.completed().await;
    fleet.all_serve(2).await;
    assert!(least.seen() >= 2, "{} health URLs answered 200\n{}", least.seen(), fleet.logs());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ignored_disable_file_pauses_before_any_stop() {
    let mut fleet = Fleet::on(Ground::SMALL).await;
    let (right, wrong) = ("pantry-api.disable\"\n", "not-looked-at.disable\"\n");
    with_config(&mut fleet, false, |text| text.replacen(right, wrong, 1)).await;
    fleet.all_serve(1).await;
    let least = Least::of(&fleet);
    let more = "min_in_service: 2\nmax_unavailable: 1";
    let spec = fleet.spec(more).replace("deadline: 30s, on_deadline", "deadline: 3s, on_deadline");
    let path = fleet.spec_file(&spec);
    fleet.must(&["upgrade", "start", &path, "--id", ID]).await;
    fleet
        .waits_for(&[
            "changed nothing",
            "was not stopped",
            "not-looked-at.disable",
            "200",
            "upgrade retry u1 node-",
        ])
        .await;
    for (node, address) in &fleet.nodes {
        let (_, version) = get(*address, "/version").await.unwrap();
        assert!(version.contains('1'), "{node} was not touched: {version}");
    }
    assert_eq!(least.seen(), fleet.nodes.len(), "each answered 200 all the time\n{}", fleet.logs());

    // Fixed as it is advised.
    let status = fleet.status().await;
    let node = status["failed"][0]["node"].as_str().unwrap().to_owned();
    with_config(&mut fleet, false, |text| text.replacen(wrong, right, 1)).await;
    fleet.must(&["upgrade", "retry", ID, &node, "--why", "mended"]).await;
    fleet.must(&["upgrade", "resume", ID]).await;
    fleet.accept_sessions().await;
    fleet.completed().await;
    fleet.all_serve(2).await;
    assert!(least.seen() >= 2, "{} health URLs answered 200\n{}", least.seen(), fleet.logs());
}
