//! A version that is put back by hand under a running service, after the upgrade's end: instances that are in rotation
//! leave it within capacity, unless a contracted schema forbids their version.

use grenade_tests::fixture::node::{NEW, OLD, PROGRAM};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::fleet::{Fleet, Ground, ID, Said};
use super::hooks::{by_hooks, put_back};
use super::least::Least;

fn instances(said: &Said) -> Vec<Value> {
    said.out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// How many instances are in this state.
fn count(said: &Said, step: &str, rotation: &str) -> usize {
    instances(said).iter().filter(|i| i["step"] == step && i["rotation"] == rotation).count()
}

/// The one that was drained.
async fn drained(fleet: &Fleet, refused: usize) -> String {
    let list = ["--json", "fleet", "list"];
    let good = |said: &Said| count(said, "drained", "out") == 1 && count(said, "refused", "in") == refused;
    let said = fleet.until("one is drained, and the others serve on", &list, good).await;
    let out = instances(&said).into_iter().find(|i| i["step"] == "drained").unwrap();
    out["node"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_put_back_everywhere_leaves_within_capacity() {
    let mut fleet = Fleet::on(Ground::SMALL).await;
    by_hooks(&mut fleet, "").await;
    // The same program under both names: nothing depends on a schema here.
    let artifacts = fleet.rig.world.path("artifacts");
    let program = std::fs::read(artifacts.join(OLD).join(PROGRAM)).unwrap();
    std::fs::write(artifacts.join(NEW).join(PROGRAM), &program).unwrap();
    let spec = format!(
        "service: pantry-api\nfrom: 1\nto: 2\nrelease: {{tag: {NEW}, sha256: {}}}\nmin_in_service: 2\n\
         max_unavailable: 1\nhealth: {{min_healthy_time: 300ms, healthy_deadline: 30s, progress_deadline: 2m}}\n",
        hex::encode(Sha256::digest(&program))
    );
    let path = fleet.spec_file(&spec);
    fleet.must(&["upgrade", "start", &path, "--id", ID]).await;
    fleet.completed().await;
    fleet.all_serve(2).await;

    let least = Least::of(&fleet);
    for (node, _) in &fleet.nodes {
        put_back(&fleet, node, 1);
    }
    let mut out = drained(&fleet, 2).await;
    let spread = fleet.must(&["fleet", "spread"]).await;
    assert!(spread.contains("outside the window [2, 2]") && spread.contains(&out), "{spread}");
    fleet.waits_for(&["outside the window [2, 2]", &out]).await;
    let events = fleet.must(&["fleet", "history"]).await;
    assert!(events.contains(&format!("drain pantry-api/{out}")), "{events}");
    // Each goes back as soon as its version is admitted, and then the next may leave.
    for left in [1, 0] {
        put_back(&fleet, &out, 2);
        out = drained(&fleet, left).await;
    }
    put_back(&fleet, &out, 2);
    fleet.all_serve(2).await;
    assert!(least.seen() >= 2, "{} health URLs answered 200\n{}", least.seen(), fleet.logs());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn version_below_a_contracted_schema_is_disabled_at_once() {
    let mut fleet = Fleet::on(Ground::SMALL).await;
    by_hooks(&mut fleet, "").await;
    fleet.upgrade("min_in_service: 1\nmax_unavailable: 1").await;
    fleet.accept_sessions().await;
    fleet.completed().await;
    for (node, _) in &fleet.nodes {
        put_back(&fleet, node, 1);
    }
    let out = |said: &Said| count(said, "refused", "out") == fleet.nodes.len();
    fleet.until("all are refused and out", &["--json", "fleet", "list"], out).await;
}
