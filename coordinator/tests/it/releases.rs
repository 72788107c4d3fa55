//! Compute releases over HTTP, as CI and those who start computes ask.

mod answers;

use crate::herd;
use crate::openapi::{Answer, Door};
use crate::world::{Coordinator, LIMIT, spec, store, world};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::time::Duration;
use tidegate_coordinator::operation::{self, OperationError};
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::key::Kind;
use tidegate_proto::wire::v1::ReconcileStoreRequest;
use tidegate_proto::{Commit, Value};
use tidegate_store::Scope;
use tokio_util::sync::CancellationToken;

const RELEASES: &str = "/management/api/v2/compute_releases";

impl Door {
    pub(crate) async fn of_releases(coordinator: &Coordinator) -> Self {
        Self::of(&coordinator.context, "/management/api/v2", |_| true).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.send("GET", &format!("{RELEASES}{path}"), None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Json) -> Answer {
        self.send("POST", &format!("{RELEASES}{path}"), Some(body.to_string())).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Json) -> Answer {
        self.send("PUT", &format!("/management/api/v2{path}"), Some(body.to_string())).await
    }

    pub(crate) async fn create(&self, version: u64) -> Answer {
        self.post("", &release(version)).await
    }

    /// Creates a release that needs a service to be at version 2.
    pub(crate) async fn create_requiring_2(&self, version: u64, service: &str) -> Answer {
        let mut asked = release(version);
        asked["requires"] = json!({ service: 2 });
        self.post("", &asked).await
    }

    /// Waits until a release has this status.
    pub(crate) async fn becomes(&self, coordinator: &Coordinator, revision: u64, status: &str) -> Json {
        let mut sync_status = coordinator.context.mirror.sync_status();
        let there = async {
            loop {
                let found = self.get(&format!("/{revision}")).await.body;
                if found["status"] == status {
                    return found;
                }
                sync_status.changed().await.unwrap();
            }
        };
        match tokio::time::timeout(LIMIT, there).await {
            Ok(found) => found,
            Err(_) => panic!(
                "{revision} did not become {status}: {:#}",
                self.get(&format!("/{revision}")).await.body
            ),
        }
    }
}

fn release(version: u64) -> Json {
    json!({ "version": version, "tag": format!("release-{version}"), "manifest": { "pg_settings": {} } })
}

pub(crate) async fn door() -> (Embedded, Coordinator, Door) {
    let embedded = Embedded::in_memory();
    let coordinator = Coordinator::start(&embedded, "one").await;
    coordinator.leads().await;
    let door = Door::of_releases(&coordinator).await;
    (embedded, coordinator, door)
}

#[tokio::test]
async fn a_release_is_created_superseded_and_gone_back_to() {
    let (_embedded, coordinator, door) = door().await;
    let first = door.create(9057).await;
    assert_eq!(first.status, StatusCode::OK);
    assert_eq!(
        (&first.body["revision"], &first.body["status"]),
        (&json!(1), &json!("deployed")),
        "{}",
        first.body
    );
    assert_eq!(first.body["created_by"], "ci");
    assert!(first.body["deployed_at"].is_string());
    assert_eq!(first.location.as_deref(), Some("/management/api/v2/compute_releases/1?stream=compute"));

    let again = door.create(9057).await;
    assert_eq!(
        (again.status, again.etag, again.location),
        (StatusCode::NOT_MODIFIED, first.etag, first.location)
    );

    let mut strange = release(9058);
    strange["manifest"]["pg_settings"]["common"] = json!({ "max_wal_sise": "1024", "max_wal_size": "1024" });
    let strange = door.post("", &strange).await;
    assert_eq!(strange.body["status"], "deployed", "an unknown setting is no reason to refuse");
    let warning = strange.warning.unwrap();
    assert!(warning.contains("max_wal_sise") && !warning.contains("max_wal_size"), "{warning}");
    assert_eq!(first.warning, None);
    assert_eq!(door.get("/1").await.body["status"], "superseded");
    let back = door.post("/rollback", &json!({ "revision": 1 })).await;
    assert_eq!(back.status, StatusCode::OK);
    assert_eq!((&back.body["revision"], &back.body["rollback_of"]), (&json!(3), &json!(1)), "{}", back.body);
    assert_eq!(door.get("/deployed").await.body["revision"], 3);
    assert_eq!(
        door.get("/by_tag/release-9057").await.body["revision"],
        3,
        "the latest revision of a tag wins"
    );
    assert_eq!(
        door.send("GET", "/management/api/v2/streams/compute/active", None).await.body["tag"],
        "release-9057"
    );

    let page = door.get("?limit=2").await.body;
    let revisions = |page: &Json| -> Vec<u64> {
        page["releases"].as_array().unwrap().iter().map(|r| r["revision"].as_u64().unwrap()).collect()
    };
    assert_eq!((revisions(&page), &page["before"]), (vec![3, 2], &json!(2)));
    let rest = door.get("?limit=2&before=2").await.body;
    assert_eq!((revisions(&rest), rest.get("before")), (vec![1], None));
    coordinator.stop().await;
}

#[tokio::test]
async fn a_thousand_identical_creates_at_once_make_one_revision() {
    let (_embedded, coordinator, door) = door().await;
    let all = futures::future::join_all((0..1000).map(|_| door.create(9057))).await;
    let count = |status| all.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(StatusCode::OK), count(StatusCode::NOT_MODIFIED)), (1, 999));
    assert!(all.iter().all(|answer| answer.location == all[0].location));
    let stored = coordinator.context.store.list(&Scope::Kind(Kind::Release)).await.unwrap();
    assert_eq!(stored.entries.len(), 1);
    coordinator.stop().await;
}

