//! Metadata groups over HTTP, as instances and those who set their documents ask; and what becomes of an update whose
//! leader is killed.

use crate::openapi::{Answer, Door};
use crate::world::{Coordinator, LIMIT, store, world};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use std::sync::Arc;
use tidegate_coordinator::context::Context;
use tidegate_coordinator::operation;
use tidegate_coordinator::report::Mirror;
use tidegate_embedded_etcd::Embedded;
use tidegate_proto::key::Kind;
use tidegate_proto::metadata::MAX_DOCUMENT_BYTES;
use tidegate_proto::record::group::Document;
use tidegate_proto::wire::v1::GroupHistoryRequest;
use tidegate_proto::{Commit, Key, MetadataGeneration};
use tidegate_store::{Reader, Scope};
use tokio_util::sync::CancellationToken;

impl Door {
    async fn of_metadata(coordinator: &Coordinator) -> Self {
        Self::of(&coordinator.context, "/v1", |path| path.starts_with("/groups")).await
    }

    async fn look(&self, path: &str) -> Answer {
        self.send("GET", &format!("/v1/groups{path}"), None).await
    }

    async fn set_metadata(&self, body: &Json) -> Answer {
        self.send("PUT", "/v1/groups/edge/metadata?why=better", Some(body.to_string())).await
    }

    async fn signal(&self, instance: &str, word: &Json) -> Answer {
        let path = format!("/v1/groups/edge/instances/{instance}/signal");
        self.send("POST", &path, Some(word.to_string())).await
    }

    async fn serves(&self, instance: &str) -> (u64, bool) {
        let served = self.look(&format!("/edge/instances/{instance}/metadata")).await;
        assert_eq!(served.status, StatusCode::OK, "{}", served.body);
        let generation = served.body["generation"].as_u64().unwrap();
        assert_eq!(served.body["metadata"]["x"], json!(generation), "each its own document");
        (generation, served.body["exposed"].as_bool().unwrap())
    }

    /// Those that are exposed, of i-1 to i-4.
    async fn exposed(&self) -> Vec<String> {
        let mut exposed = Vec::new();
        for n in 1..=4 {
            let name = format!("i-{n}");
            if self.serves(&name).await.1 {
                exposed.push(name);
            }
        }
        exposed
    }
}

/// A group of four named instances that have a document.
async fn with_a_document(coordinator: &Coordinator) -> Door {
    let door = Door::of_metadata(coordinator).await;
    let first = json!({"document": {"x": 1}, "instances": ["i-1", "i-2", "i-3", "i-4"]});
    let set = door.set_metadata(&first).await;
    assert_eq!((set.status, &set.body["changed"]), (StatusCode::OK, &json!(true)), "{}", set.body);
    door
}

/// Waits until the group is in this state.
async fn until(coordinator: &Coordinator, door: &Door, holds: impl Fn(&Json) -> bool) -> Json {
    let mut sync_status = coordinator.context.mirror.sync_status();
    let there = async {
        loop {
            let group = door.look("/edge").await.body;
            if holds(&group) {
                return group;
            }
            sync_status.changed().await.unwrap();
        }
    };
    match tokio::time::timeout(LIMIT, there).await {
        Ok(group) => group,
        Err(_) => panic!("it did not come to that: {:#}", door.look("/edge").await.body),
    }
}

/// Whether the metrics have these numbers of the group, and count no other instance.
fn counts(coordinator: &Coordinator, instances: &[(&str, u32)], update: &str) {
    let text = coordinator.context.metrics.text(&coordinator.context.mirror.view()).unwrap();
    let said: Vec<&str> = text.lines().filter(|line| line.starts_with("tidegate_group_")).collect();
    let states = ["settled", "unexposed", "open", "succeeded", "expected-failure", "failed"].map(|state| {
        let n = instances.iter().find(|(of, _)| *of == state).map_or(0, |(_, n)| *n);
        format!("tidegate_group_instances{{group=\"edge\",state=\"{state}\"}} {n}")
    });
    let update = format!("tidegate_group_update{{group=\"edge\",state=\"{update}\"}} 1");
    for line in states.into_iter().chain([update]) {
        assert!(said.contains(&line.as_str()), "no {line} in {said:#?}");
    }
    assert_eq!(said.len(), 7, "{said:#?}");
}

