//! The agent against a real etcd: windows that move while admissions are asked for, and a store that goes away.

use crate::refuse::{run, words};
use crate::world::etcd::Etcd;
use crate::world::store::{directive, node, release, service, version};
use crate::world::{World, wait_for};
use etcd_client::{GetOptions, Permission};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tidegate_agent::admit::{Candidate, NotAdmitted, admit};
use tidegate_proto::record::Record;
use tidegate_proto::record::directive::Disposition;
use tidegate_proto::record::inventory::Inventory;
use tidegate_proto::record::report::{Identity, Rotation};
use tidegate_proto::record::task::Outcome;
use tidegate_proto::record::window::Window;
use tidegate_proto::{InstanceId, Key, Revision, Value};
use tidegate_store::CommitError;

/// How often the window is moved at least.
const MOVES: u32 = 150;

/// How many admissions, and how many refusals, show that there was a race; and the most moves that it may take.
const ENOUGH: u32 = 10;
const MOST: u32 = 10_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn window_moved_between_read_and_write_admits_only_within_it() {
    let mut world = World::new().await;
    let etcd = Etcd::start(&mut world).await;
    world.store.set_window(1, 1).await;
    let store = world.store.store.clone();
    let counts = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let counted = Arc::clone(&counts);
    let asking = tokio::spawn(async move {
        let instance = InstanceId::new(service(), node());
        let (labels, identity) = (BTreeMap::new(), Identity { nonce: "n".into(), boot: "b".into() });
        let mut admitted = Vec::new();
        for number in [1, 2].into_iter().cycle() {
            let candidate = Candidate {
                instance: &instance,
                version: version(number),
                release: None,
                labels: &labels,
                identity: &identity,
                known: Revision::ABSENT,
                obeyed: Revision::ABSENT,
                accepted: Revision::ABSENT,
                shown: None,
            };
            match admit(&store, &candidate).await {
                Ok(admission) => {
                    counted[0].fetch_add(1, Ordering::Relaxed);
                    admitted.push((admission.revision, number));
                }
                Err(NotAdmitted::Refused(refusal)) if refusal.reason.contains("u-last") => break,
                Err(NotAdmitted::Refused(_)) => drop(counted[1].fetch_add(1, Ordering::Relaxed)),
                Err(NotAdmitted::Commit(CommitError::Conflict { .. })) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        admitted
    });
    let raced = || counts.iter().all(|count| count.load(Ordering::Relaxed) > ENOUGH);
    for turn in (0..MOST).take_while(|turn| *turn < MOVES || !raced()) {
        let only = 1 + i64::from(turn % 2);
        world.store.set_window(only, only).await;
    }
    let closed = Window {
        floor: version(9),
        ceiling: version(9),
        set_by: "u-last".parse().unwrap(),
        contracted: None,
    };
    world.store.put(tidegate_proto::Key::Window(service()), closed).await;
    let admitted = asking.await.unwrap();
    assert!(raced(), "there was no race: {counts:?} admitted and refused");
    let url = format!("http://{}", etcd.address());
    let mut client = etcd_client::Client::connect([url], None).await.unwrap().kv_client();
    for (revision, number) in admitted {
        let at = |revision: Revision| Some(GetOptions::new().with_revision(revision.0));
        let window = client.get("/tidegate/windows/pantry", at(revision)).await.unwrap();
        let window: Record<Window> = Record::decode(window.kvs()[0].value()).unwrap();
        assert!(window.body.admits(version(number)), "{number} at {revision} under {}", window.body);
        let inventory = client.get("/tidegate/inventory/pantry/n1", at(revision)).await.unwrap();
        assert_eq!(inventory.kvs()[0].mod_revision(), revision.0);
        let inventory: Record<Inventory> = Record::decode(inventory.kvs()[0].value()).unwrap();
        assert_eq!(inventory.body.version, version(number));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_outage_beyond_lease_takes_no_instance_out() {
    let mut world = World::new().await;
    let mut etcd = Etcd::start(&mut world).await;
    world.more = "initial_release = \"pantry-1\"".to_owned();
    let _agent = world.agent();
    let first = world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;

    // The error of a second agent under the node's name names the holder.
    let text = std::fs::read_to_string(world.config()).unwrap();
    let other = world.path().join("other.toml");
    std::fs::write(&other, text.replace("/state\"", "/state-2\"")).unwrap();
    let output = run(&["run"], &other);
    let said = words(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains(&first.identity.nonce), "{said}");

    // Away for three times its lease of 2 s.
    etcd.kill();
    let begin = Instant::now();
    let still = || async {
        let asked = world.balancer.asked();
        (begin.elapsed(), world.disable_file().exists(), world.balancer.status(), asked)
    };
    wait_for("three leases", &world, still, |(elapsed, hidden, status, _)| {
        assert!(!hidden && status == "UP", "it was taken out after {elapsed:?}");
        *elapsed > Duration::from_secs(6)
    })
    .await;
    etcd.start_again(&world).await;
    let report =
        world.store.wait_for_report(&world, "the report is back", |r| r.rotation == Rotation::In).await;
    assert_eq!(report.version.map(|v| v.get()), Some(1));
    assert_eq!(world.starts().len(), 1);

    // Restarted in the middle of a replacement.
    let (old, new) = (release(&world, 1), release(&world, 2));
    world.balancer.say("UP", 0);
    let replace = directive(Disposition::Replace { release: new.clone() }, vec![old, new]);
    let generation = world.store.direct(replace).await;
    world.store.wait_for_report(&world, "leaving", |r| r.rotation == Rotation::Leaving).await;
    etcd.kill();
    etcd.start_again(&world).await;
    world.balancer.follow();
    world.store.wait_for_serving(&world, 2, generation).await;
    assert_eq!(world.starts().iter().map(|(v, _)| *v).collect::<Vec<_>>(), [1, 2]);
}

const GUIDE: &str = include_str!("../../../docs/operator-guide.md");

/// What the guide has an agent of `n1` granted on keys that begin so, for our service.
fn granted_by_the_guide(kinds: &[&str]) -> Vec<Permission> {
    let lines = GUIDE.lines().filter_map(|line| line.strip_prefix("etcdctl role grant-permission agent-n1 "));
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let of_kinds = words.filter(|words| {
        let key = words.last().and_then(|key| key.strip_prefix("/tidegate/"));
        key.is_some_and(|key| kinds.contains(&key.split('/').next().unwrap()))
    });
    let permission = |words: Vec<&str>| {
        let (prefix, words) = match words[..] {
            ["--prefix=true", ref rest @ ..] => (true, rest.to_vec()),
            ref all => (false, all.to_vec()),
        };
        let [kind, key] = words[..] else { panic!("{words:?}") };
        let key = key.replace("/pantry-api", "/pantry");
        let granted = match kind {
            "read" => Permission::read(key),
            "readwrite" => Permission::read_write(key),
            other => panic!("{other}"),
        };
        if prefix { granted.with_prefix() } else { granted }
    };
    of_kinds.map(permission).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_without_task_permission_warns_once_and_works() {
    let mut world = World::new().await;
    let etcd = Etcd::start(&mut world).await;
    let own = ["reconciliation", "windows", "directives", "inventory", "reports"];
    let granted = granted_by_the_guide(&own);
    assert_eq!(granted.len(), own.len(), "the guide has one line for each");
    etcd.asks_for_passwords(&mut world, "agent-n1", granted).await;
    world.more = "initial_release = \"pantry-1\"".to_owned();
    let noted = world.path().join("noted");
    world.top = format!("[hook.note]\nargv = [\"touch\", {noted:?}]");
    world.store.set_window(1, 2).await;
    let _agent = world.agent();
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    let task = Key::Task(node(), "t1".parse().unwrap());
    world.store.put(task, crate::tasks::task("note")).await;

    // Drained, replaced and back, as ever.
    let (old, new) = (super::world::store::release(&world, 1), super::world::store::release(&world, 2));
    let replace = directive(Disposition::Replace { release: new.clone() }, vec![old, new]);
    let generation = world.store.direct(replace).await;
    world.balancer.follow();
    world.store.wait_for_serving(&world, 2, generation).await;
    let reported = |what: &str| {
        let log = std::fs::read_to_string(world.path().join("agent.log")).unwrap();
        log.lines().filter(|line| line.contains("WARN") && line.contains(what)).count()
    };
    assert_eq!(reported("cannot follow tasks/n1/"), 1, "{}", world.log());
    assert_eq!(reported("permission denied"), 1, "{}", world.log());

    // It may read its tasks, and not claim them: that too is said once. Then it may.
    etcd.grants("agent-n1", granted_by_the_guide(&["tasks"]).remove(0)).await;
    let hindered = "a task does not move on";
    wait_for("it sees the task", &world, || async { reported(hindered) }, |reported| *reported > 0).await;
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!((reported(hindered), reported("permission denied")), (1, 2), "{}", world.log());
    etcd.grants("agent-n1", granted_by_the_guide(&["results"]).remove(0)).await;
    let result = Key::TaskResult(node(), "t1".parse().unwrap());
    let outcome = || async {
        match world.store.store.get(&result).await.unwrap()?.value.unwrap() {
            Value::TaskResult(result) => Some(result.body.outcome),
            other => panic!("no result: {other:?}"),
        }
    };
    wait_for("it is run", &world, outcome, |outcome| *outcome == Some(Outcome::Succeeded)).await;
    assert!(noted.exists(), "the hook was run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_user_writes_no_report_and_no_admission() {
    assert!(GUIDE.contains("\n   etcdctl user delete agent-n1\n"), "the guide has the recipe");
    let mut world = World::new().await;
    let etcd = Etcd::start(&mut world).await;
    let own = ["reconciliation", "windows", "directives", "inventory", "reports"];
    etcd.asks_for_passwords(&mut world, "agent-n1", granted_by_the_guide(&own)).await;
    world.more = "initial_release = \"pantry-1\"".to_owned();
    world.store.set_window(1, 2).await;
    let _agent = world.agent();
    world.store.wait_for_serving(&world, 1, Revision::ABSENT).await;
    etcd.revokes("agent-n1").await;
    let keys = [super::world::store::report_key(), Key::Inventory(super::world::store::service(), node())];
    let read = || async {
        let read = world.store.store.get_many(&keys).await.unwrap();
        keys.iter().map(|key| read.get(key).map(|entry| entry.mod_revision)).collect::<Vec<_>>()
    };
    let before = read().await;
    // A new window is acknowledged by a report, and this agent cannot write one any more.
    world.store.set_window(1, 3).await;
    let hindered = || async { world.log() };
    let refused = |log: &String| {
        ["invalid auth token", "permission denied", "user name not found", "authentication failed"]
            .iter()
            .any(|words| log.contains(words))
    };
    wait_for("etcd refuses the agent", &world, hindered, refused).await;
    let after = read().await;
    assert!(after.iter().zip(&before).all(|(after, before)| after.is_none() || after == before), "{after:?}");
}