#[tokio::test]
async fn what_is_wrong_is_refused_in_words_and_changes_nothing() {
    let (_embedded, coordinator, door) = door().await;
    assert_eq!(door.create(9057).await.status, StatusCode::OK);
    let before = coordinator.context.store.list(&Scope::Kind(Kind::Stream)).await.unwrap();
    let large = json!({ "version": 9058, "tag": "t", "manifest": { "x": "y".repeat(600 * 1024) } });
    let cases: [(&str, String, u16, &str); 12] = [
        ("", "{\"version\": 9058,\n \"tag\" \"t\"}".to_owned(), 400, "line 2 column 8"),
        ("", json!({ "version": 0, "tag": "t" }).to_string(), 400, "version"),
        ("", json!({ "version": 9058, "tag": "../t" }).to_string(), 400, "tag"),
        ("", json!({ "version": 9058, "tag": "t", "manifst": {} }).to_string(), 400, "manifst"),
        ("", json!({ "version": 9056, "tag": "release-9056" }).to_string(), 409, "9057"),
        ("", json!({ "version": 9058, "tag": "release-9057" }).to_string(), 409, "release-9057"),
        (
            "",
            json!({ "version": 9058, "tag": "t", "canary": { "fraction": 1.5 } }).to_string(),
            400,
            "fraction",
        ),
        ("", large.to_string(), 413, "at most 524288"),
        ("", "x".repeat(1100 * 1024), 413, "at most"),
        ("/rollback", json!({ "revision": 7 }).to_string(), 404, "7"),
        ("/rollback", json!({}).to_string(), 400, "revision"),
        ("?strem=x", release(9058).to_string(), 400, "strem"),
    ];
    for (path, body, status, word) in cases {
        let shown = body.chars().take(80).collect::<String>();
        let answer = door.send("POST", &format!("{RELEASES}{path}"), Some(body)).await;
        let message = answer.body["message"].as_str().unwrap_or_default();
        assert_eq!(answer.status.as_u16(), status, "{path} {shown}: {}", answer.body);
        assert!(message.contains(word), "{path} {shown}: {message}");
    }
    for (path, status) in [("/99", 404), ("/x", 400), ("/0", 400), ("/by_tag/none", 404), ("?limit=101", 400)]
    {
        assert_eq!(door.get(path).await.status.as_u16(), status, "{path}");
    }
    let after = coordinator.context.store.list(&Scope::Kind(Kind::Stream)).await.unwrap();
    assert_eq!(before.entries[0].mod_revision, after.entries[0].mod_revision, "nothing was changed");
    coordinator.stop().await;
}

#[tokio::test]
async fn a_release_waits_for_the_floor_of_storage_and_then_holds_it() {
    let (_embedded, coordinator, herd) = world(3).await;
    let away = CancellationToken::new();
    tokio::spawn(herd.run(away.clone()));
    let door = Door::of_releases(&coordinator).await;
    let mut asked = release(9057);
    let service = herd::service().to_string();
    asked["requires"] = json!({ (service.as_str()): 2 });
    let waiting = door.post("", &asked).await;
    assert_eq!(
        (waiting.status, &waiting.body["status"]),
        (StatusCode::OK, &json!("pending")),
        "{}",
        waiting.body
    );
    let reported = door.get("/1/explain").await.body;
    let what = reported[0]["reasons"][0]["blocked_on"].as_str().unwrap();
    assert!(what.contains(&service) && what.contains('2'), "{reported:#}");

    coordinator.start_upgrade(&spec(""), "u1").await.unwrap();
    door.becomes(&coordinator, 1, "deployed").await;
    let needs = coordinator.context.store.list(&Scope::Kind(Kind::Need)).await.unwrap().entries;
    let Ok(Value::Need(need)) = &needs[0].value else { panic!("{needs:?}") };
    let (stream, holder) = need.body.highest().unwrap();
    assert_eq!((stream.as_str(), holder.minimum.get()), ("compute", 2), "no floor falls below it: {need:?}");
    away.cancel();
    coordinator.stop().await;
}

