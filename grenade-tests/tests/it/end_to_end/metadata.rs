//! Metadata by real processes: three agents follow a group, an operator gives it documents from the command line, and the
//! coordinator is killed in the middle.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use grenade_tests::world::agent::Agent;
use grenade_tests::world::coordinator::{self, Coordinator, CoordinatorPlan};
use grenade_tests::world::{port, program};
use serde_json::{Value as Json, json};

use crate::rig::Rig;

const LIMIT: Duration = Duration::from_secs(30);
/// How a command ends when no coordinator answers, or none leads.
const AWAY: i32 = 4;

struct Edge {
    coordinator: Coordinator,
    _agents: Vec<Agent>,
    // Last, so that everything above is there when the world ends what is left.
    rig: Rig,
}

impl Edge {
    async fn of_three() -> Self {
        let rig = Rig::new();
        let listen = port::free().unwrap();
        let plan = CoordinatorPlan {
            name: "only".to_owned(),
            store: format!("embedded:{}", rig.world.path("store").display()),
            store_listen: Some(listen),
            http: port::free().unwrap(),
            grpc: port::free().unwrap(),
            prefix: None,
            env: Vec::new(),
            args: ["--leader-ttl", "2s"].map(str::to_owned).to_vec(),
        };
        let coordinator = Coordinator::start(&rig.world, plan).await.unwrap();
        let agents = (1..=3)
            .map(|n| {
                let (node, dir) = (format!("node-{n}"), rig.world.dir().display());
                // The hook takes no document that says so.
                let hook = format!("! grep -q bad {dir}/{node}.json");
                let config = format!(
                    "node = \"{node}\"\nstate_dir = \"{dir}/{node}/state\"\nruntime_dir = \"{dir}/{node}/run\"\n\
                     [store]\nendpoints = [\"http://{listen}\"]\n\
                     [metadata.edge]\nfile = \"{dir}/{node}.json\"\nhook = [\"sh\", \"-c\", {hook:?}]\ntimeout = \"5s\"\n"
                );
                Agent::start(&rig.world, &node, &config).unwrap()
            })
            .collect();
        Self { coordinator, _agents: agents, rig }
    }

    /// `tidegate metadata …`, as JSON; asked again while no coordinator answers or leads.
    fn ask(&self, arguments: &[&str]) -> Json {
        let end = Instant::now() + LIMIT;
        loop {
            let said = Command::new(program::own("tidegate").unwrap())
                .args(["--coordinator", &format!("http://{}", self.coordinator.plan.grpc)])
                .args(["--token-file", coordinator::token_file(&self.rig.world).unwrap().to_str().unwrap()])
                .args(["--json", "metadata"])
                .args(arguments)
                .stdin(Stdio::null())
                .output()
                .unwrap();
            if said.status.success() {
                return serde_json::from_slice(&said.stdout).unwrap();
            }
            let err = String::from_utf8_lossy(&said.stderr);
            assert!(said.status.code() == Some(AWAY) && Instant::now() < end, "{arguments:?}: {err}");
        }
    }

    fn set(&self, document: &Json, more: &[&str]) -> Json {
        let path = self.rig.world.path("document.json");
        std::fs::write(&path, document.to_string()).unwrap();
        let set = [&["set", "edge", path.to_str().unwrap()], more].concat();
        self.ask(&set)
    }

    fn files(&self) -> Vec<Option<Json>> {
        let read = |n: usize| {
            let bytes = std::fs::read(self.rig.world.path(&format!("node-{n}.json"))).ok()?;
            Some(serde_json::from_slice(&bytes).unwrap())
        };
        (1..=3).map(read).collect()
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = Instant::now() + LIMIT;
        while !holds(self) {
            assert!(
                Instant::now() < end,
                "not in time: {what}; {:?} {:#}",
                self.files(),
                self.ask(&["show", "edge"])
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn all_have(&self, document: &Json) {
        let all = vec![Some(document.clone()); 3];
        self.until(&format!("all have {document}"), |edge| edge.files() == all).await;
    }

    async fn ended(&self) -> Json {
        self.until("no update runs", |edge| edge.ask(&["show", "edge"])["update"].is_null()).await;
        self.ask(&["show", "edge"])["last"].clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_reach_agents_batch_by_batch_and_a_bad_one_is_returned_from() {
    let mut edge = Edge::of_three().await;
    let (first, second, bad) = (json!({"x": 1}), json!({"x": 2}), json!({"x": "bad"}));
    let members = ["--instance", "node-1", "--instance", "node-2", "--instance", "node-3"];
    edge.set(&first, &members);
    edge.all_have(&first).await;

    edge.set(&second, &["--pattern", "rolling", "--pause", "200ms"]);
    edge.coordinator.process.crash().unwrap();
    edge.coordinator = Coordinator::start(&edge.rig.world, edge.coordinator.plan.clone()).await.unwrap();
    let last = edge.ended().await;
    assert_eq!(last["outcome"], "finished", "{last:#}");
    edge.all_have(&second).await;

    edge.set(&bad, &["--pattern", "canary", "--timeout", "20s"]);
    let last = edge.ended().await;
    assert_eq!(last["outcome"], "returned", "{last:#}");
    assert!(last["because"].as_str().unwrap().contains("(hook: exit status: 1"), "{last:#}");
    edge.all_have(&second).await;
}
