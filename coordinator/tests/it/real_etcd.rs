//! Two coordinators side by side on a real etcd.

use crate::herd::Herd;
use crate::process::Daemon;
use crate::world::spec;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tidegate_proto::Prefix;
use tidegate_proto::key::Kind;
use tidegate_store::{Endpoints, Scope, Store};
use tokio_util::sync::CancellationToken;

struct Etcd {
    child: Child,
    url: String,
    _dir: tempfile::TempDir,
}

impl Etcd {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let free = || tidegate_port::free().unwrap();
        let (url, peer) = (format!("http://{}", free()), format!("http://{}", free()));
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let child = Command::new("etcd")
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("etcd is installed");
        let etcd = Self { child, url, _dir: dir };
        etcd.store().await;
        etcd
    }

    async fn store(&self) -> Store {
        let began = Instant::now();
        loop {
            match Store::connect(&Endpoints::plain([self.url.clone()]), Prefix::default()).await {
                Ok(store) => return store,
                Err(error) => {
                    assert!(began.elapsed() < Duration::from_secs(30), "etcd does not answer: {error}")
                }
            }
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_is_killed_in_the_roll_and_the_other_completes() {
    let etcd = Etcd::start().await;
    let end = CancellationToken::new();
    let herd = Herd::at_version_1(etcd.store().await, 12).await;
    let least = herd.least.clone();
    tokio::spawn(herd.slow(Duration::from_millis(100)).run(end.clone()));
    let mut first = Daemon::over(&etcd.url);
    let second = Daemon::over(&etcd.url);
    assert!(first.http("/readyz").contains("\"leads\":true"));
    let path = second.file("spec.yaml", &spec("min_in_service: 10"));
    let started = second.ask(&["upgrade", "start", path.to_str().unwrap(), "--id", "u1"]);
    assert_eq!(started.code, 0, "a follower forwards: {started:?}");
    let watch = second.command(&["upgrade", "watch", "u1"]).stdout(Stdio::piped()).spawn().unwrap();
    second.until("some are done", &["upgrade", "status", "u1"], |said| said.out.contains("done      3/12"));
    first.kill();
    let watched = watch.wait_with_output().unwrap();
    let text = String::from_utf8(watched.stdout).unwrap();
    assert!(watched.status.success() && text.ends_with("over: completed\n"), "{text}");
    assert!(*least.lock().unwrap() >= 11, "one at a time, also over the change of leaders");
    assert!(second.http("/readyz").contains("\"leads\":true"));
    end.cancel();
}

/// An operator's command, and a script's request, during a handover.
#[tokio::test(flavor = "multi_thread")]
async fn request_during_handover_waits_for_next_leader() {
    let etcd = Etcd::start().await;
    let mut first = Daemon::over(&etcd.url);
    let second = Daemon::over(&etcd.url);
    assert!(first.http("/readyz").contains("\"leads\":true"));
    first.kill();
    let asked = second.ask(&["release", "create", "--version", "1", "--tag", "one"]);
    assert_eq!(asked.code, 0, "{asked:?}");
    let shown = second.ask(&["release", "show"]);
    assert!(shown.out.contains("one"), "{shown:?}");
}

/// A store that hangs breaks no connection: the leader knows first, by its own lease.
#[tokio::test(flavor = "multi_thread")]
async fn leader_whose_lease_is_not_confirmed_is_not_ready() {
    let etcd = Etcd::start().await;
    let leader = Daemon::over(&etcd.url);
    assert!(leader.http("/readyz").contains("\"leads\":true"));
    let signal = |name: &str| {
        assert!(Command::new("kill").args([name, &etcd.child.id().to_string()]).status().unwrap().success());
    };
    signal("-STOP");
    let began = Instant::now();
    let said = loop {
        let said = leader.http("/readyz");
        if said.starts_with("HTTP/1.1 503") {
            break said;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "still ready: {said}\n{}", leader.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    signal("-CONT");
    assert!(said.contains("its lease was not confirmed in time"), "{said}");
    while !leader.http("/readyz").starts_with("HTTP/1.1 200") {
        assert!(began.elapsed() < Duration::from_secs(120), "not ready again: {}", leader.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The most memory that a process has had, in MiB.
fn peak_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() / 1024
}

/// What one node's user may do to every coordinator, while one leads and before one takes over.
#[tokio::test(flavor = "multi_thread")]
async fn results_of_one_node_do_not_fill_a_coordinator() {
    const ALLOWED_MIB: u64 = 128;
    let etcd = Etcd::start().await;
    let results = async || {
        let mut kv = etcd_client::Client::connect([&etcd.url], None).await.unwrap().kv_client();
        for n in 0..500 {
            kv.put(format!("/tidegate/results/n1/stray-{n}"), vec![b'x'; 900_000], None).await.unwrap();
        }
    };
    results().await;
    let leader = Daemon::over(&etcd.url);
    let taken_over = peak_mib(leader.pid());
    assert!(taken_over < ALLOWED_MIB, "{taken_over} MiB to take over");
    results().await;
    let began = Instant::now();
    let keys = etcd.store().await;
    while !keys.keys(&Scope::Kind(Kind::TaskResult)).await.unwrap().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "they are not removed: {}", leader.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let peak = peak_mib(leader.pid());
    assert!(peak < ALLOWED_MIB, "{peak} MiB to lead");
    let lines = leader.log().lines().filter(|line| line.contains("stray-")).count();
    assert!(lines <= 40, "{lines} lines about bad keys");
}