#[tokio::test]
async fn storage_that_serves_below_what_runs_is_shown_and_counted() {
    let (_embedded, coordinator, herd) = world(3).await;
    let away = CancellationToken::new();
    tokio::spawn(herd.run(away.clone()));
    let door = Door::of_releases(&coordinator).await;
    let service = herd::service();
    assert_eq!(door.create_requiring_2(1, service.as_str()).await.status, StatusCode::OK);
    for version in 2..=6 {
        door.create(version).await;
    }
    door.becomes(&coordinator, 1, "deprecated").await;
    let shown = async || {
        let stream = door.send("GET", "/management/api/v2/streams/compute", None).await.body;
        stream["storage_below"].clone()
    };
    assert_eq!(shown().await, Json::Null);

    let reported = door.put("/compute_releases/running", &json!({ "release-1": 1 })).await;
    assert_eq!(reported.status, StatusCode::OK, "{}", reported.body);
    let below = shown().await;
    assert_eq!(
        (&below[0]["service"], &below[0]["count"], &below[0]["needs"], &below[0]["revision"]),
        (&json!(service), &json!(3), &json!(2), &json!(1)),
        "{below}"
    );
    let text = coordinator.context.metrics.text(&coordinator.context.mirror.view()).unwrap();
    let line = format!("tidegate_storage_below_need_instances{{service=\"{service}\"}} 3");
    assert!(text.lines().any(|said| said == line), "{text}");
    let waits = door.get("/1/explain").await.body;
    assert_eq!(waits[0]["reasons"][0]["kind"], "behind", "a release that only runs any more: {waits}");
    away.cancel();
    coordinator.stop().await;
}

#[tokio::test]
async fn restored_store_grants_and_deploys_nothing() {
    let (embedded, coordinator, _herd) = world(2).await;
    let (store, mirror) = (store(&embedded).await, coordinator.context.mirror.clone());
    let door = Door::of_releases(&coordinator).await;
    let mut held = release(9057);
    let service = herd::service().to_string();
    held["requires"] = json!({ (service.as_str()): 2 });
    assert_eq!(door.post("", &held).await.body["status"], "pending");

    // Two agents say that they obeyed a term that this store does not know.
    let lease = store.lease(Duration::from_secs(60)).await.unwrap();
    let reports = store.list(&Scope::Kind(Kind::Report)).await.unwrap().entries;
    for report in reports.iter().take(2) {
        let (key, Ok(Value::Report(record))) = (report.key.clone(), &report.value) else { panic!() };
        let mut testimony = record.body.clone();
        testimony.witness.term = Some("elsewhere".parse().unwrap());
        let done = store.commit_leased(&Commit::new().put(key, testimony), &lease).await.unwrap();
        mirror.reaches(done.revision).await;
    }

    let requests = [
        ("", release(9058)),
        ("/1/promote", json!({ "deploy": true, "why": "now" })),
        ("/rollback", json!({ "revision": 1 })),
    ];
    for (path, body) in &requests {
        let answer = door.post(path, body).await;
        let message = answer.body["message"].as_str().unwrap_or_default();
        assert_eq!(answer.status, StatusCode::CONFLICT, "{path}: {}", answer.body);
        assert!(
            message.contains("obeyed term elsewhere") && message.contains("reconcile"),
            "{path}: {message}"
        );
    }
    let reported = door.get("/1/explain").await.body;
    assert_eq!(reported[0]["reasons"][0]["kind"], "restored", "{reported:#}");

    let leadership = coordinator.context.led_here().unwrap();
    let plan =
        operation::plan_reconciliation(&coordinator.context, &leadership, Default::default()).await.unwrap();
    let asked = ReconcileStoreRequest {
        why: "restored from 02:00".to_owned(),
        who: "op".to_owned(),
        hash: plan.hash,
        ..Default::default()
    };
    let done = operation::reconcile_store(&coordinator.context, &leadership, asked.clone()).await.unwrap();
    assert!(done.what.contains("reconciled"), "{done:?}");
    let Err(OperationError::Refused(why)) =
        operation::reconcile_store(&coordinator.context, &leadership, asked).await
    else {
        panic!("there was nothing left to reconcile")
    };
    assert!(why.contains("nothing to reconcile"), "{why}");
    assert_eq!(door.create(9058).await.body["status"], "deployed", "requests are accepted again");
    coordinator.stop().await;
}