#[tokio::test]
async fn rolling_update_is_served_and_finished_through_every_verb() {
    let embedded = Embedded::in_memory();
    let coordinator = Coordinator::start(&embedded, "one").await;
    coordinator.leads().await;
    let door = with_a_document(&coordinator).await;
    let known = door.look("/edge/instances/i-1/metadata").await.etag.unwrap();
    let path = "/v1/groups/edge/instances/i-1/metadata";
    assert_eq!(door.send_knowing("GET", path, None, Some(&known)).await.status, StatusCode::NOT_MODIFIED);

    let update = json!({"document": {"x": 2}, "pattern": "rolling", "batch": "50%", "tolerate": 1, "expected": ["busy"]});
    assert_eq!(door.set_metadata(&update).await.body["generation"], 2);
    assert_eq!(door.set_metadata(&update).await.body["changed"], json!(false), "it is so already");
    let second = door.set_metadata(&json!({"document": {"x": 3}})).await;
    assert_eq!((second.status, &second.body["error"]), (StatusCode::CONFLICT, &json!("refused")));
    let exposed = door.exposed().await;
    assert_eq!(exposed.len(), 2);
    let reasons = door.look("/edge/explain").await.body;
    assert_eq!(reasons[0]["kind"], "unsignalled", "{reasons:#}");
    assert!(reasons[0]["timeout"].as_str().unwrap().contains("count as failed"), "{reasons:#}");
    let hidden = (1..=4).map(|n| format!("i-{n}")).find(|name| !exposed.contains(name)).unwrap();
    assert_eq!(door.signal(&hidden, &json!({"success": true})).await.status, StatusCode::CONFLICT);
    let stale = door.signal(&exposed[0], &json!({"success": true, "generation": 1})).await;
    assert_eq!(stale.status, StatusCode::CONFLICT, "{}", stale.body);

    let busy = json!({"success": false, "failure": "busy", "why": "a backup runs"});
    assert_eq!(door.signal(&exposed[0], &busy).await.status, StatusCode::OK);
    assert_eq!(door.signal(&exposed[0], &busy).await.body["changed"], json!(false));
    door.signal(&exposed[1], &json!({"success": false, "why": "exit 1"})).await;
    let group = until(&coordinator, &door, |group| group["update"]["batch"] == 2).await;
    assert_eq!(
        (&group["update"]["expected_failures"], &group["update"]["failed"][&exposed[1]]["why"]),
        (&json!(1), &json!("exit 1"))
    );
    counts(&coordinator, &[("open", 2), ("expected-failure", 1), ("failed", 1)], "running");
    assert_ne!(door.send_knowing("GET", path, None, Some(&known)).await.status, StatusCode::NOT_MODIFIED);
    for name in door.exposed().await.iter().filter(|name| !exposed.contains(name)) {
        let reported = door.signal(name, &json!({"success": true, "generation": 2})).await;
        assert_eq!(reported.status, StatusCode::OK, "{}", reported.body);
    }
    let group = until(&coordinator, &door, |group| group["update"].is_null()).await;
    assert_eq!((&group["current"], &group["last"]["outcome"]), (&json!(2), &json!("finished")), "{group:#}");
    counts(&coordinator, &[("settled", 4)], "finished");
    assert_eq!(door.serves("i-4").await, (2, false));
    let off = door.send("POST", "/v1/groups/edge/cancel", Some(json!({"why": "x"}).to_string())).await;
    assert_eq!(off.body["changed"], json!(false), "none runs");
    assert_eq!(door.look("").await.body[0]["group"], "edge");
    assert_eq!(door.look("/edge/history").await.body.as_array().map(Vec::len), Some(4));
    door.was_asked_everything();

    let asked = GroupHistoryRequest { group: "edge".to_owned() };
    let events = operation::metadata::group_history(&coordinator.context, &asked).await.unwrap();
    let reported: Vec<_> = events.iter().map(|event| (event.who.as_str(), event.to.as_str())).collect();
    assert_eq!(reported.len(), 4, "{reported:#?}");
    assert!(reported[1].0 == "ci" && reported[1].1.contains("batch 1/2"), "{reported:#?}");
    assert_eq!(reported[3], ("coordinator", "generation 2 is served to all"));
    coordinator.stop().await;
}

