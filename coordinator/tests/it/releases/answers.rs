//! Answers of every operation on compute releases: status, ETag and reasons.

use super::{RELEASES, door, release};
use axum::http::StatusCode;
use serde_json::json;

#[tokio::test]
async fn every_documented_operation_answers_as_documented() {
    let (_embedded, coordinator, door) = door().await;
    let settings = json!({ "approval": "required", "minimum_available": 1, "rollback_window": "1h" });
    assert_eq!(door.put("/streams/compute", &settings).await.status, StatusCode::OK);
    let manifest = json!({ "pg_settings": { "common": { "max_wal_size": "1024" } } });
    let body = json!({ "version": 1, "tag": "t1", "manifest": manifest });
    assert_eq!(door.post("", &body).await.body["status"], "pending");
    assert_eq!(door.get("/1/explain").await.body[0]["status"], "pending");
    assert_eq!(
        door.put("/compute_releases/1/available", &json!({ "available": true })).await.status,
        StatusCode::OK
    );
    assert_eq!(door.post("/1/approve", &json!({ "note": "go" })).await.status, StatusCode::OK);
    door.becomes(&coordinator, 1, "deployed").await;
    assert_eq!(door.get("/1").await.body["approved_by"], "ci");
    assert_eq!(
        door.put("/compute_releases/pins/ep-1", &json!({ "revision": 1, "why": "x" })).await.status,
        StatusCode::OK
    );
    assert_eq!(door.get("/start?compute_id=ep-1").await.body["because"], "pinned");
    assert_eq!(door.put("/compute_releases/running", &json!({ "t1": 3 })).await.status, StatusCode::OK);
    for path in [
        "/1/settings?pg_version=17&role=replica",
        "/by_tag/t1/settings?pg_version=17",
        "/by_tag/custom/settings?pg_version=17",
    ] {
        let resolved = door.get(path).await;
        assert_eq!(resolved.body["settings"]["max_wal_size"]["value"], "1024", "{path}: {}", resolved.body);
    }
    let unpinned = door.send("DELETE", &format!("{RELEASES}/pins/ep-1"), None).await;
    assert_eq!(unpinned.status, StatusCode::OK);
    let evidence = json!({ "verdict": "pass", "note": "run 7" });
    assert_eq!(door.put("/evidence/t1/pantry-2.0.0", &evidence).await.status, StatusCode::OK);
    for path in ["/deployed", "/by_tag/t1", "/start?compute_id=ep-2", ""] {
        assert_eq!(door.get(path).await.status, StatusCode::OK, "{path}");
    }
    assert_eq!(
        door.post("/1/promote", &json!({ "deploy": true })).await.status,
        StatusCode::OK,
        "it is so already"
    );
    assert_eq!(door.post("/rollback", &json!({ "revision": 1 })).await.status, StatusCode::OK);
    assert_eq!(door.post("/1/retry", &json!({})).await.status, StatusCode::CONFLICT, "it did not fail");
    assert_eq!(
        door.put("/compute_releases/1/signals/ep-1", &json!({ "success": true })).await.status,
        StatusCode::CONFLICT,
        "it is in no canary"
    );
    let paths = [
        "/streams",
        "/streams/compute",
        "/streams/compute/active",
        "/streams/compute/history",
        "/evidence",
        "/openapi.json",
    ];
    for path in paths {
        let found = door.send("GET", &format!("/management/api/v2{path}"), None).await;
        assert_eq!(found.status, StatusCode::OK, "{path}");
    }
    door.was_asked_everything();
    coordinator.stop().await;
}

#[tokio::test]
async fn etag_follows_the_status_and_is_recognised() {
    let (_embedded, coordinator, door) = door().await;
    door.create(9057).await;
    for path in [
        "/compute_releases/1",
        "/compute_releases/deployed",
        "/compute_releases/by_tag/release-9057",
        "/streams/compute/active",
    ] {
        let path = format!("/management/api/v2{path}");
        let etag = door.send("GET", &path, None).await.etag.expect("a tag");
        for known in [etag.clone(), format!("W/{etag}"), format!("\"x\", {etag}"), "*".to_owned()] {
            let again = door.send_knowing("GET", &path, None, Some(&known)).await;
            assert_eq!(
                (again.status, again.etag.as_ref()),
                (StatusCode::NOT_MODIFIED, Some(&etag)),
                "{path} {known}"
            );
        }
        let other = door.send_knowing("GET", &path, None, Some("\"x\"")).await;
        assert_eq!(other.status, StatusCode::OK, "{path}");
    }
    let deployed = door.get("/1").await.etag;
    door.create(9058).await;
    let superseded = door.becomes(&coordinator, 1, "superseded").await;
    assert_eq!(superseded["status"], "superseded");
    assert_ne!(door.get("/1").await.etag, deployed, "the status is part of it");
    coordinator.stop().await;
}

#[tokio::test]
async fn stream_that_is_not_there_is_not_made_by_asking_for_it() {
    let (_embedded, coordinator, door) = door().await;
    door.create(9057).await;
    let asked = [
        ("POST", "?stream=mistyped", Some(release(1))),
        ("POST", "/rollback?stream=mistyped", Some(json!({"revision": 1}))),
        ("GET", "?stream=mistyped", None),
        ("GET", "/deployed?stream=mistyped", None),
        ("PUT", "/pins/ep-1?stream=mistyped", Some(json!({"revision": 1, "why": "a test"}))),
    ];
    for (method, path, body) in asked {
        let answer = door.send(method, &format!("{RELEASES}{path}"), body.map(|body| body.to_string())).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{method} {path}: {}", answer.body);
    }
    let streams = door.send("GET", "/management/api/v2/streams", None).await.body;
    assert_eq!(streams.as_array().map(Vec::len), Some(1), "{streams}");
    coordinator.stop().await;
}

#[tokio::test]
async fn every_revision_that_exists_is_explained() {
    let (_embedded, coordinator, door) = door().await;
    for version in 1..=6 {
        door.create(version).await;
    }
    door.becomes(&coordinator, 6, "deployed").await;
    for revision in 1..=6 {
        let waits = door.get(&format!("/{revision}/explain")).await;
        assert_eq!(
            (waits.status, &waits.body[0]["revision"]),
            (StatusCode::OK, &json!(revision)),
            "{}",
            waits.body
        );
        assert_eq!(waits.body[0]["reasons"], json!([]), "nothing holds it: {}", waits.body);
    }
    assert_eq!(door.get("/7/explain").await.status, StatusCode::NOT_FOUND);
    coordinator.stop().await;
}
