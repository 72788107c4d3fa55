//! Many clients create releases and go back at once, while coordinators are killed: judged from etcd's whole history.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use grenade_tests::trace::{Put, Trace};
use grenade_tests::world::caller::Caller;
use grenade_tests::world::coordinator::{Coordinator, CoordinatorPlan, token_file};
use grenade_tests::world::operator::Operator;
use grenade_tests::world::{World, etcd};
use http::{Method, StatusCode};
use serde_json::{Value as Json, json};
use tidegate_proto::compute::ReleaseRevision;
use tidegate_proto::record::release::{ComputeRelease, ReleaseStatus};
use tidegate_proto::{Key, Prefix, Value};
use tokio_util::sync::CancellationToken;

use crate::rig::Rig;

const CLIENTS: usize = 32;
/// How long all of that may take.
const LIMIT: Duration = Duration::from_secs(200);
const RELEASES: &str = "/management/api/v2/compute_releases";
/// Between two kills: a follower notices within the leader's lease.
const EVERY: Duration = Duration::from_millis(2_500);
/// After an answer that did not come, or said that there is no leader.
const REST: Duration = Duration::from_millis(50);

/// What a client was answered.
#[derive(Debug, Clone)]
struct Acknowledged {
    revision: u64,
    tag: String,
}

/// What all clients know.
#[derive(Clone)]
struct Shared {
    doors: Arc<Vec<SocketAddr>>,
    token: String,
    acknowledged: Arc<Mutex<Vec<Acknowledged>>>,
    refused: Arc<Mutex<BTreeMap<String, u64>>>,
    end: CancellationToken,
}

struct Client {
    number: usize,
    asked: u64,
    door: usize,
    caller: Option<Caller>,
    shared: Shared,
}

impl Client {
    async fn run(mut self) {
        while !self.shared.end.is_cancelled() {
            self.asked += 1;
            let back = self.asked.is_multiple_of(2).then(|| self.earlier()).flatten();
            match back {
                Some(revision) => {
                    let body = json!({"revision": revision, "why": "it was better"});
                    self.insist(&format!("{RELEASES}/rollback"), &body).await;
                }
                None => {
                    let (branch, version) = (format!("branch-{}", self.number), self.asked);
                    let tag = format!("{branch}-{version}");
                    let body = json!({"version": version, "tag": tag, "branch": branch, "manifest": {}});
                    self.insist(RELEASES, &body).await;
                }
            }
        }
    }

    /// One of the last that any client was answered: older ones are removed by and by.
    fn earlier(&self) -> Option<u64> {
        let acknowledged = self.shared.acknowledged.lock().unwrap();
        let recent = &acknowledged[acknowledged.len().saturating_sub(8)..];
        recent.get(self.number % recent.len().max(1)).map(|acknowledged| acknowledged.revision)
    }