#[tokio::test]
async fn what_is_wrong_is_refused_in_words_and_changes_nothing() {
    let embedded = Embedded::in_memory();
    let coordinator = Coordinator::start(&embedded, "one").await;
    coordinator.leads().await;
    let door = with_a_document(&coordinator).await;
    let before = coordinator.context.store.list(&Scope::Kind(Kind::Group)).await.unwrap();
    let large = json!({"document": {"x": "y".repeat(MAX_DOCUMENT_BYTES)}}).to_string();
    let cases: [(&str, String, u16, &str); 13] = [
        ("edge", "{\"document\": {},\n \"pattern\" \"x\"}".to_owned(), 400, "line 2 column 12"),
        ("edge", json!({"document": {}, "pattern": "blue-green"}).to_string(), 400, "blue-green"),
        ("edge", json!({"document": {}, "pattern": "rolling", "batch": 0}).to_string(), 400, "batch"),
        ("edge", json!({"document": {}, "pattern": "rolling", "batch": "0%"}).to_string(), 400, "0%"),
        ("edge", json!({"document": {}, "pattern": "rolling", "batch": "101%"}).to_string(), 400, "101%"),
        ("edge", json!({"document": {}, "pattern": "rolling", "tolerate": -1}).to_string(), 400, "-1"),
        ("edge", json!({"document": [1]}).to_string(), 400, "object"),
        ("edge", json!({"document": {}, "patern": "rolling"}).to_string(), 400, "patern"),
        ("edge", json!({"document": {}, "timeout": "5m"}).to_string(), 400, "immediate"),
        ("edge", large, 413, "at most 262144"),
        ("edge", "x".repeat(1100 * 1024), 413, "at most"),
        ("other", json!({"document": {}}).to_string(), 400, "say who belongs"),
        ("other", json!({"document": {}, "service": "ghost"}).to_string(), 404, "ghost"),
    ];
    for (group, body, status, word) in cases {
        let shown = body.chars().take(80).collect::<String>();
        let answer = door.send("PUT", &format!("/v1/groups/{group}/metadata"), Some(body)).await;
        let message = answer.body["message"].as_str().unwrap_or_default();
        assert_eq!(answer.status.as_u16(), status, "{shown}: {}", answer.body);
        assert!(message.contains(word), "{shown}: {message}");
    }
    let word = json!({"success": true});
    for (path, status) in [
        ("/ghost", 404),
        ("/edge/instances/i-9/metadata", 404),
        ("/ghost/instances/i-1/metadata", 404),
        ("/-x", 400),
    ] {
        assert_eq!(door.look(path).await.status.as_u16(), status, "{path}");
    }
    assert_eq!(door.signal("i-1", &word).await.status, StatusCode::CONFLICT, "nothing is being exposed");
    assert_eq!(door.signal("i-9", &word).await.status, StatusCode::NOT_FOUND);
    let both = json!({"success": true, "failure": "x"});
    assert_eq!(door.signal("i-1", &both).await.status, StatusCode::BAD_REQUEST);
    let unexplained = door.send("POST", "/v1/groups/edge/cancel", Some("{}".to_owned())).await;
    assert_eq!(unexplained.status, StatusCode::BAD_REQUEST);
    let after = coordinator.context.store.list(&Scope::Kind(Kind::Group)).await.unwrap();
    assert_eq!(before.entries[0].mod_revision, after.entries[0].mod_revision, "nothing was changed");
    coordinator.stop().await;
}

#[tokio::test]
async fn update_survives_leader_kill_after_any_signal() {
    let embedded = Embedded::in_memory();
    let mut coordinator = Coordinator::start(&embedded, "c0").await;
    coordinator.leads().await;
    let mut door = with_a_document(&coordinator).await;
    door.set_metadata(&json!({"document": {"x": 2}, "pattern": "rolling"})).await;
    let mut reported: Vec<String> = Vec::new();
    for n in 1..=4 {
        let exposed = {
            until(&coordinator, &door, |group| group["update"]["batch"] == n).await;
            door.exposed().await
        };
        assert_eq!(exposed.len(), n);
        let fresh = exposed.into_iter().find(|name| !reported.contains(name)).unwrap();
        assert_eq!(door.signal(&fresh, &json!({"success": true})).await.status, StatusCode::OK);
        reported.push(fresh);
        // A holder would keep its leadership alive.
        drop(door);
        coordinator.kill();
        coordinator = Coordinator::start(&embedded, &format!("c{n}")).await;
        coordinator.leads().await;
        door = Door::of_metadata(&coordinator).await;
    }
    let group = until(&coordinator, &door, |group| group["update"].is_null()).await;
    assert_eq!((&group["current"], &group["last"]["outcome"]), (&json!(2), &json!("finished")), "{group:#}");
    coordinator.stop().await;
}

