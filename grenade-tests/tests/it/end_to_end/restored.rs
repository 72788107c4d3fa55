//! A store that was restored from a backup, or is blank, under live agents: nothing acts on it, floors are not
//! forgotten, and after a person's word it goes on from there.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use grenade_tests::world::program;
use grenade_tests::world::wait::get;
use serde_json::Value;
use tokio::task::JoinHandle;

use super::fleet::{Fleet, Ground, ID, LIMIT, Said, run};
use super::rotation_monitor::RotationMonitor;

const SPEC: &str = "min_in_service: 0\nmax_unavailable: 1\napprovals: [roll]";

/// How often each node went out, when each did so once.
fn once(fleet: &Fleet) -> BTreeMap<String, usize> {
    fleet.nodes.iter().map(|(node, _)| (node.clone(), 1)).collect()
}

/// Runs the upgrade until the first instance is ordered to drain.
async fn rolls(fleet: &Fleet, monitor: &RotationMonitor) {
    fleet.upgrade(SPEC).await;
    fleet.waits_for(&["phase roll requires a manual approval"]).await;
    fleet.approve("roll").await;
    let end = Instant::now() + LIMIT;
    while monitor.times_out().values().sum::<usize>() == 0 {
        assert!(Instant::now() < end, "no instance is drained\n{}", fleet.logs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until every instance was replaced and the old code is gone: all that needs no operator.
async fn is_replaced(fleet: &Fleet) {
    fleet.waits_for(&["accepts what cannot be proved"]).await;
    fleet.all_serve(2).await;
}

/// A coordinator leads, and every command reports why nothing moves; for at least as long, nothing does.
async fn nothing_acts(fleet: &Fleet, monitor: &RotationMonitor) {
    let out = monitor.times_out();
    let path = fleet.spec_file(&fleet.spec(SPEC));
    let start = ["upgrade", "start", &path, "--id", "u9"];
    let says_why = |words: &str| words.contains("no step is taken until a person reconciles it");
    // A database with a term that the store does not know is the first finding of a start.
    let refused = |said: &Said| says_why(&said.err) || said.err.contains("this store does not know");
    fleet.until("a request for more is refused with the reason", &start, refused).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(monitor.times_out(), out, "no instance is taken out\n{}", fleet.logs());
    let (_, ready) = get(fleet.coordinators[0].plan.http, "/readyz").await.unwrap();
    assert!(says_why(&ready) && ready.contains("pantry-api/node-"), "{ready}");
}

/// A plan of every instance that can be applied, and just that is applied; where agents have reported since, the next one.
async fn reconcile(fleet: &Fleet) {
    let plan = ["--json", "fleet", "reconcile"];
    let read = |said: &Said| serde_json::from_str::<Value>(&said.out).ok();
    // Who has not reported to this store is not in the plan: its agent would contradict what was applied without it.
    let has_all = |plan: &Value| plan["instances"].as_array().map(Vec::len) == Some(fleet.nodes.len());
    let applies = |said: &Said| {
        read(said).is_some_and(|plan| has_all(&plan) && plan["refused"] == 0 && plan["nothing_acts"] == true)
    };
    let end = Instant::now() + LIMIT;
    loop {
        let said = fleet.until("the plan can be applied", &plan, applies).await;
        let hash = read(&said).unwrap()["hash"].as_str().unwrap().to_owned();
        let why = "the disk died; whatever the upgrade did stands";
        let said = fleet.ask(&["fleet", "reconcile", "--apply", &hash, "--why", why]).await;
        if said.code == Some(0) {
            return;
        }
        assert!(Instant::now() < end, "no plan could be applied: {said:#?}\n{}", fleet.logs());
    }
}

/// It goes on from where the backup has it, and no replaced instance is taken out once more.
async fn goes_on(fleet: &Fleet, monitor: &RotationMonitor) {
    fleet.waits_for(&["restored from a backup", "tidegate fleet reconcile"]).await;
    reconcile(fleet).await;
    is_replaced(fleet).await;
    assert_eq!(monitor.times_out(), once(fleet), "{}", fleet.logs());
}

/// The file of an embedded store whose coordinator does not run, or is stalled: as a power cut would leave it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    std::fs::copy(from.join("store.redb"), to.join("store.redb")).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn older_copy_of_embedded_store_is_noticed_and_reconciled() {
    // Two: the word of one node counts for that node alone.
    let mut fleet = Fleet::on(Ground { instances: 2, ..Ground::SMALL }).await;
    let monitor = RotationMonitor::before(&fleet);
    let (store, backup) = (fleet.rig.world.path("store"), fleet.rig.world.path("backup"));
    rolls(&fleet, &monitor).await;
    fleet.coordinators[0].process.freeze().unwrap();
    copy(&store, &backup);
    fleet.coordinators[0].process.thaw().unwrap();
    is_replaced(&fleet).await;

    fleet.coordinators[0].process.crash().unwrap();
    copy(&backup, &store);
    fleet.restart_coordinator(0).await;
    nothing_acts(&fleet, &monitor).await;
    goes_on(&fleet, &monitor).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_a_blank_store_is_noticed_and_no_floor_is_forgotten() {
    let mut fleet = Fleet::on(Ground::SMALL).await;
    let monitor = RotationMonitor::before(&fleet);
    rolls(&fleet, &monitor).await;
    fleet.accept_sessions().await;
    fleet.completed().await;
    fleet.coordinators[0].process.crash().unwrap();
    std::fs::remove_file(fleet.rig.world.path("store").join("store.redb")).unwrap();
    fleet.restart_coordinator(0).await;
    nothing_acts(&fleet, &monitor).await;
    reconcile(&fleet).await;
    fleet.until("the floor stands", &["fleet", "spread"], |said| said.out.contains("[2, 2]")).await;
    fleet.all_serve(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_real_etcd_is_restored_under_two_coordinators() {
    let mut fleet = Fleet::on(Ground { etcd: true, ..Ground::SMALL }).await;
    let monitor = RotationMonitor::before(&fleet);
    let snapshot = fleet.rig.world.path("snapshot.db");
    let snapshot = snapshot.to_str().unwrap();
    rolls(&fleet, &monitor).await;
    let endpoint = format!("--endpoints={}", fleet.store);
    etcdctl(&[&endpoint, "snapshot", "save", snapshot]).await;
    is_replaced(&fleet).await;

    let etcd = fleet.etcd.as_mut().unwrap();
    let (name, peer) = etcd.peers[0].clone();
    let data = fleet.rig.world.path(&name);
    etcd.members[0].0.crash().unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    let (data, cluster) = (data.to_str().unwrap(), format!("{name}={peer}"));
    let member = ["--name", &name, "--initial-cluster", &cluster, "--initial-advertise-peer-urls", &peer];
    etcdctl(&[&["snapshot", "restore", snapshot, "--data-dir", data], &member[..]].concat()).await;
    etcd.restart(&fleet.rig.world, 0).await.unwrap();
    nothing_acts(&fleet, &monitor).await;
    goes_on(&fleet, &monitor).await;
    fleet.accept_sessions().await;
    fleet.completed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blank_store_in_mid_roll_keeps_every_health_url_at_200() {
    let mut fleet = Fleet::on(Ground { instances: 4, ..Ground::SMALL }).await;
    let last = fleet.nodes[3].0.clone();
    // One wave: a wave of a skipped instance alone does not pass.
    let spec = "strategy: {rolling: {batch: 4}}\nmin_in_service: 3\nmax_unavailable: 1\napprovals: [roll]";
    fleet.upgrade(spec).await;
    fleet.waits_for(&["phase roll requires a manual approval"]).await;
    fleet.must(&["upgrade", "skip", ID, &last, "--why", "it stays at version 1"]).await;
    fleet.approve("roll").await;
    let new = |said: &Said| said.out.matches("\"version\":2").count() == 3 && all_in_service(said, 4);
    fleet.until("three of four serve at version 2", &["--json", "fleet", "list"], new).await;

    fleet.coordinators[0].process.crash().unwrap();
    std::fs::remove_file(fleet.rig.world.path("store").join("store.redb")).unwrap();
    fleet.restart_coordinator(0).await;
    let urls = HealthUrls::of(&fleet);
    reconcile(&fleet).await;
    fleet
        .until("every instance is admitted again", &["--json", "fleet", "list"], |said| {
            said.out.matches("\"version\":2").count() == 3 && all_in_service(said, 4)
        })
        .await;
    fleet.until("the window leaves room", &["fleet", "spread"], |said| said.out.contains("[1, 2]")).await;
    let others = urls.others_than_200();
    assert!(others.is_empty(), "{others:?}\n{}", fleet.logs());
}

fn all_in_service(said: &Said, count: usize) -> bool {
    said.out.matches("\"in_service\":true").count() == count
}

/// What every health URL answers, asked again and again.
struct HealthUrls {
    answers: Arc<Mutex<Vec<(String, String)>>>,
    task: JoinHandle<()>,
}

impl HealthUrls {
    fn of(fleet: &Fleet) -> Self {
        let answers = Arc::<Mutex<Vec<_>>>::default();
        let (nodes, noted) = (fleet.nodes.clone(), Arc::clone(&answers));
        let task = tokio::spawn(async move {
            loop {
                for (node, address) in &nodes {
                    let answer = get(*address, "/healthcheck").await;
                    let said = format!("{:?}", answer.as_ref().map(|(status, _)| *status));
                    if said != "Ok(200)" {
                        noted.lock().unwrap().push((node.clone(), said));
                    }
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { answers, task }
    }

    fn others_than_200(self) -> Vec<(String, String)> {
        self.task.abort();
        std::mem::take(&mut *self.answers.lock().unwrap())
    }
}

async fn etcdctl(args: &[&str]) {
    let mut command = Command::new(program::outside("etcdctl").unwrap());
    command.env("ETCDCTL_API", "3").args(args);
    let said = run(command).await;
    assert_eq!(said.code, Some(0), "etcdctl {args:?}: {said:#?}");
}
