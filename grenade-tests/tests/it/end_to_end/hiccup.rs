//! All instances are unready for a moment in the middle of the roll: no more of them leave rotation than may.

use std::time::{Duration, Instant};

use super::fleet::{Fleet, Ground, LIMIT, Said};
use super::least::Least;
use super::line::Line;

/// Puts a line that can be cut before every readiness URL; agents go on with it.
async fn behind_lines(fleet: &mut Fleet) -> Vec<Line> {
    let mut lines = Vec::new();
    for n in 0..fleet.agents.len() {
        let line = Line::to(&fleet.nodes[n].1.to_string()).await;
        let config = fleet.agents[n].config.clone();
        let text = std::fs::read_to_string(&config).unwrap();
        let direct = format!("ready_url = \"http://{}/ready\"", fleet.nodes[n].1);
        assert!(text.contains(&direct), "{text}");
        let text = text.replace(&direct, &format!("ready_url = \"{}/ready\"", line.url()));
        fleet.agents[n].process.crash().unwrap();
        std::fs::write(&config, text).unwrap();
        fleet.agents[n].restart(&fleet.rig.world).unwrap();
        lines.push(line);
    }
    fleet.all_serve(1).await;
    lines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_unready_for_a_moment_leaves_min_in_service() {
    let mut fleet = Fleet::on(Ground { instances: 4, ..Ground::SMALL }).await;
    let lines = behind_lines(&mut fleet).await;
    let spec = "strategy: {rolling: {batch: 4}}\nmin_in_service: 3\nmax_unavailable: 1\napprovals: [roll]";
    fleet.upgrade(spec).await;
    fleet.waits_for(&["phase roll requires a manual approval"]).await;
    let least = Least::of(&fleet);
    fleet.approve("roll").await;
    let end = Instant::now() + LIMIT;
    while !fleet.nodes.iter().any(|(node, _)| fleet.disable_file(node).exists()) {
        assert!(Instant::now() < end, "no instance is drained\n{}", fleet.logs());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    lines.iter().for_each(Line::cut);
    let unready = |said: &Said| said.out.matches("\"health\":\"unhealthy\"").count() >= 3;
    fleet.until("all are seen unready", &["--json", "fleet", "list"], unready).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    lines.iter().for_each(Line::mend);
    fleet.accept_sessions().await;
    fleet.completed().await;
    fleet.all_serve(2).await;
    assert!(least.seen() >= 3, "{} of 4 health URLs answered 200\n{}", least.seen(), fleet.logs());
}
