//! Every verb over HTTP: its description, and a whole upgrade with nothing but HTTP.

use crate::herd::Herd;
use crate::openapi::Door;
use crate::world::{Coordinator, spec, world};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

impl Door {
    async fn of_fleet(coordinator: &Coordinator) -> Self {
        Self::of(&coordinator.context, "/v1", |path| !path.starts_with("/groups")).await
    }

    async fn see(&self, path: &str) -> Json {
        let answer = self.send("GET", &format!("/v1{path}"), None).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.body);
        answer.body
    }

    async fn post_verb(&self, path: &str, body: Json) -> (StatusCode, Json) {
        let answer = self.send("POST", &format!("/v1{path}"), Some(body.to_string())).await;
        (answer.status, answer.body)
    }

    async fn does(&self, path: &str, body: Json) -> Json {
        let (status, reported) = self.post_verb(path, body).await;
        assert_eq!(status, StatusCode::OK, "{path}: {reported}");
        reported
    }
}

/// The descriptions are part of the documentation: a change of an address, a role or a field shows in the diff.
#[tokio::test(flavor = "multi_thread")]
async fn descriptions_are_those_that_are_checked_in() {
    let (_embedded, coordinator, _herd) = world(0).await;
    for (base, file) in [("/v1", "fleet.json"), ("/management/api/v2", "releases.json")] {
        let door = Door::of(&coordinator.context, base, |_| true).await;
        let document = door.send("GET", &format!("{base}/openapi.json"), None).await.body;
        let text = format!("{document:#}\n");
        let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi")).join(file);
        if std::env::var_os("TIDEGATE_WRITE_OPENAPI").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            stored == text,
            "docs/openapi/{file} is not what is served: run this test with TIDEGATE_WRITE_OPENAPI=1 and look at the diff"
        );
    }
    coordinator.stop().await;
}

/// Starts upgrade `u1` and runs it to its end.
async fn run_upgrade(door: &Door, herd: Herd, end: CancellationToken) {
    assert_eq!(door.see("/leader").await["here"], true);
    let asked = json!({"spec": spec("approvals: [remove]"), "id": "u1"});
    let preview = door.does("/previews/upgrade", asked.clone()).await;
    assert_eq!(preview["waves"][0]["size"], 1, "{preview:#}");
    assert_eq!(door.does("/upgrades", asked.clone()).await["id"], "u1");
    assert_eq!(door.post_verb("/upgrades", asked).await.0, StatusCode::CONFLICT, "one at a time");
    tokio::spawn(herd.run(end));
    assert_eq!(
        door.does("/upgrades/u1/pause", json!({"why": "lunch"})).await["what"].as_str(),
        Some("upgrade u1 is paused: nothing new begins")
    );
    assert_eq!(door.see("/upgrades?active=true&limit=1").await["upgrades"][0]["paused"], true);
    door.does("/upgrades/u1/resume", json!({})).await;
    while door.post_verb("/upgrades/u1/approve", json!({"phase": "remove", "note": "go"})).await.0
        != StatusCode::OK
    {
        assert_ne!(door.see("/upgrades/u1").await["upgrade"]["over"], true);
    }
    let reported = door.see("/upgrades/u1/watch").await;
    let last = reported.as_array().unwrap().last().unwrap();
    assert_eq!(last["over"]["phase"], "completed", "{last}");
}

/// What is read of a fleet after its upgrade; returns the path of a node.
async fn read_fleet(door: &Door) -> String {
    let events = door.see("/upgrades/u1/history").await;
    assert!(events.as_array().unwrap().len() > 4, "{events:#}");
    assert_eq!(door.see("/upgrades/u1/explain").await["reasons"], json!([]));
    assert_eq!(
        door.see("/fleet/spread?service=pantry-api").await["services"][0]["by_version"],
        json!({"2": 6})
    );
    let versions = door.see("/fleet/services/pantry-api/versions").await;
    assert_eq!(
        (&versions["distinct"], &versions["minimum"], &versions["silent"]),
        (&json!([2]), &json!(2), &json!(0))
    );
    let instances = door.see("/fleet/instances").await;
    assert_eq!(instances.as_array().map(Vec::len), Some(6));
    let none = door.send("GET", "/v1/upgrades/u2/certificate", None).await;
    assert_eq!((none.status, &none.body["error"]), (StatusCode::NOT_FOUND, &json!("not-found")));
    format!("/fleet/nodes/{}", instances[0]["node"].as_str().unwrap())
}

