//! Hooks of compute releases by real processes: two agents warm a release up before it goes out, and one removes the image
//! of what nothing holds any more, while coordinator, agents and hooks are killed.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use grenade_tests::world::agent::Agent;
use grenade_tests::world::coordinator::{self, Coordinator, CoordinatorPlan};
use grenade_tests::world::{port, program};
use serde_json::Value as Json;

use crate::rig::Rig;

const LIMIT: Duration = Duration::from_secs(60);
/// How a command ends when no coordinator answers, or none leads.
const AWAY: i32 = 4;

struct Region {
    coordinator: Coordinator,
    agents: Vec<Agent>,
    // Last, so that everything above is there when the world ends what is left.
    rig: Rig,
}

impl Region {
    /// A coordinator and two agents. The hook `pull` of `node-2` waits for the file `go`, and fails while there is a file
    /// `full`; every hook notes what it was run for.
    async fn of_two() -> Self {
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
        let agents = (1..=2)
            .map(|n| {
                let (node, dir) = (format!("node-{n}"), rig.world.dir().display());
                let wait = format!(
                    "echo $TIDEGATE_TAG >> {dir}/pulled-{n}; [ {n} = 1 ] && exit 0; \
                     while [ ! -e {dir}/go ]; do sleep 0.02; done; \
                     [ -e {dir}/full ] && echo no space left >&2 && exit 7; echo pulled $TIDEGATE_TAG"
                );
                let drop = format!("echo {{tag}} >> {dir}/dropped-{n}");
                let config = format!(
                    "node = \"{node}\"\nstate_dir = \"{dir}/{node}/state\"\nruntime_dir = \"{dir}/{node}/run\"\n\
                     [store]\nendpoints = [\"http://{listen}\"]\n\
                     [hook.pull]\nargv = [\"sh\", \"-c\", {wait:?}]\n\
                     [hook.drop]\nargv = [\"sh\", \"-c\", {drop:?}]\n"
                );
                Agent::start(&rig.world, &node, &config).unwrap()
            })
            .collect();
        Self { coordinator, agents, rig }
    }

    /// `tidegate …`, asked again while no coordinator answers or leads.
    fn ask(&self, arguments: &[&str]) -> String {
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

    fn json(&self, arguments: &[&str]) -> Vec<Json> {
        let text = self.ask(&[&["--json"], arguments].concat());
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn create(&self, number: u32) {
        let (version, tag) = (number.to_string(), format!("release-{number}"));
        self.ask(&["release", "create", "--version", &version, "--tag", &tag]);
    }

    fn status(&self, revision: u32) -> (String, String) {
        let release = self.json(&["release", "show", &revision.to_string()]).remove(0);
        let text = |field: &str| release[field].as_str().unwrap_or_default().to_owned();
        (text("status"), text("because"))
    }

    fn reasons(&self, revision: u32) -> Vec<Json> {
        let told = self.json(&["release", "explain", &revision.to_string()]).remove(0);
        told[0]["reasons"].as_array().cloned().unwrap_or_default()
    }

    fn noted(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.rig.world.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn touch(&self, name: &str) {
        std::fs::write(self.rig.world.path(name), "").unwrap();
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.rig.world.path(name)).unwrap();
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = Instant::now() + LIMIT;
        while !holds(self) {
            let told = || (self.ask(&["release", "explain"]), self.ask(&["task", "list"]));
            assert!(Instant::now() < end, "not in time: {what}; {:?}", told());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn until_deployed(&self, revision: u32) {
        self.until(&format!("{revision} is deployed"), |region| region.status(revision).0 == "deployed")
            .await;
    }

    async fn until_it_runs_on_node_2(&self, revision: u32) {
        let runs = |region: &Self| {
            region.reasons(revision).iter().any(|why| why["what"] == "hook pull runs on node-2")
        };
        self.until("the hook runs on node-2, and nothing else is waited for", |region| {
            runs(region) && region.reasons(revision).len() == 1
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_goes_out_once_its_nodes_are_warm_and_what_it_replaces_is_removed() {
    let mut region = Region::of_two().await;
    let settings = region.rig.world.path("stream.yaml");
    let text = "minimum_available: 1\nprewarm: {hook: pull, nodes: [node-1, node-2]}\nremoval: {hook: drop, nodes: [node-1]}\n";
    std::fs::write(&settings, text).unwrap();
    region.ask(&["release", "stream", "compute", "--set", settings.to_str().unwrap()]);

    // Both must have succeeded, whoever is killed meanwhile; each hook is run once.
    region.create(1);
    region.until_it_runs_on_node_2(1).await;
    assert_eq!(region.status(1).0, "pending");
    region.agents[1].process.crash().unwrap();
    region.coordinator.process.crash().unwrap();
    region.coordinator =
        Coordinator::start(&region.rig.world, region.coordinator.plan.clone()).await.unwrap();
    region.touch("go");
    let world = &region.rig.world;
    region.agents[1].restart(world).unwrap();
    region.until_deployed(1).await;
    assert_eq!([region.noted("pulled-1"), region.noted("pulled-2")], [["release-1"], ["release-1"]]);

    // One that fails holds it, and says why; a person has it tried again.
    region.touch("full");
    region.create(2);
    region.until("it has failed", |region| region.status(2).0 == "error").await;
    assert_eq!(region.status(2).1, "hook pull failed on node-2: exit status: 7: no space left");
    assert_eq!(region.status(1).0, "deployed");
    region.remove("full");
    region.ask(&["release", "retry", "2", "--why", "made room"]);
    region.until_deployed(2).await;

    // What nothing holds any more is removed by its hook, and is history then.
    region
        .until("the image of the first is removed", |region| region.noted("dropped-1") == ["release-1"])
        .await;
    region.until("nothing is left to do", |region| region.json(&["task", "list"]).is_empty()).await;
    assert_eq!(region.status(1).0, "deprecated");

    // The hook goes on, and nobody waits for it any more: a person says how it ended.
    region.remove("go");
    region.create(3);
    region.until_it_runs_on_node_2(3).await;
    let task = region.json(&["task", "list", "--node", "node-2"]).remove(0);
    assert_eq!((&task["state"], &task["hook"]), (&Json::from("claimed"), &Json::from("pull")));
    let id = task["id"].as_str().unwrap().to_owned();
    let lock = region.rig.world.path("node-2/state/.tasks").join(&id).join("run.lock");
    let runner = std::fs::read_to_string(lock).unwrap();
    let runner: i32 = runner.split_whitespace().nth(2).unwrap().parse().unwrap();
    end(runner);
    region
        .until("how it ended is not known", |region| {
            region.reasons(3).iter().any(|why| why["kind"] == "errand-unknown")
        })
        .await;
    let helps = region.reasons(3)[0]["command"].as_str().unwrap().to_owned();
    assert_eq!(helps, format!("tidegate task settle node-2 {id} --outcome succeeded|failed --why …"));
    assert!(region.ask(&["task", "show", "node-2", &id]).contains("state    unknown: "));
    region.ask(&["task", "settle", "node-2", &id, "--outcome", "succeeded", "--why", "the image is there"]);
    region.until_deployed(3).await;
    let history = region.ask(&["release", "history"]);
    assert!(
        history.contains(&format!("task {id} on node-2 settled as succeeded: the image is there (operator")),
        "{history}"
    );
    region.touch("go");
    assert_eq!(region.noted("pulled-2"), ["release-1", "release-2", "release-2", "release-3"]);
}

/// Ends a process that this test started, from outside.
fn end(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
