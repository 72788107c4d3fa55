//! Tasks: a hook of this node's configuration is run once for each, whatever happens to the agent or the store.

mod reports;
mod restored;

use crate::world::agent::{Agent, PROGRAM};
use crate::world::store::node;
use crate::world::{World, wait_for};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tidegate_proto::record::Timestamp;
use tidegate_proto::record::report::Identity;
use tidegate_proto::record::task::{Ended, MAX_OUTPUT, Outcome, Settlement, Task, TaskRelease, TaskResult};
use tidegate_proto::{Commit, Key, TaskId, Value};

/// A node that has nothing but hooks; each notes that it began. `wait` goes on when the test says so.
struct Node {
    world: World,
}

impl Node {
    async fn new() -> Self {
        Self { world: World::new().await }
    }

    fn config(&self, name: &str) -> PathBuf {
        let (room, store) = (self.world.path().display(), self.world.store.address);
        let script = |then: &str| format!("echo $TIDEGATE_TASK >> {room}/began; {then}");
        let wait = script(&format!(
            "while [ ! -e {room}/go ]; do sleep 0.02; done; echo warmed up; echo $TIDEGATE_TASK >> {room}/ended"
        ));
        let words = "echo $TIDEGATE_HOOK $TIDEGATE_NODE $TIDEGATE_STREAM $TIDEGATE_REVISION $TIDEGATE_TAG $WHERE $0 $1 $2";
        let text = format!(
            "node = \"n1\"\nstate_dir = \"{room}/{name}\"\nruntime_dir = \"{room}/{name}-run\"\nlease_ttl = \"2s\"\n\
             [store]\nendpoints = [\"http://{store}\"]\n\
             [hook.wait]\nargv = [\"sh\", \"-c\", {wait:?}]\ntimeout = \"60s\"\n\
             [hook.short]\nargv = [\"sh\", \"-c\", {:?}]\n\
             [hook.bad]\nargv = [\"sh\", \"-c\", {:?}]\n\
             [hook.late]\nargv = [\"sh\", \"-c\", {:?}]\ntimeout = \"1s\"\n\
             [hook.absent]\nargv = [\"/nowhere/pull\"]\n\
             [hook.words]\nargv = [\"sh\", \"-c\", {words:?}, \"{{tag}}\", \"{{stream}}/{{revision}}\", \"{{task}} {{node}}\"]\n\
             env = {{ WHERE = \"here\" }}\n",
            script("true"),
            script("yes out | head -c 100000; echo 'no such image' >&2; exit 3"),
            script("sleep 600"),
        );
        let path = self.world.path().join(format!("{name}.toml"));
        std::fs::write(&path, text).unwrap();
        path
    }

    fn agent_of(&self, name: &str, env: &[(&str, &str)]) -> Agent {
        Agent::start(&self.config(name), &self.world.path().join("agent.log"), env)
    }

    fn agent(&self) -> Agent {
        self.agent_of("state", &[])
    }

    async fn order(&self, id: &str, hook: &str) -> TaskId {
        let id: TaskId = id.parse().unwrap();
        self.world.store.put(Key::Task(node(), id.clone()), task(hook)).await;
        id
    }

    async fn result(&self, id: &TaskId) -> Option<TaskResult> {
        let entry = self.world.store.store.get(&Key::TaskResult(node(), id.clone())).await.unwrap()?;
        match entry.value.unwrap() {
            Value::TaskResult(record) => Some(record.body),
            other => panic!("no result: {other:?}"),
        }
    }

    async fn wait_for_result(&self, id: &TaskId, holds: impl Fn(&Outcome) -> bool) -> TaskResult {
        let of = |result: &Option<TaskResult>| result.as_ref().is_some_and(|result| holds(&result.outcome));
        wait_for(&format!("the result of {id}"), &self.world, || self.result(id), of).await.unwrap()
    }

    async fn end_of(&self, id: &TaskId) -> TaskResult {
        self.wait_for_result(id, |outcome| *outcome != Outcome::Claimed).await
    }