async fn change_fleet(door: &Door, node: &str) {
    door.does(&format!("{node}/cordon"), json!({"why": "a disk"})).await;
    door.does(&format!("{node}/uncordon"), json!({})).await;
    let window = json!({"service": "pantry-api", "floor": 1, "ceiling": 2, "why": "a test"});
    door.post_verb("/previews/window", window).await;
    let window = json!({"floor": 1, "ceiling": 2, "why": "a test"}).to_string();
    door.send("PUT", "/v1/fleet/services/pantry-api/window", Some(window)).await;
    let token = door.does("/tokens", json!({"name": "ann", "role": "read"})).await;
    assert!(token["token"].as_str().unwrap().starts_with("tgt_"));
    let revoke = format!("/tokens/{}/revoke", token["id"].as_str().unwrap());
    door.does(&revoke, json!({"why": "a test"})).await;
    let tokens = door.see("/tokens?all=true").await;
    assert_eq!(
        (&tokens[0]["name"], &tokens[0]["revoked"]["by"]),
        (&json!("ann"), &json!("ci")),
        "by whom the door knows"
    );
}

async fn read_and_record_verdicts(door: &Door) {
    let path = "/v1/fleet/reconciliation?disregard=pantry-api/n1&disregard=pantry-api/n2";
    let nothing = door.send("GET", path, None).await;
    assert_eq!(nothing.body["message"], "nothing contradicts the store: there is nothing to reconcile");
    assert_eq!(door.see("/tasks").await, json!([]), "nothing was ordered");
    let gate = json!({"from": 1, "to": 2, "from_sha256": "absent", "to_sha256": "absent", "verdict": "pass"});
    let gate = door.send("PUT", "/v1/gates/pantry-api/rolling", Some(gate.to_string())).await;
    assert_eq!(gate.status, StatusCode::OK, "{}", gate.body);
    assert_eq!(door.see("/gates").await[0]["from_sha256"], "absent");
    let history = door.see("/fleet/history").await;
    assert!(history.as_array().unwrap().iter().all(|event| event["who"] == "ci"), "{history:#}");
}

/// Requests that come too late, or name nothing.
async fn refuse_late_requests(door: &Door) {
    for (path, body) in [
        ("/upgrades/u1/rollback", json!({"why": "late"})),
        ("/upgrades/u1/instances/n1/skip", json!({"why": "late"})),
        ("/upgrades/u1/instances/n1/retry", json!({})),
        ("/fleet/decommission", json!({"instance": "pantry-api/n9", "why": "gone"})),
        ("/fleet/reconciliation", json!({"why": "x", "hash": "00"})),
        ("/tasks/n1/none/settle", json!({"outcome": "failed", "why": "x"})),
    ] {
        let (status, reported) = door.post_verb(path, body).await;
        assert!(status.is_client_error(), "{path}: {status} {reported}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrade_completes_over_http_with_every_verb_called() {
    let (_embedded, coordinator, herd) = world(6).await;
    let end = CancellationToken::new();
    let door = Door::of_fleet(&coordinator).await;
    run_upgrade(&door, herd, end.clone()).await;
    let node = read_fleet(&door).await;
    change_fleet(&door, &node).await;
    read_and_record_verdicts(&door).await;
    refuse_late_requests(&door).await;
    door.see("/openapi.json").await;
    door.was_asked_everything();
    end.cancel();
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_refused_with_what_is_allowed() {
    let (_embedded, coordinator, _herd) = world(1).await;
    let door = Door::of_fleet(&coordinator).await;
    for (method, path, body, says) in [
        ("POST", "/upgrades", r#"{"id": "u1"}"#, "the field `spec` is missing"),
        ("POST", "/upgrades", r#"{"spec": 7}"#, "string"),
        ("POST", "/upgrades", r#"{"spec": "", "spec": ""}"#, "twice"),
        ("POST", "/upgrades", "[]", "map"),
        (
            "POST",
            "/upgrades/u1/pause",
            r#"{"why": "x", "id": "u2"}"#,
            "unknown field `id`: allowed are why, who",
        ),
        ("POST", "/upgrades/u1/pause", r#"{"why": null}"#, "why is null"),
        ("POST", "/upgrades/u1/pause", r#"{"wy": "x"}"#, "unknown field `wy`: allowed are why, who"),
        ("POST", "/upgrades/u1/pause?why=x", r#"{"why": "x"}"#, "given twice"),
        ("GET", "/upgrades?limit=many", "", "a whole number is allowed"),
        ("GET", "/upgrades?active=yes", "", "true or false is allowed"),
        ("GET", "/upgrades?limit=5000000000", "", "cannot be read"),
        ("GET", "/upgrades?after=a&after=b", "", "given twice"),
        ("GET", "/leader?x=1", "", "nothing is allowed here"),
        ("PUT", "/fleet/services/pantry-api/window", r#"{"floor": 1.5, "ceiling": 2}"#, "cannot be read"),
    ] {
        let answer = door.send(method, &format!("/v1{path}"), Some(body.to_owned())).await;
        let reported = answer.body["message"].as_str().unwrap_or_default();
        assert_eq!(
            (answer.status, reported.contains(says)),
            (StatusCode::BAD_REQUEST, true),
            "{path} {body}: {reported}"
        );
    }
    coordinator.stop().await;
}