#[tokio::test]
async fn late_signal_fails_and_service_returns_to_former_document() {
    let (embedded, coordinator, _herd) = world(3).await;
    let door = Door::of_metadata(&coordinator).await;
    let service = crate::herd::service();
    let first = json!({"document": {"x": 1}, "service": service.as_str()});
    assert_eq!(door.set_metadata(&first).await.status, StatusCode::OK);
    let update = json!({"document": {"x": 2}, "pattern": "canary", "timeout": "300ms"});
    assert_eq!(door.set_metadata(&update).await.body["generation"], 2);
    let group =
        until(&coordinator, &door, |group| !group["last"].is_null() && group["last"]["generation"] == 2)
            .await;
    assert_eq!((&group["last"]["outcome"], &group["current"]), (&json!("returned"), &json!(1)), "{group:#}");
    assert!(group["last"]["because"].as_str().unwrap().contains("timeout"), "{group:#}");
    // A follower answers too.
    let follower = Coordinator::over(store(&embedded).await, "two");
    let shown = coordinator.context.mirror.sync_status().borrow().revision;
    follower.context.mirror.reaches(shown).await;
    let theirs = Door::of_metadata(&follower).await;
    let instance = coordinator
        .context
        .mirror
        .view()
        .fleet
        .service(&service)
        .unwrap()
        .instances()
        .next()
        .unwrap()
        .node
        .clone();
    assert_eq!(theirs.serves(instance.as_str()).await, (1, false));
    follower.stop().await;
    coordinator.stop().await;
}

/// A coordinator that has not seen the newest record yet says so; it does not serve what that record has replaced.
#[tokio::test]
async fn instance_that_asks_a_late_follower_gets_no_former_document() {
    let embedded = Embedded::in_memory();
    let coordinator = Coordinator::start(&embedded, "one").await;
    coordinator.leads().await;
    let door = with_a_document(&coordinator).await;
    let store = Reader::clone(&*store(&embedded).await);
    let context = Context { mirror: Mirror::new(), store, ..coordinator.context.clone() };
    let shown = coordinator.context.mirror.sync_status().borrow().revision;
    let end = CancellationToken::new();
    let following = tokio::spawn(Arc::clone(&context.mirror).follow(context.store.clone(), end.clone()));
    context.mirror.reaches(shown).await;
    end.cancel();
    following.await.unwrap();

    assert_eq!(door.set_metadata(&json!({"document": {"x": 2}})).await.body["generation"], 2);
    let late = Door::of(&context, "/v1", |path| path.starts_with("/groups")).await;
    let answer = late.look("/edge/instances/i-1/metadata").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.body);
    let end = CancellationToken::new();
    tokio::spawn(Arc::clone(&context.mirror).follow(context.store.clone(), end.clone()));
    context
        .mirror
        .reaches(context.store.get(&Key::Group("edge".parse().unwrap())).await.unwrap().unwrap().mod_revision)
        .await;
    assert_eq!(late.serves("i-1").await, (2, false));
    end.cancel();
    coordinator.stop().await;
}

/// A key that a person restored from another store: the number is the same, and the document is not.
#[tokio::test]
async fn document_that_its_record_does_not_name_is_not_served() {
    let embedded = Embedded::in_memory();
    let coordinator = Coordinator::start(&embedded, "one").await;
    coordinator.leads().await;
    let door = with_a_document(&coordinator).await;
    let key = Key::Document("edge".parse().unwrap(), MetadataGeneration::new(1).unwrap());
    let other = Document { document: json!({"x": 9}) };
    store(&embedded).await.commit(&Commit::new().put(key, other)).await.unwrap();
    let answer = door.look("/edge/instances/i-1/metadata").await;
    assert_eq!(answer.status, StatusCode::CONFLICT, "{}", answer.body);
    let message = answer.body["message"].as_str().unwrap();
    assert!(message.contains("is not the document that its group's record names"), "{message}");
    coordinator.stop().await;
}
