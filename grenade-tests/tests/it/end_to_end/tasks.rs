//! Hooks of compute releases by real processes: two agents warm a release up before it goes out, and one removes the image
//! of what nothing holds any more, while coordinator, agents and hooks are killed.

use serde_json::Value as Json;

use crate::region::{Ground, Region};

/// A coordinator and two agents. The hook `pull` of `node-2` waits for the file `go`, and fails while there is a file
/// `full`; every hook notes what it was run for. Releases of the stream are warmed up on both.
async fn of_two(ground: Ground) -> Region {
    let region = Region::of(ground, 2, |n, dir| {
        let wait = format!(
            "echo $TIDEGATE_TAG >> {dir}/pulled-{n}; [ {n} = 1 ] && exit 0; \
             while [ ! -e {dir}/go ]; do sleep 0.02; done; \
             [ -e {dir}/full ] && echo no space left >&2 && exit 7; echo pulled $TIDEGATE_TAG"
        );
        let drop = format!("echo {{tag}} >> {dir}/dropped-{n}");
        format!(
            "[hook.pull]\nargv = [\"sh\", \"-c\", {wait:?}]\n[hook.drop]\nargv = [\"sh\", \"-c\", {drop:?}]\n"
        )
    });
    let region = region.await;
    let settings = region.rig.world.path("stream.yaml");
    let text = "minimum_available: 1\nprewarm: {hook: pull, nodes: [node-1, node-2]}\nremoval: {hook: drop, nodes: [node-1]}\n";
    std::fs::write(&settings, text).unwrap();
    region.ask(&["release", "stream", "compute", "--set", settings.to_str().unwrap()]);
    region
}

impl Region {
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

    async fn until_it_runs_on_node_2(&self, revision: u32) {
        let runs = |region: &Self| {
            region.reasons(revision).iter().any(|why| why["blocked_on"] == "hook pull runs on node-2")
        };
        self.until("the hook runs on node-2, and nothing else is waited for", |region| {
            runs(region) && region.reasons(revision).len() == 1
        })
        .await;
    }
}

/// The first release goes out once both nodes are warm, whichever process is killed meanwhile; each hook is run once.
pub(crate) async fn a_release_that_is_warmed_up(ground: Ground) -> Region {
    let mut region = of_two(ground).await;
    region.create(1, &[]);
    region.until_it_runs_on_node_2(1).await;
    assert_eq!(region.status(1).0, "pending");
    region.agents[1].process.crash().unwrap();
    region.crash_coordinator().await;
    region.touch("go");
    let world = &region.rig.world;
    region.agents[1].restart(world).unwrap();
    region.until_deployed(1).await;
    assert_eq!([region.noted("pulled-1"), region.noted("pulled-2")], [["release-1"], ["release-1"]]);
    region
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn release_goes_out_once_nodes_are_warm_and_old_is_removed() {
    let region = a_release_that_is_warmed_up(Ground::Embedded).await;

    // One that fails holds it, and says why; a person has it tried again.
    region.touch("full");
    region.create(2, &[]);
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

    // The hook goes on, and nothing waits for it any more: an operator states how it ended.
    region.remove("go");
    region.create(3, &[]);
    region.until_it_runs_on_node_2(3).await;
    let task = region.json(&["task", "list", "--node", "node-2"]).remove(0);
    assert_eq!((&task["state"], &task["hook"]), (&Json::from("claimed"), &Json::from("pull")));
    let id = task["id"].as_str().unwrap().to_owned();
    let lock = region.rig.world.path("node-2/state/.tasks").join(&id).join("run.lock");
    let runner = std::fs::read_to_string(lock).unwrap();
    let runner: i32 = runner.split_whitespace().nth(2).unwrap().parse().unwrap();
    end(runner);
    region
        .until("its outcome is not known", |region| {
            region.reasons(3).iter().any(|why| why["kind"] == "task-unknown")
        })
        .await;
    let helps = region.reasons(3)[0]["next_step"].as_str().unwrap().to_owned();
    let settle = |outcome| format!("tidegate task settle node-2 {id} --outcome {outcome} --why …");
    assert_eq!(helps, format!("{}, or {}", settle("succeeded"), settle("failed")));
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