    /// Asks until a coordinator answers with the outcome; each time another coordinator.
    async fn insist(&mut self, path: &str, body: &Json) {
        while !self.shared.end.is_cancelled() {
            match self.ask(path, body).await {
                Ok((StatusCode::OK, answer)) => {
                    let revision = answer["revision"].as_u64().unwrap();
                    let tag = answer["tag"].as_str().unwrap().to_owned();
                    return self.shared.acknowledged.lock().unwrap().push(Acknowledged { revision, tag });
                }
                Ok((StatusCode::NOT_MODIFIED, _)) => return,
                Ok((status, answer)) if status.is_client_error() => {
                    let words = answer["message"].as_str().unwrap_or("?");
                    let words = words.replace(|c: char| c.is_ascii_digit(), "");
                    let words = format!("{} {words}", status.as_u16());
                    *self.shared.refused.lock().unwrap().entry(words).or_default() += 1;
                    return;
                }
                Ok(_) | Err(_) => {
                    (self.door, self.caller) = (self.door + 1, None);
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    async fn ask(&mut self, path: &str, body: &Json) -> anyhow::Result<(StatusCode, Json)> {
        let mut caller = match self.caller.take() {
            Some(caller) => caller,
            None => {
                let door = self.shared.doors[self.door % self.shared.doors.len()];
                Caller::connect(door, Some(&self.shared.token)).await?
            }
        };
        let answer = caller.send(Method::POST, path, body).await?;
        self.caller = Some(caller);
        Ok(answer)
    }
}

async fn coordinator(world: &World, name: &str, store: &str) -> Coordinator {
    let plan = CoordinatorPlan {
        args: ["--leader-ttl", "1s"].map(str::to_owned).to_vec(),
        ..CoordinatorPlan::new(name, store.to_owned()).unwrap()
    };
    Coordinator::start(world, plan).await.unwrap()
}

/// What the history says.
#[derive(Default)]
struct Judged {
    releases: BTreeMap<ReleaseRevision, ComputeRelease>,
    revisions: usize,
    deployed_at: usize,
}

/// One deployed release at every revision of the store, the one that the stream's record names; and no revision of the
/// stream is ever given twice, or lost.
fn judge(trace: &Trace) -> Judged {
    let mut judged = Judged::default();
    let mut head: Option<ReleaseRevision> = None;
    for revision in &trace.revisions {
        let at = revision.number;
        for written in &revision.writes {
            match (&written.key, &written.put) {
                (Key::Stream(_), Some(Put { value: Value::Stream(stream), .. })) => {
                    head = stream.body.deployed.as_ref().map(|head| head.release.revision);
                }
                (Key::Release(_, of), Some(Put { value: Value::Release(release), created, .. })) => {
                    let newest = judged.releases.keys().last();
                    assert_eq!(
                        *created == at,
                        !judged.releases.contains_key(of),
                        "{of} was made twice, at {at}"
                    );
                    assert!(
                        *created != at || newest.is_none_or(|newest| newest < of),
                        "{of} came late, at {at}"
                    );
                    judged.releases.insert(*of, release.body.clone());
                }
                (Key::Release(_, of), None) => panic!("revision {of} was lost at {at}"),
                _ => {}
            }
        }
        let deployed: Vec<ReleaseRevision> = judged
            .releases
            .iter()
            .filter(|(_, release)| release.status == ReleaseStatus::Deployed)
            .map(|(revision, _)| *revision)
            .collect();
        assert_eq!(deployed, head.into_iter().collect::<Vec<_>>(), "at revision {at} of the store");
        judged.revisions += 1;
        judged.deployed_at += usize::from(!deployed.is_empty());
    }
    judged
}

/// Until so many requests were acknowledged and coordinators were killed so often.
async fn many_clients_at_once(enough: usize, kills_enough: usize) {
    let rig = Rig::new();
    let world = &rig.world;
    let etcd = etcd::start(world, 1).await.unwrap();
    let mut coordinators = Vec::new();
    for name in ["one", "two", "three"] {
        coordinators.push(coordinator(world, name, &etcd.store_argument()).await);
    }
    Operator::of(coordinators[0].plan.grpc, "pantry-api", "u1").await.unwrap();
    let token = std::fs::read_to_string(token_file(world).unwrap()).unwrap();
    let shared = Shared {
        doors: Arc::new(coordinators.iter().map(|coordinator| coordinator.plan.http).collect()),
        token: token.trim().to_owned(),
        acknowledged: Arc::default(),
        refused: Arc::default(),
        end: CancellationToken::new(),
    };
    // What is gone back to must not have been collected meanwhile.
    let mut first = Caller::connect(shared.doors[0], Some(&shared.token)).await.unwrap();
    let settings = json!({"minimum_available": 50});
    let set = first.send(Method::PUT, "/management/api/v2/streams/compute", &settings).await.unwrap();
    assert_eq!(set.0, StatusCode::OK, "{set:?}");
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let client = Client { number, asked: 0, door: number, caller: None, shared: shared.clone() };
            tokio::spawn(client.run())
        })
        .collect();

    let began = Instant::now();
    let mut kills = 0;
    let acknowledged = || shared.acknowledged.lock().unwrap().len();
    while acknowledged() < enough || kills < kills_enough {
        let acknowledged = acknowledged();
        assert!(
            began.elapsed() < LIMIT,
            "only {acknowledged} requests were acknowledged, with {kills} kills"
        );
        tokio::time::sleep(EVERY).await;
        let victim = kills % coordinators.len();
        coordinators[victim].process.crash().unwrap();
        let plan = coordinators[victim].plan.clone();
        coordinators[victim] = Coordinator::start(world, plan).await.unwrap();
        kills += 1;
    }
    shared.end.cancel();
    for client in clients {
        client.await.unwrap();
    }

    let trace = Trace::read(&etcd.endpoints()[0], &Prefix::default()).await.unwrap();
    let judged = judge(&trace);
    let acknowledged = shared.acknowledged.lock().unwrap().clone();
    for Acknowledged { revision, tag } in &acknowledged {
        let kept = judged.releases.values().find(|release| release.revision.get() == *revision);
        let kept = kept.unwrap_or_else(|| panic!("revision {revision} was acknowledged and is lost"));
        assert_eq!(kept.tag.as_str(), tag, "revision {revision}");
    }
    let back = judged.releases.values().filter(|release| release.rollback_of.is_some()).count();
    println!(
        "{CLIENTS} clients, {kills} kills: {} acknowledged, {} revisions of the stream, {back} of them rollbacks; one \
         deployed at {} of {} revisions of the store; refused: {:?}",
        acknowledged.len(),
        judged.releases.len(),
        judged.deployed_at,
        judged.revisions,
        shared.refused.lock().unwrap()
    );
    assert!(back > 0, "none went back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_etcd_one_is_deployed_under_concurrent_requests() {
    many_clients_at_once(60, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_real_etcd_one_is_deployed_under_concurrent_requests() {
    many_clients_at_once(2_000, 30).await;
}
