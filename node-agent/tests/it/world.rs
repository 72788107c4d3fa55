//! A small world for one agent: a store, a service, a balancer, and eyes.

pub(crate) mod agent;
pub(crate) mod balancer;
pub(crate) mod etcd;
pub(crate) mod haproxy;
pub(crate) mod service;
pub(crate) mod store;

use agent::Agent;
use balancer::Balancer;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use store::TestStore;
use tempfile::TempDir;

/// How long a level is waited for: far longer than it ever takes.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// The test that this binary runs to become a service.
pub(crate) const CALLED: &str = "become_a_service_where_that_is_asked_for";

/// Everything that one test needs. What it started ends with it.
pub(crate) struct World {
    pub room: TempDir,
    pub store: TestStore,
    pub balancer: Balancer,
    pub port: u16,
    /// Added to the node's configuration, before its service.
    pub top: String,
    /// Added to what says where the store is.
    pub login: String,
    /// Added to the service's configuration.
    pub more: String,
    /// The balancer's socket in the room.
    pub stats: String,
    /// How code is replaced, where not as a process of the agent.
    pub driver: Option<String>,
    /// Where readiness is asked.
    pub ready: &'static str,
    /// What the configuration says of the sha256 of version 1.
    pub sha256: Option<String>,
}

impl World {
    pub(crate) async fn new() -> Self {
        let room = tempfile::tempdir().unwrap();
        let port = free_port();
        let store = TestStore::start().await;
        let disable = room.path().join("disable");
        let balancer = Balancer::start(&room.path().join("stats.sock"), port).await;
        let (top, login, more) = (String::new(), String::new(), String::new());
        let stats = "stats.sock".to_owned();
        let world = Self {
            room,
            store,
            balancer,
            port,
            top,
            login,
            more,
            stats,
            driver: None,
            ready: "ready",
            sha256: None,
        };
        for version in 1..=3 {
            service::write_release(&world.artifact(version), version, port, world.path(), &disable);
        }
        world
    }

    pub(crate) fn path(&self) -> &Path {
        self.room.path()
    }

    pub(crate) fn artifact(&self, version: u32) -> PathBuf {
        let directory = self.path().join("artifacts").join(format!("v{version}"));
        std::fs::create_dir_all(&directory).unwrap();
        directory.join("service.json")
    }

    pub(crate) fn disable_file(&self) -> PathBuf {
        self.path().join("disable")
    }

    /// The text of the journal: of its two files the one with the higher number.
    pub(crate) fn journal(&self) -> String {
        let files = self.journal_files().map(|path| std::fs::read_to_string(path).unwrap_or_default());
        let newest = files.iter().filter_map(|file| {
            let (head, text) = file.split_once('\n')?;
            Some((head.split(' ').next()?.parse::<u64>().ok()?, text))
        });
        newest.max().map(|(_, text)| text.to_owned()).unwrap_or_default()
    }

    pub(crate) fn journal_files(&self) -> [PathBuf; 2] {
        ["journal.a", "journal.b"].map(|name| self.path().join("state/pantry").join(name))
    }

    /// The configuration of the node, with the `process` driver unless the test says otherwise.
    pub(crate) fn config(&self) -> PathBuf {
        let path = self.path().join("agent.toml");
        std::fs::write(&path, self.config_text()).unwrap();
        path
    }

    fn config_text(&self) -> String {
        let (room, port) = (self.path().display(), self.port);
        let process = format!(
            "[service.pantry.driver.process]\nargv = [{:?}, {CALLED:?}, \"--exact\", \"--nocapture\"]\n\
             env = {{ {} = \"{{release_dir}}/service.json\" }}\nstop_timeout = \"5s\"",
            std::env::current_exe().unwrap(),
            service::CONFIG,
        );
        let mut text = format!(
            r#"
node = "n1"
labels = {{ zone = "a" }}
state_dir = "{room}/state"
runtime_dir = "{room}/run"
lease_ttl = "2s"
{top}
[store]
endpoints = ["http://{store}"]
{login}
[service.pantry]
probe = {{ http = "http://127.0.0.1:{port}/version", pointer = "/version" }}
ready_url = "http://127.0.0.1:{port}/{ready}"
health_url = "http://127.0.0.1:{port}/healthcheck"
disable_file = "{room}/disable"
interval = "100ms"
fast_interval = "20ms"
timeout = "700ms"
in_flight = {{ url = "http://127.0.0.1:{port}/in-flight" }}
check = {{ interval = "50ms", fall = 2, rise = 2 }}
{more}
{driver}
[[service.pantry.balancer]]
stats = "unix:{room}/{stats}"
backend = "pantry"
server = "n1"
"#,
            top = self.top,
            ready = self.ready,
            login = self.login,
            more = self.more,
            stats = self.stats,
            store = self.store.address,
            driver = self.driver.clone().unwrap_or(process),
        );
        for version in 1..=3 {
            text += &format!(
                "[service.pantry.artifact.\"pantry-{version}\"]\nsource = {:?}\nversion = {version}\n",
                self.artifact(version)
            );
            if let Some(sha256) = self.sha256.as_ref().filter(|_| version == 1) {
                text += &format!("sha256 = {sha256:?}\n");
            }
        }
        text
    }

    /// Starts the agent.
    pub(crate) fn agent(&self) -> Agent {
        Agent::start(&self.config(), &self.path().join("agent.log"), &[])
    }

    /// Starts it so that it ends by itself at a place.
    pub(crate) fn agent_that_crashes(&self, at: &str) -> Agent {
        Agent::start(&self.config(), &self.path().join("agent.log"), &[("TIDEGATE_AGENT_CRASH_AT", at)])
    }

    /// The starts of the service so far: version and pid of each.
    pub(crate) fn starts(&self) -> Vec<(u32, i32)> {
        service::starts(self.path())
    }

    /// What an agent has logged, for messages.
    pub(crate) fn log(&self) -> String {
        let text = std::fs::read_to_string(self.path().join("agent.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for (_, pid) in self.starts() {
            service::end(pid, self.path());
        }
    }
}

/// A port on which nothing listens and which no other test gets.
pub(crate) fn free_port() -> u16 {
    tidegate_port::free().unwrap().port()
}

/// Waits until `look` answers something that `holds`, and returns it; fails with the last thing seen.
pub(crate) async fn wait_for<T: Debug, F: Future<Output = T>>(
    what: &str,
    world: &World,
    mut look: impl FnMut() -> F,
    holds: impl Fn(&T) -> bool,
) -> T {
    let end = Instant::now() + LONG;
    loop {
        let seen = look().await;
        if holds(&seen) {
            return seen;
        }
        assert!(
            Instant::now() < end,
            "not within {LONG:?}: {what}; last seen {seen:?}\njournal {}\nlog\n{}",
            world.journal(),
            world.log()
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
