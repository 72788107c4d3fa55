//! A private etcd on free ports and a directory of its own, ended with the value.

use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use etcd_client::Client;

/// How long etcd may take to answer.
const LIMIT: Duration = Duration::from_secs(30);

/// A running etcd.
pub(super) struct Etcd {
    child: Child,
    url: String,
    dir: tempfile::TempDir,
}

impl Etcd {
    /// Starts one and waits until it answers. Its writes are not synced to the disk where it can do without: what
    /// is compared here is what it answers.
    pub(super) async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("http://{}", tidegate_port::free().unwrap());
        let peer = format!("http://{}", tidegate_port::free().unwrap());
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let child = Command::new("etcd")
            .args(["--name", "private", "--logger", "zap"])
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("private={peer}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("start etcd (the package etcd-server has it)");
        let etcd = Self { child, url, dir };
        etcd.wait_until_it_answers().await;
        etcd
    }

    async fn wait_until_it_answers(&self) {
        let started = Instant::now();
        loop {
            let answer = async { Client::connect([&self.url], None).await?.status().await }.await;
            match answer {
                Ok(_) => return,
                Err(error) if started.elapsed() > LIMIT => panic!("etcd does not answer: {error}"),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    pub(super) async fn client(&self) -> Client {
        Client::connect([&self.url], None).await.unwrap()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
            let telling = |line: &&str| line.contains("panic") || line.contains("fatal");
            let reported: Vec<&str> = log.lines().filter(telling).collect();
            eprintln!("what etcd said of its own end:\n{}", reported.join("\n"));
        }
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
