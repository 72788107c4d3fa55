//! A coordinator, agents and an operator's commands, on an embedded store or a real etcd, for tests of compute releases
//! and metadata.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use grenade_tests::world::agent::Agent;
use grenade_tests::world::coordinator::{self, Coordinator, CoordinatorPlan};
use grenade_tests::world::etcd::{self, Etcd};
use grenade_tests::world::{port, program};
use serde_json::Value as Json;

use crate::rig::Rig;

/// How long anything may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// How a command ends when no coordinator answers, or none leads.
const AWAY: i32 = 4;

/// Its store.
#[derive(Clone, Copy)]
pub(crate) enum Ground {
    Embedded,
    Etcd,
}

pub(crate) struct Region {
    pub coordinator: Coordinator,
    pub agents: Vec<Agent>,
    _etcd: Option<Etcd>,
    // Last, so that everything above is there when the world ends what is left.
    pub rig: Rig,
}

impl Region {
    /// A coordinator, and agents on `node-1` and so on, each with what `config` says beyond its place and its store: it is
    /// given the node's number and the directory of all.
    pub(crate) async fn of(ground: Ground, nodes: u32, config: impl Fn(u32, &str) -> String) -> Self {
        let rig = Rig::new();
        let etcd = match ground {
            Ground::Embedded => None,
            Ground::Etcd => Some(etcd::start(&rig.world, 1).await.unwrap()),
        };
        let listen = port::free().unwrap();
        let plan = plan(&rig, etcd.as_ref(), listen);
        let endpoint =
            etcd.as_ref().map_or_else(|| format!("http://{listen}"), |etcd| etcd.endpoints().remove(0));
        let coordinator = Coordinator::start(&rig.world, plan).await.unwrap();
        let dir = rig.world.dir().display().to_string();
        let agent = |n| {
            let node = format!("node-{n}");
            let text = format!(
                "node = \"{node}\"\nstate_dir = \"{dir}/{node}/state\"\nruntime_dir = \"{dir}/{node}/run\"\n\
                 lease_ttl = \"2s\"\n[store]\nendpoints = [\"{endpoint}\"]\n{}",
                config(n, &dir)
            );
            Agent::start(&rig.world, &node, &text).unwrap()
        };
        let agents = (1..=nodes).map(agent).collect();
        Self { coordinator, agents, _etcd: etcd, rig }
    }

    /// The coordinator is killed and restarted.
    pub(crate) async fn crash_coordinator(&mut self) {
        self.coordinator.process.crash().unwrap();
        self.coordinator = Coordinator::start(&self.rig.world, self.coordinator.plan.clone()).await.unwrap();
    }

    /// `tidegate …`, asked again while no coordinator answers or leads.
    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            let said = Command::new(program::own("tidegate").unwrap())
                .args(["--coordinator", &format!("http://{}", self.coordinator.plan.grpc)])
                .args(["--token-file", coordinator::token_file(&self.rig.world).unwrap().to_str().unwrap()])
                .args(arguments)
                .stdin(Stdio::null())
                .output()
                .unwrap();
            if said.status.success() {
                return String::from_utf8(said.stdout).unwrap();
            }
            let err = String::from_utf8_lossy(&said.stderr);
            assert!(said.status.code() == Some(AWAY) && Instant::now() < end, "{arguments:?}: {err}");
        }
    }

    /// The same as JSON, one value a line.
    pub(crate) fn json(&self, arguments: &[&str]) -> Vec<Json> {
        let text = self.ask(&[&["--json"], arguments].concat());
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Creates the release of a number, with more arguments.
    pub(crate) fn create(&self, number: u32, more: &[&str]) {
        let (version, tag) = (number.to_string(), format!("release-{number}"));
        self.ask(&[&["release", "create", "--version", &version, "--tag", &tag], more].concat());
    }

    /// The status of a release, and why.
    pub(crate) fn status(&self, revision: u32) -> (String, String) {
        let release = self.json(&["release", "show", &revision.to_string()]).remove(0);
        let text = |field: &str| release[field].as_str().unwrap_or_default().to_owned();
        (text("status"), text("because"))
    }

    /// All that a release waits for.
    pub(crate) fn reasons(&self, revision: u32) -> Vec<Json> {
        let explained = self.json(&["release", "explain", &revision.to_string()]).remove(0);
        explained[0]["reasons"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until it is so; else says how everything stands.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = Instant::now() + LIMIT;
        while !holds(self) {
            let stands = [["release", "explain"], ["fleet", "list"], ["task", "list"], ["metadata", "list"]];
            let stands = || stands.map(|arguments| self.ask(&arguments)).join("\n");
            assert!(Instant::now() < end, "not in time: {what}; {}", stands());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a release is deployed.
    pub(crate) async fn until_deployed(&self, revision: u32) {
        self.until(&format!("{revision} is deployed"), |region| region.status(revision).0 == "deployed")
            .await;
    }
}

fn plan(rig: &Rig, etcd: Option<&Etcd>, listen: SocketAddr) -> CoordinatorPlan {
    let embedded = || format!("embedded:{}", rig.world.path("store").display());
    let store = etcd.map_or_else(embedded, Etcd::store_argument);
    CoordinatorPlan {
        store_listen: etcd.is_none().then_some(listen),
        args: ["--leader-ttl", "2s"].map(str::to_owned).to_vec(),
        ..CoordinatorPlan::new("only", store).unwrap()
    }
}
