//! Verdicts of gate jobs and of compatibility runs: recorded over HTTP, waited for, and listed.

use crate::herd::release;
use crate::openapi::{Answer, Door};
use crate::world::{Coordinator, LIMIT, spec, world};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidegate_coordinator::operation;
use tidegate_proto::Digest;
use tidegate_proto::record::evidence::KEPT;
use tidegate_proto::wire::v1::{
    Event, ExplainUpgradeRequest, FleetHistoryRequest, Reason, RecordEvidenceRequest,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const GATES: &str = "/v1/gates/pantry-api/zero-downtime";

async fn door(coordinator: &Coordinator) -> Door {
    Door::of(&coordinator.context, "/v1", |path| path.starts_with("/gates")).await
}

/// The verdict on the two artifacts of the upgrade, with changes.
fn verdict(change: Json) -> Json {
    let mut body = json!({
        "from": 1, "to": 2, "from_sha256": release(1).sha256, "to_sha256": release(2).sha256,
        "verdict": "pass", "report_sha256": Digest::of(b"report"), "note": "gate items",
    });
    body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    body
}

async fn post(door: &Door, path: &str, body: &Json) -> Answer {
    door.send("PUT", path, Some(body.to_string())).await
}

/// The one reason for which it waits, once a turn has recorded it.
async fn waits_for(coordinator: &Coordinator) -> Reason {
    let asked = ExplainUpgradeRequest { id: "u1".to_owned() };
    let mut sync_status = coordinator.context.mirror.sync_status();
    let reported = async {
        loop {
            let reasons = operation::explain_upgrade(&coordinator.context, &asked).await.unwrap().reasons;
            match reasons.as_slice() {
                [] => sync_status.changed().await.unwrap(),
                [reason] => return reason.clone(),
                more => panic!("{more:#?}"),
            }
        }
    };
    timeout(LIMIT, reported).await.expect("a reason in time")
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrade_waits_in_preflight_for_the_verdict_and_goes_on() {
    let (_embedded, coordinator, herd) = world(3).await;
    let end = CancellationToken::new();
    tokio::spawn(herd.run(end.clone()));
    let gated = spec("requires_gate: [{tag: zero-downtime, from: 1, to: 2}]");
    let started = coordinator.start_upgrade(&gated, "u1").await.unwrap();
    let found = started.findings.iter().find(|finding| finding.what.contains("no verdict is recorded"));
    assert!(found.is_some_and(|finding| finding.blocking), "{:?}", started.findings);
    let reason = waits_for(&coordinator).await;
    assert_eq!(reason.kind, "gate-verdict");
    let (from, to) = (release(1).sha256, release(2).sha256);
    let command = format!("grenade record report.json --from-sha256 {from} --to-sha256 {to}");
    assert_eq!(reason.next_step.as_deref(), Some(command.as_str()));

    let door = door(&coordinator).await;
    for reported in ["fail", "inconclusive"] {
        let answer = post(&door, GATES, &verdict(json!({"verdict": reported}))).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    }
    assert_eq!(coordinator.status("u1").await.upgrade.unwrap().phase, "preflight");
    let reported = post(&door, GATES, &verdict(json!({}))).await.body;
    assert_eq!(reported["what"], "zero-downtime of pantry-api from 1 to 2: pass");
    coordinator.reaches("u1", "completed").await;

    let listed = door.send("GET", "/v1/gates?service=pantry-api", None).await.body;
    let [gate] = listed.as_array().unwrap().as_slice() else { panic!("{listed:#}") };
    let earlier: Vec<&Json> = gate["earlier"].as_array().unwrap().iter().map(|one| &one["verdict"]).collect();
    assert_eq!(earlier, ["inconclusive", "fail"], "{gate:#}");
    assert_eq!(
        (&gate["verdict"], &gate["who"], &gate["report_sha256"], &gate["from_sha256"]),
        (&json!("pass"), &json!("ci"), &json!(Digest::of(b"report")), &json!(from)),
        "{gate:#}"
    );
    assert_eq!(door.send("GET", "/v1/gates?service=other", None).await.body, json!([]));
    end.cancel();
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verdict_that_is_wrong_is_refused_with_what_is_allowed() {
    let (_embedded, coordinator, _herd) = world(1).await;
    let door = door(&coordinator).await;
    let cases = [
        ("/v1/gates/pantry-api/zero-errors", json!({}), "tag: \"zero-errors\" is not an upgrade tag"),
        ("/v1/gates/pantry%20api/rolling", json!({}), "service"),
        (GATES, json!({"verdict": "passed"}), "pass, fail or inconclusive is allowed"),
        (GATES, json!({"from": 0}), "from: 0 is not a service version"),
        (GATES, json!({"to": 1}), "to: 1 is not above `from` (1)"),
        (GATES, json!({"from_sha256": "abc"}), "from_sha256: \"abc\" is not a sha256"),
        (GATES, json!({"to_sha256": ""}), "to_sha256 is empty: a sha256 or absent is needed"),
        (GATES, json!({"report_sha256": "x"}), "report_sha256: \"x\""),
        (GATES, json!({"note": "a\nb"}), "note holds control characters"),
    ];
    for (path, change, says) in cases {
        let answer = post(&door, path, &verdict(change)).await;
        let reported = answer.body["message"].as_str().unwrap_or_default();
        assert_eq!(
            (answer.status, reported.contains(says)),
            (StatusCode::BAD_REQUEST, true),
            "{says}: {reported}"
        );
    }
    assert_eq!(door.send("GET", "/v1/gates", None).await.body, json!([]), "nothing was changed");
    coordinator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn evidence_is_listed_with_its_log_and_with_what_waits_for_it() {
    let (_embedded, coordinator, _herd) = world(1).await;
    let door = Door::of_releases(&coordinator).await;
    let body = json!({
        "version": 1, "tag": "c-1", "manifest": {}, "requires": {"pantry-api": 1}, "evidence": "required",
    });
    assert_eq!(door.post("", &body).await.body["status"], "pending");
    let list = async |query: &str| {
        let reported = door.send("GET", &format!("/management/api/v2/evidence{query}"), None).await;
        assert_eq!(reported.status, StatusCode::OK, "{}", reported.body);
        reported.body.as_array().unwrap().clone()
    };
    let waiting = json!([{"stream": "compute", "revision": 1}]);
    let pairs = list("").await;
    assert_eq!(
        (pairs.len(), &pairs[0]["waiting"], pairs[0].get("verdict")),
        (1, &waiting, None),
        "{pairs:?}"
    );
    let log = Digest::of(b"log").to_string();
    let failed = json!({"verdict": "fail", "note": "exit status 3", "log_sha256": log});
    assert_eq!(door.put("/evidence/c-1/pantry-1.0.0", &failed).await.status, StatusCode::OK);
    let pairs = list("?compute_tag=c-1").await;
    assert_eq!((&pairs[0]["log_sha256"], &pairs[0]["waiting"]), (&json!(log), &waiting), "{pairs:?}");
    assert_eq!((&pairs[0]["verdict"], &pairs[0]["who"]), (&json!("fail"), &json!("ci")));
    assert_eq!(list("?storage_tag=other").await, Vec::<Json>::new());

    let leadership = coordinator.context.led_here().unwrap();
    let (compute_tag, storage_tag, verdict) = ("c-11".into(), "pantry-1.0.1".into(), "pass".into());
    let (note, who, log_sha256) = (String::new(), "ci".into(), String::new());
    let misspelt = RecordEvidenceRequest { compute_tag, storage_tag, verdict, note, who, log_sha256 };
    let warnings = operation::release::record_evidence(&coordinator.context, &leadership, misspelt)
        .await
        .unwrap()
        .warnings;
    assert!(warnings[0].contains("c-11") && warnings[1].contains("pantry-1.0.1"), "{warnings:?}");
    let shown = door.put("/evidence/c-11/pantry-1.0.1", &json!({"verdict": "pass"})).await.warning;
    assert!(shown.as_deref().is_some_and(|shown| shown.contains("c-11")), "{shown:?}");
    for (path, body) in [
        ("/evidence/c-1/a%20b", json!({"verdict": "pass"})),
        ("/evidence/c-1/s-1", json!({"verdict": "good"})),
        ("/evidence/c-1/s-1", json!({"verdict": "pass", "log_sha256": "12"})),
    ] {
        assert_eq!(door.put(path, &body).await.status, StatusCode::BAD_REQUEST, "{path} {body}");
    }
    assert_eq!(
        door.put("/evidence/c-1/pantry-1.0.0", &json!({"verdict": "pass"})).await.status,
        StatusCode::OK
    );
    let pairs = list("?compute_tag=c-1").await;
    let [earlier] = pairs[0]["earlier"].as_array().unwrap().as_slice() else { panic!("{pairs:?}") };
    assert_eq!(
        (&earlier["verdict"], &earlier["note"], &earlier["sha256"], &earlier["who"]),
        (&json!("fail"), &json!("exit status 3"), &json!(log), &json!("ci"))
    );
    door.becomes(&coordinator, 1, "deployed").await;
    assert_eq!(list("?compute_tag=c-1").await[0].get("waiting").unwrap_or(&json!([])), &json!([]));
    coordinator.stop().await;
}

/// Which of two that are recorded at once counts is the order of their transactions; neither is lost.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_verdicts_are_kept_and_oldest_leave() {
    let (_embedded, coordinator, _herd) = world(1).await;
    let door = Door::of_releases(&coordinator).await;
    let record = async |n: usize| {
        let body =
            json!({"verdict": if n.is_multiple_of(2) { "pass" } else { "fail" }, "note": format!("run {n}")});
        assert_eq!(door.put("/evidence/c-1/s-1", &body).await.status, StatusCode::OK);
    };
    tokio::join!(record(0), record(1), record(2));
    let pair = async || {
        let listed = door.send("GET", "/management/api/v2/evidence", None).await.body;
        listed.as_array().unwrap()[0].clone()
    };
    let notes = |pair: &Json| -> Vec<String> {
        let earlier = pair["earlier"].as_array().unwrap().iter();
        std::iter::once(pair).chain(earlier).map(|one| one["note"].as_str().unwrap().to_owned()).collect()
    };
    let mut at_once = notes(&pair().await);
    at_once.sort();
    assert_eq!(at_once, ["run 0", "run 1", "run 2"]);
    // An answer that was lost, and the same request again, are one run.
    record(3).await;
    record(3).await;
    assert_eq!(notes(&pair().await)[..1], ["run 3"]);
    assert_eq!(notes(&pair().await).len(), 4);
    for n in 4..30 {
        record(n).await;
    }
    let kept = notes(&pair().await);
    assert_eq!((kept.len(), kept[0].as_str(), kept[20].as_str()), (KEPT + 1, "run 29", "run 9"));
    let history = operation::fleet_history(&coordinator.context, &FleetHistoryRequest {}).await.unwrap();
    for n in 0..30 {
        let of =
            |event: &&Event| event.because == format!("run {n}") && event.to.starts_with("c-1 with s-1: ");
        assert_eq!(history.iter().filter(of).count(), if n == 3 { 2 } else { 1 }, "run {n}");
    }
    coordinator.stop().await;
}