#[tokio::test]
async fn a_canary_is_rising_judged_and_promoted() {
    let (embedded, coordinator, door) = door().await;
    assert_eq!(door.create(1).await.body["status"], "deployed");
    let mut asked = release(2);
    asked["canary"] = json!({ "fraction": 0.5, "promote_after": 2, "tolerate": 1 });
    door.post("", &asked).await;
    door.becomes(&coordinator, 2, "canary").await;
    let starts = async || {
        let mut within = BTreeSet::new();
        for n in 0..40 {
            let start = door.get(&format!("/start?compute_id=ep-{n}")).await.body;
            if start["revision"] == 2 {
                within.insert(n);
            }
        }
        within
    };
    let half = starts().await;
    assert!((5..35).contains(&half.len()), "{half:?}");
    assert_eq!(door.post("/2/promote", &json!({ "fraction": 0.8 })).await.status, StatusCode::OK);
    let more = starts().await;
    assert!(more.is_superset(&half) && more.len() > half.len(), "a rising fraction only adds");

    let word = |success: bool| json!({ "success": success, "why": "it started" });
    let signal = |n: &usize| format!("/compute_releases/2/signals/ep-{n}");
    let outside = (0..40).find(|n| !more.contains(n)).expect("a fifth of 40 starts is outside");
    let reported = door.put(&signal(&outside), &word(true)).await;
    assert_eq!(reported.status, StatusCode::CONFLICT, "it did not start with the canary: {}", reported.body);
    let mut within = more.iter();
    let (first, second) = (within.next().unwrap(), within.next().unwrap());
    for _ in 0..3 {
        let reported = door.put(&signal(first), &word(true)).await;
        assert_eq!(reported.status, StatusCode::OK);
    }
    assert_eq!(door.get("/2").await.body["status"], "canary", "one compute's word counts once");
    let follower = Coordinator::over(store(&embedded).await, "two");
    let shown = coordinator.context.mirror.sync_status().borrow().revision;
    follower.context.mirror.reaches(shown).await;
    assert_eq!(Door::of_releases(&follower).await.get("/start?compute_id=ep-1").await.status, StatusCode::OK);
    follower.stop().await;
    door.put(&signal(second), &word(true)).await;
    door.becomes(&coordinator, 2, "deployed").await;
    coordinator.stop().await;
}

#[tokio::test]
async fn rollback_to_collected_release_waits_unless_no_prewarm() {
    let (_embedded, coordinator, door) = door().await;
    let hook = json!({ "hook": "an-image-hook", "nodes": ["n1"] });
    let settings = json!({ "minimum_available": 1 });
    assert_eq!(door.put("/streams/compute", &settings).await.status, StatusCode::OK);
    for (revision, version) in [(1, 9057), (2, 9058)] {
        door.create(version).await;
        door.becomes(&coordinator, revision, "deployed").await;
    }
    door.becomes(&coordinator, 1, "deprecated").await;

    let removing = json!({ "minimum_available": 1, "removal": &hook });
    assert_eq!(door.put("/streams/compute", &removing).await.status, StatusCode::OK);
    let refused = door.post("/rollback", &json!({ "revision": 1 })).await;
    let message = refused.body["message"].as_str().unwrap_or_default();
    assert_eq!(refused.status, StatusCode::CONFLICT, "{}", refused.body);
    assert!(message.contains("no prewarm hook") && message.contains("--no-prewarm"), "{message}");

    let warming = json!({ "minimum_available": 1, "removal": &hook, "prewarm": &hook });
    assert_eq!(door.put("/streams/compute", &warming).await.status, StatusCode::OK);
    let back = door.post("/rollback", &json!({ "revision": 1 })).await;
    assert_eq!((&back.body["revision"], &back.body["status"]), (&json!(3), &json!("pending")));
    assert_eq!(door.get("/deployed").await.body["revision"], 2);
    let waits = door.get("/3/explain").await.body;
    assert_eq!(waits[0]["reasons"][0]["kind"], "task-waiting", "{waits:#}");
    let promoted = door.post("/3/promote", &json!({ "deploy": true })).await;
    assert_eq!(promoted.status, StatusCode::CONFLICT, "{}", promoted.body);

    let forced = json!({ "revision": 1, "prewarm": false, "why": "an emergency" });
    let forced = door.post("/rollback", &forced).await;
    assert_eq!((&forced.body["revision"], &forced.body["status"]), (&json!(4), &json!("deployed")));
    assert_eq!(forced.body["rollback_of"], 1);
    door.becomes(&coordinator, 3, "deprecated").await;
    coordinator.stop().await;
}