    /// Which tasks' hooks began, or came to their end.
    fn noted(&self, what: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.world.path().join(what)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    async fn wait_for_begin(&self, id: &TaskId) {
        let begun = |seen: &Vec<String>| seen.iter().any(|seen| seen == id.as_str());
        wait_for("the hook begins", &self.world, || async { self.noted("began") }, begun).await;
    }

    /// A node with an agent, and a task whose hook has begun; it goes on when the test says so.
    async fn in_a_hook() -> (Self, Agent, TaskId) {
        let node = Self::new().await;
        let agent = node.agent();
        let id = node.order("t-1", "wait").await;
        node.wait_for_begin(&id).await;
        (node, agent, id)
    }

    fn go(&self) {
        std::fs::write(self.world.path().join("go"), "").unwrap();
    }

    /// Pid of what waits for the hook of a task.
    fn runner(&self, id: &TaskId) -> i32 {
        let lock = self.world.path().join("state/.tasks").join(id.as_str()).join("run.lock");
        let text = std::fs::read_to_string(lock).unwrap();
        text.split_whitespace().nth(2).unwrap().parse().unwrap()
    }

    async fn log_has(&self, reported: &str) {
        let log =
            || async { std::fs::read_to_string(self.world.path().join("agent.log")).unwrap_or_default() };
        wait_for(reported, &self.world, log, |log| log.contains(reported)).await;
    }
}

pub(crate) fn task(hook: &str) -> Task {
    let release = TaskRelease {
        stream: "compute".parse().unwrap(),
        revision: "53".parse().unwrap(),
        tag: "release-9057".parse().unwrap(),
    };
    Task { hook: hook.parse().unwrap(), release, at: Timestamp(7), settled: None }
}

/// The same, and a person states that it is done.
fn settled_by_a_person(hook: &str) -> Task {
    let (who, why) = ("anna".into(), "done by hand".into());
    let settled = Settlement { ended: Ended::Succeeded, who, why, at: Timestamp(9) };
    Task { settled: Some(settled), ..task(hook) }
}

fn why(result: &TaskResult) -> &str {
    match &result.outcome {
        Outcome::Failed { why } | Outcome::Unknown { why } => why,
        other => panic!("it neither failed nor is it unknown: {other:?}"),
    }
}

fn signal(pid: i32, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hook_gets_its_task_and_its_end_is_reported() {
    let node = Node::new().await;
    let _agent = node.agent();
    let id = node.order("t-1", "words").await;
    let result = node.end_of(&id).await;
    assert_eq!(result.outcome, Outcome::Succeeded);
    let reported = "words n1 compute 53 release-9057 here release-9057 compute/53 t-1 n1\n";
    assert_eq!(result.output, reported);
    let nonce = std::fs::read_to_string(node.world.path().join("state/nonce")).unwrap();
    assert_eq!(result.by.unwrap().nonce, nonce);

    let result = node.end_of(&node.order("t-2", "bad").await).await;
    assert_eq!(why(&result), "exit status: 3: no such image");
    assert!(result.output.ends_with("out\nno such image\n"), "{}", result.output);
    assert!(result.output.len() <= MAX_OUTPUT, "{}", result.output.len());

    let result = node.end_of(&node.order("t-3", "absent").await).await;
    assert!(why(&result).contains("could not start /nowhere/pull: No such file"), "{}", why(&result));

    let result = node.end_of(&node.order("t-4", "drop-image").await).await;
    let reported = "the configuration of n1 defines no hook drop-image; it defines: absent, bad, late, short, wait, words";
    assert_eq!(why(&result), reported);

    let begin = Instant::now();
    let result = node.end_of(&node.order("t-5", "late").await).await;
    assert_eq!(why(&result), "sh did not end within 1 s and was killed");
    assert!(begin.elapsed() > Duration::from_secs(1));
    let kept = || async { std::fs::read_dir(node.world.path().join("state/.tasks")).unwrap().count() };
    wait_for("nothing but the journal is kept", &node.world, kept, |kept| *kept <= 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_run_one_after_the_other_in_their_order() {
    let node = Node::new().await;
    let _agent = node.agent();
    let first = node.order("z-first", "wait").await;
    node.wait_for_begin(&first).await;
    let claim = node.result(&first).await.unwrap();
    assert_eq!(claim.outcome, Outcome::Claimed, "it was claimed before it began");
    let second = node.order("m-second", "short").await;
    let third = node.order("a-third", "short").await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(node.noted("began"), ["z-first"]);
    assert_eq!(node.result(&second).await, None);
    node.go();
    node.end_of(&third).await;
    assert_eq!(node.noted("began"), ["z-first", "m-second", "a-third"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_agents_under_one_name_run_each_task_once() {
    const TASKS: usize = 12;
    let node = Node::new().await;
    let _agents = [node.agent(), node.agent_of("other", &[])];
    let mut ids = Vec::new();
    for number in 0..TASKS {
        ids.push(node.order(&format!("t-{number:02}"), "short").await);
    }
    let mut by = Vec::new();
    for id in &ids {
        by.push(node.end_of(id).await.by.unwrap().nonce);
    }
    let mut began = node.noted("began");
    began.sort_unstable();
    assert_eq!(began, ids.iter().map(ToString::to_string).collect::<Vec<_>>());
    by.sort_unstable();
    by.dedup();
    println!("{TASKS} tasks were run by {} agents", by.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_others_and_settled_tasks_are_left_alone() {
    let node = Node::new().await;
    let other = Identity { nonce: "another".into(), boot: "b".into() };
    let (claimed, settled): (TaskId, TaskId) = ("t-1".parse().unwrap(), "t-2".parse().unwrap());
    let claim = TaskResult { by: Some(other), ..TaskResult::new(Outcome::Claimed, Timestamp(0)) };
    let commit = Commit::new()
        .put(Key::Task(crate::world::store::node(), claimed.clone()), task("short"))
        .put(Key::TaskResult(crate::world::store::node(), claimed.clone()), claim.clone())
        .put(Key::Task(crate::world::store::node(), settled.clone()), settled_by_a_person("short"));
    node.world.store.store.commit(&commit).await.unwrap();
    let _agent = node.agent();
    let last = node.order("t-3", "short").await;
    node.end_of(&last).await;
    assert_eq!(node.noted("began"), ["t-3"]);
    assert_eq!(node.result(&claimed).await, Some(claim));
    assert_eq!(node.result(&settled).await, None);
    node.log_has("another agent of this node has claimed it").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_killed_at_each_step_runs_the_hook_once_and_reports_it() {
    // The steps that are journalled: it is about to be claimed, it is claimed, it has ended, it was reported.
    for at in 1..=4 {
        for when in ["before", "after"] {
            let node = Node::new().await;
            let place = format!("task:{at}:{when}");
            let mut agent = node.agent_of("state", &[("TIDEGATE_AGENT_CRASH_AT", &place)]);
            let id = node.order("t-1", "short").await;
            agent.wait().await;
            let _again = node.agent();
            let result = node.end_of(&id).await;
            assert_eq!(
                (result.outcome, node.noted("began")),
                (Outcome::Succeeded, vec!["t-1".to_owned()]),
                "{place}"
            );
            // It is done with it, and takes the next.
            assert_eq!(node.end_of(&node.order("t-2", "short").await).await.outcome, Outcome::Succeeded);
            assert_eq!(node.noted("began"), ["t-1", "t-2"], "{place}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hook_that_has_not_begun_is_not_run_once_settled() {
    let node = Node::new().await;
    // It ends between its claim and the hook.
    let mut agent = node.agent_of("state", &[("TIDEGATE_AGENT_CRASH_AT", "task:2:after")]);
    let id = node.order("t-1", "short").await;
    agent.wait().await;
    assert_eq!(node.result(&id).await.unwrap().outcome, Outcome::Claimed);
    let order = Key::Task(crate::world::store::node(), id.clone());
    node.world.store.put(order, settled_by_a_person("short")).await;
    let _again = node.agent();
    let result = node.end_of(&id).await;
    assert!(why(&result).contains("settled or removed before its hook had begun"), "{result:?}");
    assert!(node.noted("began").is_empty(), "the hook was run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hook_outlives_its_agent_and_its_end_is_still_reported() {
    let (node, agent, id) = Node::in_a_hook().await;
    agent.kill();
    // One that finds it while it runs, and one that begins when it has ended.
    let mut agent = node.agent();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(node.result(&id).await.unwrap().outcome, Outcome::Claimed);
    agent.terminate();
    assert!(agent.wait().await.success(), "it does not wait for the hook");
    node.go();
    wait_for("the hook ends", &node.world, || async { node.noted("ended") }, |ended| !ended.is_empty()).await;
    let _agent = node.agent();
    let result = node.end_of(&id).await;
    assert_eq!((result.outcome, result.output.as_str()), (Outcome::Succeeded, "warmed up\n"));
    assert_eq!(node.noted("began"), ["t-1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unclear_outcome_is_reported_as_unknown_and_not_repeated() {
    let (node, agent, id) = Node::in_a_hook().await;
    // With its agent or without: what waits for the hook is ended from outside, and the hook goes on.
    agent.kill();
    signal(node.runner(&id), rustix::process::Signal::KILL);
    let _agent = node.agent();
    let result = node.end_of(&id).await;
    assert!(matches!(result.outcome, Outcome::Unknown { .. }), "{result:?}");
    assert!(why(&result).contains("a process that it started still runs"), "{}", why(&result));
    node.go();
    // The next is taken, and that one is not taken up again.
    let next = node.order("t-2", "short").await;
    assert_eq!(node.end_of(&next).await.outcome, Outcome::Succeeded);
    assert_eq!(node.noted("began"), ["t-1", "t-2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claim_missing_in_the_journal_is_reported_as_unknown() {
    let (node, agent, id) = Node::in_a_hook().await;
    agent.kill();
    std::fs::remove_dir_all(node.world.path().join("state/.tasks")).unwrap();
    let _agent = node.agent();
    let result = node.end_of(&id).await;
    assert!(why(&result).contains("its journal knows nothing of that"), "{result:?}");
    assert_eq!(node.noted("began"), ["t-1"]);
    node.go();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn end_of_a_hook_is_reported_once_the_store_is_back() {
    let (node, _agent, id) = Node::in_a_hook().await;
    node.world.store.leave();
    node.log_has("the store is away").await;
    node.go();
    wait_for("the hook ends", &node.world, || async { node.noted("ended") }, |ended| !ended.is_empty()).await;
    assert_eq!(node.result(&id).await.unwrap().outcome, Outcome::Claimed);
    node.world.store.come_back().await;
    assert_eq!(node.end_of(&id).await.outcome, Outcome::Succeeded);
    assert_eq!(node.noted("began"), ["t-1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn task_removed_while_it_ran_is_not_reported_and_blocks_nothing() {
    let (node, _agent, id) = Node::in_a_hook().await;
    let keys = [
        Key::Task(crate::world::store::node(), id.clone()),
        Key::TaskResult(crate::world::store::node(), id.clone()),
    ];
    let [order, result] = keys;
    node.world.store.store.commit(&Commit::new().delete(order).delete(result)).await.unwrap();
    node.go();
    let next = node.order("t-2", "short").await;
    node.end_of(&next).await;
    assert_eq!(node.result(&id).await, None);
    assert_eq!(node.noted("began"), ["t-1", "t-2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_names_the_missing_program_of_a_hook() {
    let node = Node::new().await;
    let said = std::process::Command::new(PROGRAM)
        .args(["check", "--config"])
        .arg(node.config("state"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    assert_eq!(said.status.code(), Some(2), "{text}");
    assert!(text.contains("error: hook absent: its program is not there: /nowhere/pull"), "{text}");
    assert_eq!(text.matches("error:").count(), 1, "{text}");
}
